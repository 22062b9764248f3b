/** The exact law of how many reports count for some symbols, and the intervals that hold for any number of people.
 *
 * N = Bin(c, own) + Bin(trials − c, other) + dummies. Its tails are sums of its characteristic function. An end of an
 * interval is a whole number: the first c whose tail is beyond the level by more than the sums are wrong. The method
 * is that of `queries/estimation/count_law.py`, so that both find the same whole numbers. */

import { normalQuantile } from "./normal.js";
import { NoiseSum, TooLong } from "./noise_sums.js";

const SLACK = 2e-9;
const FAR = 7.75;
const FURTHER = 20;
const LEAST_DECAY = 40;
const GUESSES = 8;
/** Most sines of the noise's characteristic function, and values of a period: some seconds. */
const MOST_SINES = 2e8;
const LONGEST_PERIOD = 2 ** 24;

export interface LawOptions {
  readonly people: number;
  readonly trials: number;
  readonly own: number;
  readonly other: number;
  readonly added: number;
  readonly chance: number;
  readonly noise: NoiseSum | null;
}

export class CountLaw {
  private readonly grids = new Map<number, Grid>();
  private readonly ends = new Map<string, [number, number]>();
  readonly own: number;

  constructor(readonly of: LawOptions) {
    this.own = Math.min(of.own, 1);
  }

  /** Return the ends of an observed sum's interval, which misses with a probability of at most `rate`. */
  interval(observed: number, rate: number): [number, number] {
    const name = `${observed} ${rate}`;
    const known = this.ends.get(name);
    if (known !== undefined) return known;
    const low = this.first(observed, true, rate / 2);
    const high = this.first(observed, false, rate / 2) - 1;
    const found: [number, number] = [Math.min(low, this.of.people), Math.max(high, 0)];
    this.ends.set(name, found);
    return found;
  }

  /** Return the probability of a sum as large if nobody has one of the symbols. */
  chanceOfAsMany(observed: number): number {
    return Math.min(this.tail(0, observed, true)[0] + SLACK, 1);
  }

  private first(seen: number, above: boolean, level: number): number {
    let [low, high] = [-1, this.of.people + 1];
    const holds = (tail: number): boolean => tail + SLACK > level === above;
    let guess = Math.round(this.expected(seen));
    for (let steps = 0; high - low > 1; steps++) {
      const [least, most] = [low + 1, high - 1];
      const tried = steps < GUESSES ? Math.min(Math.max(guess, least), most) : Math.floor((least + most) / 2);
      const [tail, spread] = this.tail(tried, seen, above);
      if (tried > 0 && holds(this.tail(tried - 1, seen, above)[0])) high = tried - 1;
      else if (holds(tail)) [low, high] = [tried - 1, tried];
      else low = tried;
      guess = this.better(tried, tail, spread, above, level);
    }
    return high;
  }

  private expected(seen: number): number {
    const { trials, other, added, chance, noise } = this.of;
    const mean = trials * other + added * chance + (noise?.mean ?? 0);
    return (seen - mean) / (this.own - other);
  }

  private better(tried: number, tail: number, spread: number, above: boolean, level: number): number {
    const inside = Math.min(Math.max(tail, SLACK / 100), 1 - SLACK / 100);
    const gap = this.own - this.of.other;
    const away = ((normalQuantile(level) - normalQuantile(inside)) * spread) / gap;
    return Math.ceil(tried + (above ? away : -away));
  }

  /** Return P_c(N ≥ seen), or P_c(N ≤ seen) if not `above`, and N's standard deviation. */
  private tail(people: number, seen: number, above: boolean): [number, number] {
    const { trials, other, added, chance, noise } = this.of;
    const rest = trials - people;
    const mean = people * this.own + rest * other + added * chance + (noise?.mean ?? 0);
    const variance =
      people * this.own * (1 - this.own) + rest * other * (1 - other) + added * chance * (1 - chance);
    const reach = FAR * Math.sqrt(variance) + FURTHER + (noise?.reach ?? 0);
    const spread = Math.sqrt(variance + (noise?.variance ?? 0));
    const away = seen - mean;
    if (Math.abs(away) > reach) return [away < 0 === above ? 1 : 0, spread];
    const size = Math.ceil(Math.log2(4 * reach + 2));
    let grid = this.grids.get(size);
    if (grid === undefined) {
      const least = ((2 ** (size - 1) - 2) / 4 - (noise?.reach ?? 0) - FURTHER) / FAR;
      grid = new Grid(this.of, this.own, 2 ** size + 1, Math.max(0, least) ** 2);
      this.grids.set(size, grid);
    }
    return [grid.tail(people, seen, above, variance), spread];
  }
}

/** The characteristic function of a law at the frequencies 2πj/period, and sums of it that are tails. */
class Grid {
  private readonly turned: boolean;
  private readonly gap: Waves;
  private readonly base: Waves;
  private readonly weights: Waves;
  private readonly noise: Waves | null;

