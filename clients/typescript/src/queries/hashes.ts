/** The symbols of texts, and the cells of hashed reports: BLAKE2b with a person (RFC 7693). */

import { blake2b } from "@noble/hashes/blake2.js";

import { type Bytes, joined, utf8 } from "../base/bytes.js";
import { NO_TEXT, type Text } from "../task/questions.js";
import type { Hashed } from "../task/randomizers.js";

const ZERO = new Uint8Array(1);
const FULL = new Uint8Array([255]);
const WORD = 2n ** 64n - 1n;
const HALF = 2n ** 32n - 1n;

function digest(person: string, length: number, content: Bytes): DataView {
  const named = new Uint8Array(16);
  named.set(utf8(person));
  const found = blake2b(content, { dkLen: length, personalization: named });
  return new DataView(found.buffer, found.byteOffset, length);
}

/** Return the symbol of a text in a round: of its beginning in the first rounds, if the question has prefixes. */
export function textSymbol(question: Text, answer: string, round: number): bigint {
  const name = utf8(question.name);
  const content = utf8(answer.normalize("NFC"));
  const length = question.prefixes[round];
  let view: DataView;
  if (length === undefined) {
    view = digest("hubbub-text-1", 8, joined(name, ZERO, content));
  } else {
    const cut = joined(content.subarray(0, length), content.length > length ? new Uint8Array() : FULL);
    view = digest("hubbub-prefix-1", 8, joined(name, ZERO, utf8(String(length)), ZERO, cut));
  }
  return view.getBigUint64(0, true) % NO_TEXT;
}

/** Return the cell of a symbol in a row of a hashed randomizer. */
export function cellOf(randomizer: Hashed, row: number, symbol: bigint): number {
  const { cells, rows, gamma } = randomizer;
  const view = digest("hubbub-hashed-1", 24, utf8(`${cells} ${rows} ${gamma} ${row}`));
  let x = symbol & WORD;
  x = ((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n) & WORD;
  x = ((x ^ (x >> 27n)) * 0x94d049bb133111ebn) & WORD;
  x ^= x >> 31n;
  const mixed = (view.getBigUint64(0, true) * (x & HALF) + view.getBigUint64(8, true) * (x >> 32n)) & WORD;
  const high = ((mixed + view.getBigUint64(16, true)) & WORD) >> 32n;
  return Number((BigInt(cells) * high) >> 32n);
}
