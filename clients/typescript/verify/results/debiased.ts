/** Unbiased statistics of the people behind a batch's counts, with their errors: of kRR and of unary encoding.
 *
 * `queries/estimation/debiased.py` has the formulas, and why they hold. */

import { SPAN } from "../../src/base/random.js";
import { binomialAt, binomialTail, binomialTails } from "./binomial.js";
import { CountLaw } from "./count_law.js";
import { type ChainNoise, exactLaw, largestOf, noiseSum, TooLong, varianceOf } from "./noise_sums.js";
import { type Estimate, estimateOf, halfWidth, type Interval, known, mapped, nearHalfWidth } from "./rows.js";
import { lineInterval, parabola } from "./ratios.js";

const FAR = 12;
const MARGIN = 1e-6;
const LONGEST_LAW = 2 ** 22;
const LEAST = 1e-300;

/** How a randomizer's reports count for symbols. */
export interface Support {
  readonly symbols: number;
  readonly gap: number;
  readonly other: number;
  readonly dummyMean: number;
  readonly oneSymbolPerReport: boolean;
  variances(weights: readonly number[]): number[];
  dummyVariance(weights: readonly number[]): number;
}

function mean(values: readonly number[]): number {
  return sum(values) / values.length;
}

function sum(values: readonly number[]): number {
  return values.reduce((so, each) => so + each, 0);
}

function dot(one: readonly number[], other: readonly number[]): number {
  return one.reduce((so, each, place) => so + each * other[place]!, 0);
}

export function krrSupport(symbols: number, w: number): Support {
  const gamma = w / SPAN;
  const gap = 1 - gamma;
  const squares = (weights: readonly number[]): number[] => {
    const middle = mean(weights);
    return weights.map((each) => (each - middle) ** 2);
  };
  return {
    symbols,
    gap,
    other: gamma / symbols,
    dummyMean: 1 / symbols,
    oneSymbolPerReport: true,
    variances(weights) {
      const found = squares(weights);
      const middle = mean(found);
      return found.map((each) => (gamma * (gap * each + middle)) / gap ** 2);
    },
    dummyVariance: (weights) => mean(squares(weights)) / gap ** 2,
  };
}

export function unarySupport(symbols: number, truthful: number, otherShare: number): Support {
  const [own, other] = [truthful / SPAN, otherShare / SPAN];
  const gap = (truthful - otherShare) / SPAN;
  const [hit, miss] = [(own * (1 - own)) / gap ** 2, (other * (1 - other)) / gap ** 2];
  const variances = (weights: readonly number[]): number[] => {
    const all = miss * dot(weights, weights);
    return weights.map((each) => all + (hit - miss) * each ** 2);
  };
  return {
    symbols,
    gap,
    other,
    dummyMean: other + gap / symbols,
    oneSymbolPerReport: false,
    variances,
    dummyVariance(weights) {
      const middle = mean(weights);
      return mean(variances(weights)) + mean(weights.map((each) => (each - middle) ** 2));
    },
  };
}

export interface Batch {
  readonly support: Support;
  readonly counts: readonly number[];
  /** Valid reports, dummies included. */
  readonly valid: number;
  readonly dummies: number;
  readonly noise: ChainNoise | null;
}

type Within = readonly [number, number];
const ANY: Within = [-Infinity, Infinity];

/** A batch's statistics. `place` has, for each joint symbol, the symbol of the question it is seen as, or −1. */
export class Debiased {
  readonly people: number;
  readonly counts: readonly number[];
  private readonly equalDummies: number;
  private readonly laws: Map<number, CountLaw>;

  constructor(
    readonly batch: Batch,
    private readonly whole: Debiased | null = null,
    private readonly place: readonly number[] = [],
    readonly size: number = batch.support.symbols,
  ) {
    const { support, valid, dummies, noise } = batch;
    this.people = valid - dummies;
    this.laws = whole === null ? new Map() : whole.laws;
    if (whole === null) {
      const expected = this.people * support.other + dummies * support.dummyMean;
      this.counts = batch.counts.map((each) => (each - expected) / support.gap);
    } else this.counts = this.added(whole.counts);
    const scale = support.symbols === 2 ? 4 : support.symbols;
    this.equalDummies = whole?.equalDummies ?? (noise === null ? dummies : scale * varianceOf(noise));
  }

  /** Return the joint counts as those of one question, in some of the groups. */
  slice(place: readonly number[], size: number): Debiased {
    return new Debiased(this.batch, this, place, size);
  }

