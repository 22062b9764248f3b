/** The pair of the shuffler's noise, in whole numbers alone: what hides a person if everybody else's report is known.
 *
 * docs/explanation/accounting-noise.md has the law and the proofs. With w the table of a law, a count c has the
 * chance w_(c−1) of z + 1 and w_c of z, both over 2¹²⁸. Beside kRR whose report is the own answer with `own` and one
 * other answer with `other`, δ(ε) is Σ (own·A + other·B − e^ε·(own·B + other·A))₊, that is Σ (α·A − β·B)₊ with α =
 * own − e^ε·other and β = e^ε·own − other. If one coordinate is all there is, A and B are its p and q. Of two they
 * are p·q' and q·p', and α·A − β·B is less by γ·S·q·q', with γ = (e^ε − 1)·other and S the sum of what all other
 * symbols tell (`other_symbols.ts`). Both ends of e^ε have 256 bits: a δ above takes the lower one, and a δ below
 * the upper one. */

import { SPAN } from "../../src/base/random.js";
import type { Noise } from "../../src/task/task.js";
import { exact, expBelow, type Fraction, POINT } from "../base/exact.js";
import { MASS_BITS, type OtherSymbols, otherSymbols, SUM_BITS, type Sums, TABLE_BITS } from "./other_symbols.js";

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

/** The counts of a coordinate that have some q, by rising ratio p/q, and sums of the first ones. */
interface Order {
  readonly table: readonly bigint[];
  readonly p: readonly bigint[];
  readonly q: readonly bigint[];
  readonly sumsP: readonly bigint[];
  readonly sumsQ: readonly bigint[];
  /** The law of S, by the number of other symbols. */
  readonly others: Map<number, OtherSymbols>;
}

const ORDERS = new Map<string, Order>();
const MOST_ORDERS = 64;
/** About how many counts are looked at, for all values of S together. */
const STEPS = 60_000;
const [FEWEST_SUMS, MOST_SUMS] = [32, 1024];

function orderOf(law: Noise): Order {
  const name = `${law.family} ${law.parameter} ${law.reach}`;
  const known = ORDERS.get(name);
  if (known !== undefined) return known;
  const table = tableOf(law);
  const counts = table
    .map((q, count) => ({ p: count > 0 ? table[count - 1]! : 0n, q }))
    .sort((one, other) => {
      const [left, right] = [one.p * other.q, other.p * one.q];
      return left < right ? -1 : left > right ? 1 : 0;
    });
  const [p, q] = [counts.map((each) => each.p), counts.map((each) => each.q)];
  const found = { table, p, q, sumsP: sumsOf(p), sumsQ: sumsOf(q), others: new Map<number, OtherSymbols>() };
  if (ORDERS.size >= MOST_ORDERS) ORDERS.clear();
  ORDERS.set(name, found);
  return found;
}

function othersOf(order: Order, others: number): OtherSymbols {
  const known = order.others.get(others);
  if (known !== undefined) return known;
  const most = Math.min(MOST_SUMS, Math.max(FEWEST_SUMS, Math.floor(STEPS / order.p.length)));
  const found = otherSymbols(order.table, others, most);
  if (order.others.size >= MOST_ORDERS) order.others.clear();
  order.others.set(others, found);
  return found;
}

function sumsOf(values: readonly bigint[]): bigint[] {
  const sums = [0n];
  for (const value of values) sums.push(sums.at(-1)! + value);
  return sums;
}

/** Whether the noise alone surely gives (ε, δ), or surely does not, for 0 ≤ ε ≤ 100; null if that is not decided. */
export function keeps(beside: Beside, epsilon: number, delta: number): boolean | null {
  const allowed = exact(delta);
  const power = expBelow(exact(epsilon));
  const isWithin = ({ over, under }: Fraction): boolean => over * allowed.under <= allowed.over * under;
  if (isWithin(deltaOf(beside, power, true))) return true;
  // `expBelow` is too small by less than two units.
  return isWithin(deltaOf(beside, power + 2n, false)) ? null : false;
}

/** Return a δ that is never below the true one at this e^ε, or one that is never above it. */
function deltaOf(beside: Beside, power: bigint, above: boolean): Fraction {
  const span = BigInt(SPAN);
  const gamma = BigInt(beside.gamma);
  const answers = BigInt(beside.answers);
  // Both times answers · 2³².
  const own = answers * (span - gamma) + gamma;
  const alpha = (own << POINT) - power * gamma;
  const beta = power * own - (gamma << POINT);
  const scale = (answers * span) << POINT;
  if (alpha <= 0n) return { over: 0n, under: 1n };
  const order = orderOf(beside.noise);
  if (beside.fixedTotal) return { over: one(order, alpha, beta), under: scale << TABLE_BITS };
  const others = othersOf(order, beside.answers - 2);
  const steep = (power - (1n << POINT)) * gamma;
  const mean = (sums: Sums): bigint =>
    sums.reduce(
      (sum, { at, mass }) => sum + mass * two(order, alpha << SUM_BITS, beta << SUM_BITS, steep * at),
      0n,
    );
  const under = scale << (SUM_BITS + 2n * TABLE_BITS + MASS_BITS);
  if (above) return { over: mean(others.spread), under };
  return { over: mean(others.gathered) - others.excess * (under >> MASS_BITS), under };
}

function one(order: Order, alpha: bigint, beta: bigint): bigint {
  // Nothing but the report explains the top count.
  let sum = alpha * order.table.at(-1)!;
  order.p.forEach((p, place) => {
    const part = alpha * p - beta * order.q[place]!;
    if (part > 0n) sum += part;
  });
  return sum;
}

/** Return Σ (α·p·q' − β·q·p' − γ·q·q')₊: for each count, those of the other that add to it are the first by ratio. */
function two(order: Order, alpha: bigint, beta: bigint, gamma: bigint): bigint {
  const { p, q, sumsP, sumsQ } = order;
  let sum = alpha * order.table.at(-1)! * sumsQ.at(-1)!;
  let above = 0;
  const taken = p.map((each, place) => beta * each + gamma * q[place]!);
  for (let place = 0; place < p.length; place++) {
    const gain = alpha * p[place]!;
    while (above < p.length && gain * q[above]! > q[place]! * taken[above]!) above += 1;
    sum += (gain - gamma * q[place]!) * sumsQ[above]! - beta * q[place]! * sumsP[above]!;
  }
  return sum;
}
