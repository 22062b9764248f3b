/** Reads JSON in one way, or not at all: what readers take differently is refused (RFC 8259 leaves it open).
 *
 * A whole number is a `number`, and one that is written with a fraction or an exponent a `Float`: where a whole number
 * has to be, 4.0 is none. Objects inherit nothing, so a member may have any name. */

import { fromUtf8, utf8 } from "../../src/base/bytes.js";
import { DEEPEST, type Json, LONGEST } from "../../src/base/canonical.js";
import { NotJson, Refused } from "./refused.js";

/** A number that is not written as a whole one, or is too far from 0 for each whole number to be a double. */
export class Float {
  constructor(readonly value: number) {}
}

export type Value = null | boolean | number | string | Float | Value[] | Members;
export interface Members {
  [name: string]: Value;
}

/** Most bytes of a file of results. */
export const LARGEST_RESULTS = 512 * 2 ** 20;
const LONGEST_WHOLE = 40;
const LONGEST_NUMBER = 1000;

const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const SPACE = /[ \t\n\r]*/y;
/** The part of a text up to its end, an escape, or a control character, which must be escaped. */
const RUN = /[^"\\\u0000-\u001f]*/y;
const WORDS: Readonly<Record<string, Value>> = { true: true, false: false, null: null };

export function readStrict(document: Uint8Array, largest = LONGEST): Value {
  if (document.length > largest)
    throw new Refused("json", `it has ${document.length} bytes, but at most ${largest} are read`);
  let text: string;
  try {
    text = fromUtf8(document);
  } catch {
    throw new NotJson("it is not UTF-8");
  }
  if (text.startsWith("\ufeff")) throw new NotJson("it begins with a byte order mark");
  return new Reader(text).whole();
}

class Reader {
  private at = 0;

  constructor(private readonly text: string) {}

  whole(): Value {
    const value = this.value(0);
    this.space();
    if (this.at < this.text.length) throw this.broken("has more behind its end");
    return value;
  }

  private value(depth: number): Value {
    this.space();
    const mark = this.text[this.at];
    if (mark === "{" || mark === "[") {
      if (depth >= DEEPEST)
        throw new Refused("json", `it has values within each other in more than ${DEEPEST} levels`);
      this.at += 1;
      return mark === "{" ? this.members(depth + 1) : this.list(depth + 1);
    }
    if (mark === '"') return this.string();
    for (const word of Object.keys(WORDS)) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return WORDS[word]!;
      }
    }
    return this.number();
  }

  private members(depth: number): Members {
    const found = Object.create(null) as Members;
    if (this.ends("}")) return found;
    for (;;) {
      this.space();
      if (this.text[this.at] !== '"') throw this.broken("has no name of a member");
      const name = this.string();
      if (name in found)
        throw new Refused("json", `the key ${JSON.stringify(name.slice(0, 80))} occurs twice in it`);
      this.space();
      if (this.text[this.at] !== ":") throw this.broken("has no colon");
      this.at += 1;
      found[name] = this.value(depth);
      if (this.ends("}")) return found;
      this.comma();
    }
  }

  private list(depth: number): Value[] {
    const found: Value[] = [];
    if (this.ends("]")) return found;
    for (;;) {
      found.push(this.value(depth));
      if (this.ends("]")) return found;
      this.comma();
    }
  }

  private comma(): void {
    if (this.text[this.at] !== ",") throw this.broken("has no comma");
    this.at += 1;
  }

  /** Pass over space, and over this mark if it follows. */
  private ends(mark: string): boolean {
    this.space();
    if (this.text[this.at] !== mark) return false;
    this.at += 1;
    return true;
  }

  private string(): string {
    const begin = this.at;
    this.at += 1;
    for (;;) {
      this.matched(RUN, "");
      const mark = this.text[this.at];
      if (mark === '"') break;
      if (mark !== "\\") throw this.broken("has a text without an end");
      this.at += 2;
    }
    this.at += 1;
    let text: string;
    try {
      text = JSON.parse(this.text.slice(begin, this.at)) as string;
    } catch {
      throw this.broken("has a text with an escape that is none");
    }
    if (!text.isWellFormed()) throw new Refused("json", "it has half of a surrogate pair");
    return text;
  }

  private number(): number | Float {
    const found = this.matched(NUMBER, "has something else than a value");
    const isWhole = /^-?[0-9]+$/.test(found);
    const longest = isWhole ? LONGEST_WHOLE : LONGEST_NUMBER;
    if (found.length > longest)
      throw new Refused("json", `it has a number of ${found.length} characters; at most ${longest} are read`);
    const value = Number(found);
    if (!Number.isFinite(value)) throw new Refused("json", "it has a number that is too large");
    return isWhole && Number.isSafeInteger(value) ? value : new Float(value);
  }

  private space(): void {
    SPACE.lastIndex = this.at;
    SPACE.test(this.text);
    this.at = SPACE.lastIndex;
  }

  private matched(pattern: RegExp, otherwise: string): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    if (found === undefined) throw this.broken(otherwise);
    this.at += found.length;
    return found;
  }

  private broken(what: string): NotJson {
    return new NotJson(`it is no JSON: it ${what}, at character ${this.at}`);
  }
}

/** Return a value as RFC 8785 takes it: with doubles alone. */
export function plain(value: Value): Json {
  if (value instanceof Float) return value.value;
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value;
  const found = Object.create(null) as { [name: string]: Json };
  for (const [name, each] of Object.entries(value)) found[name] = plain(each);
  return found;
}

export function isMembers(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Float);
}

/** Whether bytes begin with a text, for a file that cannot be read. */
export function beginsWith(document: Uint8Array, text: string, within: number): boolean {
  const begins = new TextDecoder().decode(document.subarray(0, within));
  return utf8(text).length <= within && begins.includes(text);
}