  private added(joint: readonly number[]): number[] {
    const found = new Array<number>(this.size).fill(0);
    this.place.forEach((symbol, at) => {
      if (symbol >= 0) found[symbol]! += joint[at]!;
    });
    return found;
  }

  private joint(weights: readonly number[]): readonly number[] {
    if (this.whole === null) return weights;
    return this.place.map((symbol) => (symbol >= 0 ? weights[symbol]! : 0));
  }

  private get everybody(): boolean {
    return this.place.every((symbol) => symbol >= 0);
  }

  total(weights: readonly number[]): number {
    return dot(weights, this.counts);
  }

  variance(weights: readonly number[], rounding = 0): number {
    if (this.whole !== null) return this.whole.variance(this.joint(weights), rounding);
    const each = this.batch.support.variances(weights);
    const [least, most] = [extreme(each, Math.min), extreme(each, Math.max)];
    const people = clamp(dot(each, this.counts), this.people * least, this.people * most);
    return Math.max(0, rounding + people + this.equalDummies * this.batch.support.dummyVariance(weights));
  }

  near(value: number, variance: number, weights: readonly number[], width = 1, within = ANY): Estimate {
    const [error, reach] = [Math.sqrt(variance) * width, this.reach(weights) * width];
    return estimateOf(value, error, nearInterval(value, error, reach, within));
  }

  /** Return by how much one random choice of a report can move a statistic at most. */
  reach(weights: readonly number[]): number {
    const all = this.joint(weights);
    const { support } = this.batch;
    const most = support.oneSymbolPerReport
      ? extreme(all, Math.max) - extreme(all, Math.min)
      : extreme(all.map(Math.abs), Math.max);
    return most / support.gap;
  }

  everySymbol(): Estimate[] {
    const observed = this.whole === null ? this.batch.counts : this.added(this.batch.counts);
    return this.ofSums(observed, this.counts, this.together);
  }

  /** How many joint symbols each symbol has. */
  private get together(): number {
    if (this.whole === null) return 1;
    return Math.floor(this.place.filter((symbol) => symbol >= 0).length / this.size);
  }

  countOf(chosen: readonly number[]): Estimate {
    if (this.whole !== null) return this.whole.countOf(this.joint(chosen));
    const observed = sum(this.batch.counts.filter((_, symbol) => chosen[symbol]! > 0));
    return this.ofSums([observed], [dot(this.counts, chosen)], sum(chosen))[0]!;
  }

  private ofSums(observed: readonly number[], sums: readonly number[], symbols: number): Estimate[] {
    const { support } = this.batch;
    const indicator = Array.from({ length: support.symbols }, (_, symbol) => (symbol < symbols ? 1 : 0));
    const each = support.variances(indicator);
    const [hit, miss] = [each[0]!, each.at(-1)!];
    const dummies = this.equalDummies * support.dummyVariance(indicator);
    const law = this.law(symbols);
    return sums.map((value, place) => {
      const inside = clamp(value, 0, this.people);
      const variance = Math.max(inside * hit + (this.people - inside) * miss + dummies, 0);
      return estimateOf(value, Math.sqrt(variance), (rate) => law.interval(observed[place]!, rate));
    });
  }

  private law(symbols: number): CountLaw {
    let law = this.laws.get(symbols);
    if (law === undefined) this.laws.set(symbols, (law = this.lawOfSum(symbols)));
    return law;
  }

  private lawOfSum(symbols: number): CountLaw {
    const { support, dummies, noise } = this.batch;
    const { gap, other } = support;
    const share = symbols / support.symbols;
    if (!support.oneSymbolPerReport) {
      const trials = this.people * symbols + dummies * (symbols - 1);
      const chance = other + gap * share;
      return new CountLaw({
        people: this.people,
        trials,
        own: gap + other,
        other,
        added: dummies,
        chance,
        noise: null,
      });
    }
    return new CountLaw({
      people: this.people,
      trials: this.people,
      own: gap + symbols * other,
      other: symbols * other,
      added: noise === null ? dummies : 0,
      chance: share,
      noise: noise === null ? null : noiseSum(noise, symbols, support.symbols, dummies),
    });
  }

