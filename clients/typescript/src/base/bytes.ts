/** Bytes, and the texts that stand for them. */

const ENCODER = new TextEncoder();
const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const DIGITS = "0123456789abcdef";

export type Bytes = Uint8Array<ArrayBuffer>;

export function utf8(text: string): Bytes {
  return ENCODER.encode(text) as Bytes;
}

/** Return the text of UTF-8 bytes; throw a TypeError if they are none. A byte order mark stays. */
export function fromUtf8(bytes: Uint8Array): string {
  return DECODER.decode(bytes);
}

export function hex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += DIGITS[byte >> 4]! + DIGITS[byte & 15]!;
  return text;
}

/** Return the bytes of lower-case hex; null if it is none, or has another length than `length`. */
export function fromHex(text: unknown, length?: number): Bytes | null {
  if (typeof text !== "string" || text.length % 2 !== 0 || !/^[0-9a-f]*$/.test(text)) return null;
  if (length !== undefined && text.length !== 2 * length) return null;
  const bytes = new Uint8Array(text.length / 2);
  for (let at = 0; at < bytes.length; at++) bytes[at] = parseInt(text.slice(2 * at, 2 * at + 2), 16);
  return bytes;
}

/** Return the bytes of hex that this package wrote. */
export function ownHex(text: string): Bytes {
  const bytes = fromHex(text);
  if (bytes === null) throw new TypeError("a text of the state is not hex");
  return bytes;
}

export function joined(...parts: Uint8Array[]): Bytes {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Return the bytes of base64; throw a DOMException if it is none. */
export function fromBase64(text: string): Bytes {
  return Uint8Array.from(atob(text), (mark) => mark.charCodeAt(0));
}

/** Return the bytes of base64 in its one form; null if it is none, or has another length than `length`. */
export function fromStrictBase64(text: string, length?: number): Bytes | null {
  let bytes: Bytes;
  try {
    bytes = fromBase64(text);
  } catch {
    return null;
  }
  // `atob` passes over spaces, missing padding and bits that are left: written again, they are not there.
  if (toBase64(bytes) !== text) return null;
  return length === undefined || bytes.length === length ? bytes : null;
}

function toBase64(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

/** Return a whole number in four bytes, big-endian. */
export function fourBytes(number: number): Bytes {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, number);
  return bytes;
}

export function isSame(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}

/** Return a copy that has a buffer of its own, as WebCrypto's types want it. */
export function own(bytes: Uint8Array): Bytes {
  return new Uint8Array(bytes);
}
