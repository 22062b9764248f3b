/** Uniform numbers and biased coins from random bytes, exactly, without floating point. */

import type { Bytes } from "./bytes.js";

/** Returns so many uniform, independent bytes. */
export type Random = (count: number) => Bytes;

/** The operating system's generator. */
export const systemRandom: Random = (count) => crypto.getRandomValues(new Uint8Array(count));

export const SPAN = 2 ** 32;

/** A fraction that is not negative, of whole numbers. */
export interface Fraction {
  readonly over: bigint;
  readonly under: bigint;
}

/** Return a uniform number of four bytes. */
export function draw(random: Random): number {
  const bytes = random(4);
  return new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0);
}

/** Return a number from 0 to `count` − 1, exactly uniform; `count` is at most 2³². */
export function uniform(count: number, random: Random): number {
  // Draws at or above the largest multiple are rejected, so equally many draws give each number.
  const limit = SPAN - (SPAN % count);
  for (;;) {
    const drawn = draw(random);
    if (drawn < limit) return drawn % count;
  }
}

/** Return a number from 0 to `count` − 1, exactly uniform, for a `count` of any size: from as many bytes as it has. */
export function uniformLarge(count: bigint, random: Random): bigint {
  const width = Math.ceil(count.toString(16).length / 2);
  const span = 1n << BigInt(8 * width);
  const limit = span - (span % count);
  for (;;) {
    let drawn = 0n;
    for (const byte of random(width)) drawn = (drawn << 8n) | BigInt(byte);
    if (drawn < limit) return drawn % count;
  }
}

/** Return true with exactly this probability, from 0 up to but not 1. */
export function happens(probability: Fraction, random: Random): boolean {
  let rest = probability.over;
  for (;;) {
    const scaled = rest << 32n;
    const digit = Number(scaled / probability.under);
    rest = scaled % probability.under;
    const drawn = draw(random);
    if (drawn !== digit) return drawn < digit;
    // All further digits are 0, so what is drawn is not below it.
    if (rest === 0n) return false;
  }
}

/** Return a finite double as the fraction that it is: `over` has its sign. */
export function exact(number: number): Fraction {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number);
  const bits = view.getBigUint64(0);
  const exponent = Number((bits >> 52n) & 0x7ffn);
  const mantissa = (bits & 0xfffffffffffffn) | (exponent === 0 ? 0n : 1n << 52n);
  const power = Math.max(exponent, 1) - 1075;
  const sign = bits >> 63n === 0n ? 1n : -1n;
  return power < 0
    ? { over: sign * mantissa, under: 1n << BigInt(-power) }
    : { over: (sign * mantissa) << BigInt(power), under: 1n };
}