  ratio(weights: readonly number[], answers: number, span: Within, rounding = 0): Estimate | null {
    const people = this.answered(answers).value;
    const answering = this.answering(answers);
    if (people <= 0) return null;
    const total = this.total(weights);
    if (answering.every((each) => each === 0))
      return this.near(total / people, this.variance(weights, rounding), weights, 1 / people, span);
    const value = clamp(total / people, span[0], span[1]);
    const less = (ratio: number): number[] => weights.map((each, place) => each - ratio * answering[place]!);
    const spread = (ratio: number): number => this.variance(less(ratio), rounding);
    const middle = span[0] < value && value < span[1] ? value : (span[0] + span[1]) / 2;
    const places = [span[0], middle, span[1]] as const;
    const reach = Math.max(...span.map((end) => this.reach(less(end))));
    const line = { total, people, value, variance: parabola(places, places.map(spread)), reach, span };
    return estimateOf(value, Math.sqrt(spread(value)) / people, lineInterval(line));
  }

  pValues(): number[] {
    const observed = this.whole === null ? this.batch.counts : this.added(this.batch.counts);
    const symbols = this.together;
    const found = new Map<number, number>();
    for (const each of observed) if (!found.has(each)) found.set(each, this.pValue(each, symbols));
    return observed.map((each) => found.get(each)!);
  }

  private pValue(observed: number, symbols: number): number {
    const { noise, support } = this.batch;
    const law = this.law(symbols);
    if (noise === null) return tailBeside(observed, law);
    // Of several symbols together the digits of far tails are lost: who asks for them is not asked here.
    if (symbols !== 1) throw new TooLong();
    if (largestOf(noise) >= LONGEST_LAW) return law.chanceOfAsMany(observed);
    const table = exactLaw(noise);
    const tails = binomialTails(observed - table.length + 1, observed, this.people, support.other);
    let chance = 0;
    table.forEach((each, place) => (chance += each * tails[tails.length - 1 - place]!));
    return Math.min(chance * (1 + MARGIN) + LEAST, 1);
  }

  /** Return 1 for "no answer", if there is such a symbol, and 0 for others. */
  silent(answers: number): number[] {
    return Array.from({ length: this.size }, (_, symbol) => (symbol >= answers ? 1 : 0));
  }

  answering(answers: number): number[] {
    const silent = this.silent(answers);
    return silent.map((each) => (this.whole !== null && !this.everybody ? 1 - each : each === 0 ? 0 : -each));
  }

  answered(answers: number): Estimate {
    if (this.whole !== null && !this.everybody) return this.countOf(this.answering(answers));
    const silent = this.silent(answers);
    if (silent.every((each) => each === 0)) return known(this.people);
    return mapped(this.countOf(silent), this.people, -1);
  }

  /** Return the counts projected on those that are not negative and add up to the people. */
  consistent(): number[] {
    if (this.whole !== null) return this.added(this.whole.consistent());
    const descending = this.counts.toSorted((one, other) => other - one);
    let [so, shift] = [0, 0];
    descending.forEach((each, place) => {
      so += each;
      const here = (so - this.people) / (place + 1);
      if (each >= here) shift = here;
    });
    return this.counts.map((each) => Math.max(each - shift, 0));
  }
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), most);
}

function extreme(values: readonly number[], choose: (one: number, other: number) => number): number {
  return values.reduce((so, each) => choose(so, each));
}

export function nearInterval(value: number, error: number, reach: number, within: Within): Interval {
  return (rate) => {
    const half = nearHalfWidth(halfWidth(rate), error, reach);
    return [clamp(value - half, ...within), clamp(value + half, ...within)];
  };
}

/** Return P(A + B ≥ observed) if nobody has the symbol: A of people's reports, B of uniform dummies. */
function tailBeside(observed: number, law: CountLaw): number {
  const { trials, other, added, chance } = law.of;
  if (added === 0) return binomialTail(observed, trials, other);
  const [mean, spread] = [added * chance, Math.sqrt(added * chance * (1 - chance))];
  const low = Math.max(0, Math.trunc(mean - FAR * spread) - 50);
  const high = Math.min(added, Math.trunc(mean + FAR * spread) + 50);
  const tails = binomialTails(observed - high, observed - low, trials, other);
  let sum = 0;
  for (let b = low; b <= high; b++) sum += binomialAt(b, added, chance) * tails[high - b]!;
  const beyond = (low > 0 ? 1 - binomialTail(low, added, chance) : 0) + binomialTail(high + 1, added, chance);
  return Math.min(sum + beyond, 1);
}