  constructor(
    of: LawOptions,
    own: number,
    private readonly period: number,
    variance: number,
  ) {
    if (period > LONGEST_PERIOD) throw new TooLong();
    const half = (period - 1) / 2;
    const used = usedOf(period, half + 1, variance);
    // If p is above ½, those who do not count are counted: c is then added in whole numbers, without rounding.
    this.turned = own > 0.5;
    [this.gap, this.base, this.weights] = [waves(used), waves(used), waves(used)];
    this.noise = of.noise === null ? null : characteristic(of.noise, period, used);
    for (let j = 0; j < used; j++) {
      const omega = (2 * Math.PI * j) / period;
      const [otherRe, otherIm] = logarithm(of.other, omega);
      const [ownRe, ownIm] = logarithm(this.turned ? 1 - own : own, omega);
      const [addedRe, addedIm] = logarithm(of.chance, omega);
      this.gap.re[j] = ownRe - otherRe;
      this.gap.im[j] = (this.turned ? -ownIm : ownIm) - otherIm;
      this.base.re[j] = of.trials * otherRe + of.added * addedRe;
      this.base.im[j] = of.trials * otherIm + of.added * addedIm;
      const [re, im] = j === 0 ? [half + 1, 0] : geometric(omega, half + 1);
      // The real kernel of both sides; the noise's factor is applied beside it.
      this.weights.re[j] = (j === 0 ? re : 2 * re) / period;
      this.weights.im[j] = (2 * im) / period;
    }
  }

  tail(people: number, seen: number, above: boolean, variance: number): number {
    const used = Math.min(this.gap.re.length, usedOf(this.period, this.gap.re.length, variance));
    const begin = modulo(seen - (this.turned ? people : 0), this.period);
    const turn = (2 * Math.PI) / this.period;
    let sum = 0;
    for (let j = 0; j < used; j++) {
      const size = Math.exp(people * this.gap.re[j]! + this.base.re[j]!);
      const angle = people * this.gap.im[j]! + this.base.im[j]! - ((begin * j) % this.period) * turn;
      let [re, im] = [this.weights.re[j]!, above ? this.weights.im[j]! : -this.weights.im[j]!];
      if (this.noise !== null) {
        const [left, right] = [this.noise.re[j]!, this.noise.im[j]!];
        [re, im] = [re * left - im * right, re * right + im * left];
      }
      sum += size * (Math.cos(angle) * re - Math.sin(angle) * im);
    }
    return Math.min(Math.max(sum, 0), 1);
  }
}

interface Waves {
  readonly re: Float64Array;
  readonly im: Float64Array;
}

function waves(length: number): Waves {
  return { re: new Float64Array(length), im: new Float64Array(length) };
}

/** Return how many frequencies have a characteristic function of such a variance that is not negligible. */
function usedOf(period: number, most: number, variance: number): number {
  if (2 * variance <= LEAST_DECAY) return most;
  const omega = 2 * Math.asin(Math.min(1, Math.sqrt(LEAST_DECAY / (2 * variance))));
  return Math.min(most, Math.max(1, Math.ceil((omega * period) / (2 * Math.PI))));
}

/** Return ln E e^{iωX} of an X that is 1 with that chance, else 0. */
function logarithm(chance: number, omega: number): [number, number] {
  const less = 2 * chance * Math.sin(omega / 2) ** 2;
  return [0.5 * Math.log1p(-2 * (1 - chance) * less), Math.atan2(chance * Math.sin(omega), 1 - less)];
}

/** Return Σ e^{−iωd} over so many d from 0 on. */
function geometric(omega: number, terms: number): [number, number] {
  const [a, b] = [2 * Math.sin((omega * terms) / 2) ** 2, Math.sin(omega * terms)];
  const [c, d] = [2 * Math.sin(omega / 2) ** 2, Math.sin(omega)];
  const scale = c * c + d * d;
  return [(a * c + b * d) / scale, (b * c - a * d) / scale];
}

function characteristic(noise: NoiseSum, period: number, used: number): Waves {
  if (noise.table.length * used > MOST_SINES) throw new TooLong();
  const [cosines, sines] = [new Float64Array(period), new Float64Array(period)];
  for (let place = 0; place < period; place++) {
    cosines[place] = Math.cos((2 * Math.PI * place) / period);
    sines[place] = Math.sin((2 * Math.PI * place) / period);
  }
  const found = waves(used);
  for (let j = 0; j < used; j++) {
    let [re, im] = [0, 0];
    let at = (modulo(noise.least, period) * j) % period;
    for (const chance of noise.table) {
      re += chance * cosines[at]!;
      im += chance * sines[at]!;
      at = (at + j) % period;
    }
    const [modulus, angle] = [Math.hypot(re, im) ** noise.draws, Math.atan2(im, re) * noise.draws];
    found.re[j] = modulus * Math.cos(angle);
    found.im[j] = modulus * Math.sin(angle);
  }
  return found;
}

function modulo(value: number, period: number): number {
  return ((value % period) + period) % period;
}
