/** The pair of the shuffler's noise, in whole numbers alone: what hides a person if everybody else's report is known.
 *
 * docs/explanation/accounting-noise.md has the law and the proofs. With w the table of a law, a count c has the chance
 * w_(c−1) of z + 1 and w_c of z, both over 2¹²⁸. Beside kRR whose report is the own answer with `own` and one other
 * answer with `other`, δ(ε) is Σ (own·A + other·B − e^ε·(own·B + other·A))₊, that is Σ (α·A − β·B)₊ with
 * α = own − e^ε·other and β = e^ε·own − other. A and B are p and q of one coordinate, or p·p' and q·q' of two. e^ε is
 * rounded down, and then every summand is too large or right: the sum is never below δ. */

import { SPAN } from "../../src/base/random.js";
import type { Noise } from "../../src/task/task.js";
import { exact, expBelow, type Fraction, POINT } from "../base/exact.js";

const TABLE_BITS = 128n;
const DIGITS = 320n;
const GAMMA_BITS = 32n;
/** The largest reach of a law. */
export const REACH_LIMIT = 100_000;
/** The largest variance of a law, times 2³². */
export const VARIANCE_LIMIT = 2n ** 64n;

/** Return P[z]·2¹²⁸ for z from 0 to twice the reach. */
export function tableOf(law: Noise): bigint[] {
  const shares = law.family === "geometric" ? geometric(law) : gaussian(law);
  const whole = 2n * shares.reduce((sum, share) => sum + share, 0n) - shares[0]!;
  const side = shares.slice(1).map((share) => (share << TABLE_BITS) / whole);
  const middle = (1n << TABLE_BITS) - 2n * side.reduce((sum, share) => sum + share, 0n);
  return [...side.toReversed(), middle, ...side];
}

function geometric(law: Noise): bigint[] {
  const shares = [1n << DIGITS];
  const ratio = BigInt(law.parameter);
  for (let d = 0; d < law.reach; d++) shares.push((shares[d]! * ratio) >> GAMMA_BITS);
  return shares;
}

function gaussian(law: Noise): bigint[] {
  const parameter = 2n * BigInt(law.parameter);
  let fall = decay(BigInt(SPAN), parameter);
  const faster = decay(2n * BigInt(SPAN), parameter);
  const shares = [1n << DIGITS];
  for (let d = 0; d < law.reach; d++) {
    shares.push((shares[d]! * fall) >> DIGITS);
    fall = (fall * faster) >> DIGITS;
  }
  return shares;
}

/** Return e^(−over/under) in units of 2^−DIGITS, by its series, as every party computes it. */
function decay(over: bigint, under: bigint): bigint {
  let halvings = 0;
  for (; over > under; halvings++) under *= 2n;
  let total = 0n;
  let term = 1n << DIGITS;
  for (let place = 0n; term > 0n;) {
    total += place % 2n === 0n ? term : -term;
    place += 1n;
    term = (term * over) / (under * place);
  }
  for (; halvings > 0; halvings--) total = (total * total) >> DIGITS;
  return total;
}

/** A randomizer beside noise: kRR of so many answers, or a row of hashed answers. */
export interface Beside {
  readonly noise: Noise;
  readonly gamma: number;
  readonly answers: number;
  /** Whether the number of all dummies is fixed, so that one coordinate alone hides. */
  readonly fixedTotal: boolean;
}

/** The counts of a coordinate by falling ratio p/q, and the sums of the first ones. */
interface Order {
  readonly p: readonly bigint[];
  readonly q: readonly bigint[];
  readonly sumsP: readonly bigint[];
  readonly sumsQ: readonly bigint[];
}

const ORDERS = new Map<string, Order>();
const MOST_ORDERS = 64;

function orderOf(law: Noise): Order {
  const name = `${law.family} ${law.parameter} ${law.reach}`;
  const known = ORDERS.get(name);
  if (known !== undefined) return known;
  const table = tableOf(law);
  const counts = Array.from({ length: table.length + 1 }, (_, count) => ({
    p: count > 0 ? table[count - 1]! : 0n,
    q: count < table.length ? table[count]! : 0n,
  })).sort((one, other) => {
    const [left, right] = [one.p * other.q, other.p * one.q];
    return left > right ? -1 : left < right ? 1 : 0;
  });
  const [p, q] = [counts.map((each) => each.p), counts.map((each) => each.q)];
  const found = { p, q, sumsP: sumsOf(p), sumsQ: sumsOf(q) };
  if (ORDERS.size >= MOST_ORDERS) ORDERS.clear();
  ORDERS.set(name, found);
  return found;
}

function sumsOf(values: readonly bigint[]): bigint[] {
  const sums = [0n];
  for (const value of values) sums.push(sums.at(-1)! + value);
  return sums;
}

/** Whether the noise alone surely gives (ε, δ), for 0 ≤ ε ≤ 100. It is exact but for e^ε, which has 256 bits. */
export function keeps(beside: Beside, epsilon: number, delta: number): boolean {
  const { over, under } = deltaAbove(beside, exact(epsilon));
  const allowed = exact(delta);
  return over * allowed.under <= allowed.over * under;
}

/** Return a δ(ε) that is never below the true one. */
function deltaAbove(beside: Beside, epsilon: Fraction): Fraction {
  const span = BigInt(SPAN);
  const gamma = BigInt(beside.gamma);
  const answers = BigInt(beside.answers);
  // Both times answers · 2³².
  const own = answers * (span - gamma) + gamma;
  const power = expBelow(epsilon);
  const alpha = (own << POINT) - power * gamma;
  const beta = power * own - (gamma << POINT);
  const scale = (answers * span) << POINT;
  if (alpha <= 0n) return { over: 0n, under: 1n };
  const order = orderOf(beside.noise);
  return beside.fixedTotal
    ? { over: one(order, alpha, beta), under: scale << TABLE_BITS }
    : { over: two(order, alpha, beta), under: scale << (2n * TABLE_BITS) };
}

function one(order: Order, alpha: bigint, beta: bigint): bigint {
  let sum = 0n;
  order.p.forEach((p, place) => {
    const part = alpha * p - beta * order.q[place]!;
    if (part > 0n) sum += part;
  });
  return sum;
}

/** For each count of one coordinate, those of the other whose part is positive are the first ones by ratio. */
function two(order: Order, alpha: bigint, beta: bigint): bigint {
  const { p, q, sumsP, sumsQ } = order;
  let sum = 0n;
  let above = p.length;
  for (let place = 0; place < p.length && above > 0; place++) {
    const [left, right] = [alpha * p[place]!, beta * q[place]!];
    while (above > 0 && left * p[above - 1]! <= right * q[above - 1]!) above -= 1;
    sum += left * sumsP[above]! - right * sumsQ[above]!;
  }
  return sum;
}
