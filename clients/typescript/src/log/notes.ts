/** Checkpoints of a transparency log: a log's size and root, as a note that the log and its witnesses signed (C2SP). */

import { sha256 } from "@noble/hashes/sha2.js";

import { type Bytes, fromStrictBase64, hex, isSame, joined, utf8 } from "../base/bytes.js";
import { DocumentError } from "../base/errors.js";
import { isSignature } from "../base/signatures.js";

/** What a key signs: the number is the signature's type (c2sp.org/signed-note). */
export const LOG = 1;
export const WITNESS = 4;

/** Most bytes and signatures of a note, most entries of a log, and the last second that a witness may name. */
const LONGEST_NOTE = 65536;
const MOST_SIGNATURES = 64;
const MOST_LOGGED = 2 ** 48;
const LATEST_TIME = 253_402_300_799n;

const NAME = "[!-*,-~]{1,200}";
const KEY = new RegExp(`^(${NAME})\\+([0-9a-f]{8})\\+([A-Za-z0-9+/]{44})$`);
const TEXT = new RegExp(`^(${NAME})\n(0|[1-9][0-9]{0,14})\n([A-Za-z0-9+/=]{44})$`);
/** Keys that nobody knows may have names with any letters. */
const SIGNATURE_LINE = /^\u2014 ([^+\p{C}\p{Z}]+) ([A-Za-z0-9+/=]+)$/u;
const EMPTY_ROOT = sha256(new Uint8Array(0));

/** The key of a log or a witness, with its name; `id` in hex names it in signatures. */
export interface NoteKey {
  readonly name: string;
  readonly id: string;
  readonly role: typeof LOG | typeof WITNESS;
  readonly public: Bytes;
}

interface NoteSignature {
  readonly name: string;
  readonly id: string;
  /** That of a witness begins with its time. */
  readonly signature: Bytes;
}

export interface Checkpoint {
  readonly origin: string;
  readonly size: number;
  readonly root: Bytes;
  /** What is signed. */
  readonly text: string;
  readonly signatures: readonly NoteSignature[];
}

/** Return the key that a text has in its one form; null if it is no key of that role. */
export function readNoteKey(text: string, role: NoteKey["role"]): NoteKey | null {
  const [, name, id, encoded] = KEY.exec(text) ?? [];
  const material = encoded === undefined ? null : fromStrictBase64(encoded, 33);
  if (name === undefined || material === null || material[0] !== role) return null;
  const of = hex(sha256(joined(utf8(`${name}\n`), material))).slice(0, 8);
  return of === id ? { name, id, role, public: material.slice(1) } : null;
}

/** Return the error for a text that is no proof, or not in its one form. */
export function noProof(problem: string): DocumentError {
  return new DocumentError("proof", `not a proof: ${problem}; give the file as \`hubbub log prove\` wrote it`);
}

/** Return the checkpoint in a note; its signatures are still to be checked. */
export function readCheckpoint(note: string): Checkpoint {
  if (utf8(note).length > LONGEST_NOTE) throw noProof(`its checkpoint has more than ${LONGEST_NOTE} bytes`);
  const end = note.lastIndexOf("\n\n");
  const [, origin, size, encoded] = TEXT.exec(note.slice(0, Math.max(end, 0))) ?? [];
  const root = encoded === undefined ? null : fromStrictBase64(encoded, 32);
  if (origin === undefined || root === null || Number(size) > MOST_LOGGED)
    throw noProof("its checkpoint does not have a log's name, its size and its root, a line each");
  if ((size === "0") !== isSame(root, EMPTY_ROOT)) throw noProof(`no tree of ${size} entries has that root`);
  const signatures = readSignatures(note.slice(end + 2));
  return { origin, size: Number(size), root, text: note.slice(0, end + 1), signatures };
}

function readSignatures(below: string): NoteSignature[] {
  const lines = below.split("\n");
  if (lines.pop() !== "" || lines.length === 0 || lines.length > MOST_SIGNATURES)
    throw noProof(`its checkpoint does not have 1 to ${MOST_SIGNATURES} signature lines`);
  const found = lines.map((line) => {
    const [, name, encoded] = SIGNATURE_LINE.exec(line) ?? [];
    const content = encoded === undefined ? null : fromStrictBase64(encoded);
    if (name === undefined || content === null || content.length < 5)
      throw noProof("its checkpoint has a line that is no signature line");
    return { name, id: hex(content.slice(0, 4)), signature: content.slice(4) };
  });
  if (new Set(found.map((each) => `${each.name} ${each.id}`)).size < found.length)
    throw noProof("a key has signed its checkpoint twice");
  return found;
}

/** Return whether a checkpoint has a line with a key's name and id; throw if the signature in it is not by the key. */
export function isSignedBy(checkpoint: Checkpoint, key: NoteKey): boolean {
  const line = checkpoint.signatures.find((each) => each.name === key.name && each.id === key.id);
  if (line === undefined) return false;
  const time = key.role === WITNESS && line.signature.length >= 8 ? timeIn(line.signature) : null;
  const signature = key.role === WITNESS ? line.signature.slice(8) : line.signature;
  const before = time === null ? "" : `cosignature/v1\ntime ${time}\n`;
  if ((time ?? 0n) <= LATEST_TIME && isSignature(signature, utf8(before + checkpoint.text), key.public))
    return true;
  const who = `${key.role === LOG ? "log" : "witness"} ${key.name}`;
  throw new DocumentError(
    "signature",
    `the signature of ${who} is wrong: the checkpoint was changed, or another key signed it; get the proof again`,
  );
}

function timeIn(signature: Uint8Array): bigint {
  return new DataView(signature.buffer, signature.byteOffset).getBigUint64(0);
}
