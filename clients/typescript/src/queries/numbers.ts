/** Turns numbers into symbols: rounded by chance, exactly, so that the estimate has no bias. */

import { exact, type Fraction, happens, type Random } from "../base/random.js";

interface Bounds {
  readonly lower: number;
  readonly upper: number;
  readonly levels: number;
}

/** Return 0 to `levels`: the number's place, rounded up with the probability of its fraction. */
export function roundedSum(bounds: Bounds, answer: number, random: Random): number {
  if (answer <= bounds.lower) return 0;
  if (answer >= bounds.upper) return bounds.levels;
  const { over, under } = placeOf(bounds, answer);
  // One draw, also if nothing is left to round.
  return Number(over / under) + (happens({ over: over % under, under }, random) ? 1 : 0);
}

/** Return 0 to `levels` + 1: one of the three symbols around the number, with its mean and a known variance. */
export function roundedVariance(bounds: Bounds, answer: number, random: Random): number {
  const clipped = Math.min(Math.max(answer, bounds.lower), bounds.upper);
  const place = placeOf(bounds, clipped);
  // Twice the fraction's parts, so that a half is whole: y = place + ½ = over / under.
  const under = 2n * place.under;
  const over = 2n * place.over + place.under;
  const nearest = (2n * over + under) / (2n * under);
  const n = nearest < 1n ? 1n : nearest > BigInt(bounds.levels) ? BigInt(bounds.levels) : nearest;
  // ½ + d and ½ − d, both over `under`.
  const above = under / 2n + over - n * under;
  const below = under / 2n - over + n * under;
  const whole = 2n * under * under;
  if (happens({ over: above * above, under: whole }, random)) return Number(n) + 1;
  return Number(n) - (happens({ over: below * below, under: whole - above * above }, random) ? 1 : 0);
}

/** Return (answer − lower)·levels / (upper − lower), as the doubles are. */
function placeOf(bounds: Bounds, answer: number): Fraction {
  const [lower, upper, at] = [exact(bounds.lower), exact(bounds.upper), exact(answer)];
  // All three over the product of their denominators.
  const from = (one: Fraction, other: Fraction): Fraction => ({
    over: one.over * other.under - other.over * one.under,
    under: one.under * other.under,
  });
  const [above, width] = [from(at, lower), from(upper, lower)];
  return { over: above.over * width.under * BigInt(bounds.levels), under: above.under * width.over };
}
