/** Exact fractions of whole numbers, and e^x rounded down: no double decides whether a number is certified. */

import { exact, type Fraction } from "../../src/base/random.js";

export { exact, type Fraction };

/** Bits behind the point of what `expBelow` returns. */
export const POINT = 256n;
const FURTHER = 256n;
const HALF_BITS = POINT + FURTHER;

/** The largest ε that is looked at: a larger exponent would take numbers of a million bits. */
export const LARGEST_EXPONENT = 10_000n;

/** Return 2^POINT · e^x, rounded down, for 0 ≤ x ≤ LARGEST_EXPONENT; never above it.
 *
 * Every step rounds down, and all numbers are positive. The halvings are taken back by squaring. Each doubles the
 * relative error, to 2⁻⁴⁸⁰ at most. */
export function expBelow(x: Fraction): bigint {
  if (x.over < 0n || x.over > LARGEST_EXPONENT * x.under) throw new RangeError("no such exponent");
  let halvings = 1n;
  while (x.over > x.under << (halvings - 1n)) halvings += 1n;
  const rest = (x.over << HALF_BITS) / (x.under << halvings);
  let term = 1n << HALF_BITS;
  let sum = 0n;
  for (let place = 1n; term > 0n; place++) {
    sum += term;
    term = (term * rest) >> HALF_BITS;
    term /= place;
  }
  for (; halvings > 0n; halvings--) sum = (sum * sum) >> HALF_BITS;
  return sum >> FURTHER;
}

/** Whether e^x is surely at least a ratio of whole numbers; false if it is not, or if it is not seen. */
export function isAtLeast(x: Fraction, ratio: Fraction): boolean {
  return expBelow(x) * ratio.under >= ratio.over << POINT;
}

/** Return the decimal number that a double is written as: 0.9 is nine tenths. */
export function decimal(value: number): Fraction {
  const [digits, power] = String(value).split("e") as [string, string | undefined];
  const [whole, part = ""] = digits.split(".") as [string, string | undefined];
  const places = part.length - Number(power ?? 0);
  const over = BigInt(whole + part);
  return places >= 0
    ? { over, under: 10n ** BigInt(places) }
    : { over: over * 10n ** BigInt(-places), under: 1n };
}

export function times(one: Fraction, other: Fraction): Fraction {
  return { over: one.over * other.over, under: one.under * other.under };
}

/** Return how many reports surely hide a person: all that may be dishonest are subtracted from the valid ones. */
export function honestReports(valid: number, reports: number, share: number): number {
  const { over, under } = decimal(share);
  // Rounded up: a fraction of a dishonest person counts as a whole one.
  const dishonest = ((under - over) * BigInt(reports) + under - 1n) / under;
  const left = BigInt(valid) - dishonest;
  return left > 0n ? Number(left) : 0;
}
