/** The canonical form of JSON, RFC 8785: what is signed has exactly one text. */

import { type Bytes, fromUtf8, isSame, utf8 } from "./bytes.js";
import { DocumentError } from "./errors.js";

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** Most bytes of a document, and most levels of values within each other. */
export const LONGEST = 64 * 2 ** 20;
export const DEEPEST = 100;

/** Return a member by a name that another party or a person chose: never what every object inherits. */
export function member<T>(of: Readonly<Record<string, T>> | undefined, name: string): T | undefined {
  return of !== undefined && Object.hasOwn(of, name) ? of[name] : undefined;
}

/** Return the canonical bytes of a value; throw a DocumentError if it has none, such as half a surrogate pair. */
export function canonical(value: Json): Bytes {
  return utf8(written(value, 0));
}

function written(value: Json, level: number): string {
  if (level > DEEPEST) throw wrong(`has values within each other in more than ${DEEPEST} levels`);
  if (typeof value === "string") return text(value);
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw wrong("has a number that is no double");
    return JSON.stringify(value);
  }
  if (value === null || typeof value === "boolean") return String(value);
  if (Array.isArray(value)) return `[${value.map((each) => written(each, level + 1)).join(",")}]`;
  // The default order of `sort` is that of UTF-16 code units, as the RFC wants it.
  const members = Object.keys(value).sort();
  return `{${members.map((name) => `${text(name)}:${written(value[name]!, level + 1)}`).join(",")}}`;
}

function text(value: string): string {
  if (!value.isWellFormed()) throw wrong("has half of a surrogate pair");
  return JSON.stringify(value);
}

/** Return what canonical bytes say; throw a DocumentError if they are not the canonical form of what they say. */
export function parseCanonical(bytes: Uint8Array): Json {
  if (bytes.length > LONGEST) throw wrong(`has ${bytes.length} bytes, more than ${LONGEST}`);
  let value: Json;
  try {
    value = JSON.parse(fromUtf8(bytes)) as Json;
  } catch {
    // The parser's own message would show a part of what it read.
    throw wrong("is not JSON in UTF-8");
  }
  // A member twice, another order, a space or another way to write a number: all of them write other bytes.
  if (!isSame(canonical(value), bytes)) throw wrong("is not in canonical form (RFC 8785)");
  return value;
}

function wrong(what: string): DocumentError {
  return new DocumentError("canonical", `the document ${what}; take it unchanged from who made it`);
}
