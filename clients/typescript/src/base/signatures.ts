/** Ed25519 signatures, each under the name of the format of what is signed; and public keys in their usual forms. */

import { ed25519 } from "@noble/curves/ed25519.js";

import { type Bytes, fromBase64, fromHex, hex, joined, utf8 } from "./bytes.js";
import { DocumentError } from "./errors.js";

const ZERO = new Uint8Array(1);
/** How the SubjectPublicKeyInfo of an Ed25519 key begins (RFC 8410). */
const BEGINNING = "302a300506032b6570032100";

/** Return whether `key` signed a body under the name of its format. */
export function isSignedBy(
  format: string,
  body: Uint8Array,
  signature: Uint8Array,
  key: Uint8Array,
): boolean {
  return isSignature(signature, joined(utf8(format), ZERO, body), key);
}

/** Return whether `key` signed these very bytes, as a log and its witnesses sign checkpoints.
 *
 * The library multiplies by 8 before it compares, and others do not. Of points of prime order alone that is the
 * same. */
export function isSignature(signature: Uint8Array, message: Uint8Array, key: Uint8Array): boolean {
  if (signature.length !== 64 || isWeak(key)) return false;
  try {
    if (!ed25519.verify(signature, message, key, { zip215: false })) return false;
    return ed25519.Point.fromBytes(signature.subarray(0, 32)).isTorsionFree();
  } catch {
    // Bytes that are no point of the curve are no part of a signature.
    return false;
  }
}

/** Return whether a public key is no point of prime order in its one form.
 *
 * With a point of small order anybody signs. One of mixed order has signatures that some libraries verify and others
 * do not. A point in two forms would be two keys. */
export function isWeak(key: Uint8Array): boolean {
  const name = hex(key);
  const known = KNOWN.get(name);
  if (known !== undefined) return known;
  if (KNOWN.size >= MOST_KNOWN) KNOWN.clear();
  const found = computeWeak(key);
  KNOWN.set(name, found);
  return found;
}

/** Few keys sign everything that a program reads, and looking at one takes as long as a signature. */
const KNOWN = new Map<string, boolean>();
const MOST_KNOWN = 1024;

function computeWeak(key: Uint8Array): boolean {
  try {
    const point = ed25519.Point.fromBytes(key);
    return point.isSmallOrder() || !point.isTorsionFree();
  } catch {
    return true;
  }
}

/** Return a public key (32 bytes) that is given as these bytes, as 64 hex digits, or as PEM. */
export function publicKey(given: string | Uint8Array, name: string): Bytes {
  if (typeof given !== "string") {
    if (given.length === 32) return new Uint8Array(given);
    given = new TextDecoder().decode(given);
  }
  const found = fromHex(given.trim(), 32) ?? fromPem(given);
  if (found !== null) return found;
  throw new DocumentError(
    "signature",
    `${name} has no readable public key; give 32 bytes, 64 hex digits, or the file *.pub.pem`,
  );
}

function fromPem(text: string): Bytes | null {
  const inside = /-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]*)-----END PUBLIC KEY-----/.exec(text)?.[1];
  if (inside === undefined) return null;
  try {
    const digits = hex(fromBase64(inside.replace(/\s/g, "")));
    return digits.startsWith(BEGINNING) ? fromHex(digits.slice(BEGINNING.length), 32) : null;
  } catch {
    return null;
  }
}
