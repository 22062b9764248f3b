/** Reads members of signed documents: each is checked, and a member more or less is refused by name. */

import { type Bytes, fromHex } from "../base/bytes.js";
import type { Json } from "../base/canonical.js";
import { DocumentError } from "../base/errors.js";
import { SPAN } from "../base/random.js";
import { isWeak } from "../base/signatures.js";

export type Members = { [name: string]: Json };

const DIRECTIONS = /[\u202a-\u202e\u2066-\u2069]/u;
const SPACES = /^\p{Zs}+$/u;
/** Not `trim`, which takes the mark U+FEFF for a space. */
const SPACE_AT_AN_END = /^\p{Zs}|\p{Zs}$/u;
const PRINTABLE = /^[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Zs}\p{Cf}]*$/u;

export function refused(where: string, problem: string): DocumentError {
  return new DocumentError(
    "value",
    `${where} ${problem}; this version reads hubbub-task/1, ask the operator`,
  );
}

/** Return an object that has exactly these members. */
export function members(value: Json | undefined, where: string, names: readonly string[]): Members {
  const found = object(value, where);
  for (const name of Object.keys(found)) {
    if (!names.includes(name))
      throw refused(where, `has a member that is not read here, ${name.slice(0, 80)}`);
  }
  for (const name of names) if (!Object.hasOwn(found, name)) throw refused(where, `has no member ${name}`);
  return found;
}

export function object(value: Json | undefined, where: string): Members {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw refused(where, "is no object");
  return value;
}

export function list(value: Json | undefined, where: string, least: number, most: number): Json[] {
  if (!Array.isArray(value) || value.length < least || value.length > most) {
    throw refused(where, `is no list of ${least} to ${most} members`);
  }
  return value;
}

export function double(value: Json | undefined, where: string, least: number, most: number): number {
  if (typeof value !== "number" || value < least || value > most) {
    throw refused(where, `is no number from ${least} to ${most}`);
  }
  return value;
}

/** Return a number above 0. */
export function positive(value: Json | undefined, where: string, most: number): number {
  if (double(value, where, 0, most) === 0) throw refused(where, "is not above 0");
  return value as number;
}

export function whole(value: Json | undefined, where: string, least: number, most: number): number {
  if (!Number.isSafeInteger(double(value, where, least, most))) throw refused(where, "is no whole number");
  return value as number;
}

export function bool(value: Json | undefined, where: string): boolean {
  if (typeof value !== "boolean") throw refused(where, "is neither true nor false");
  return value;
}

export function oneOf<T extends string>(value: Json | undefined, where: string, known: readonly T[]): T {
  if (!known.includes(value as T)) throw refused(where, `is none of ${known.join(", ")}`);
  return value as T;
}

export function key(value: Json | undefined, where: string): Bytes {
  const found = fromHex(value, 32);
  if (found === null) throw refused(where, "is no public key of 64 hex digits");
  if (isWeak(found)) throw refused(where, "is a weak key: it is no point of prime order in its one form");
  return found;
}

/** Return the w of a share [w, 2³²], from 1 to 2³² − 1. */
export function share(value: Json | undefined, where: string): number {
  const [w, under] = list(value, where, 2, 2);
  if (under !== SPAN) throw refused(where, `is not over ${SPAN}`);
  return whole(w, where, 1, SPAN - 1);
}

/** Return a text of printable characters; all of one look have one form. */
export function printable(value: Json | undefined, where: string, least: number, most: number): string {
  if (typeof value !== "string") throw refused(where, "is no text");
  const length = [...value].length;
  if (length < least || length > most) throw refused(where, `is no text of ${least} to ${most} characters`);
  if (least > 0 && SPACES.test(value)) throw refused(where, "has nothing but spaces");
  if (!PRINTABLE.test(value) || DIRECTIONS.test(value))
    throw refused(where, "has characters that are not printable");
  return value;
}

/** Return a name that is compared with what an application gives: in NFC, without spaces at its ends. */
export function label(value: Json | undefined, where: string, most: number): string {
  const found = printable(value, where, 1, most);
  if (found.normalize("NFC") !== found || SPACE_AT_AN_END.test(found)) {
    throw refused(where, "is not in Unicode's composed form, or has spaces at its ends");
  }
  return found;
}

/** Return the name of a task, or of what is named like one. */
export function taskName(value: Json | undefined, where: string): string {
  if (typeof value !== "string" || !/^[A-Za-z][A-Za-z0-9_-]{0,62}$/.test(value)) throw refused(where, "is no name");
  return value;
}

export function queryName(value: Json | undefined, where: string): string {
  const found = label(value, where, 63);
  if (found.includes("=")) throw refused(where, "has an =");
  return found;
}
