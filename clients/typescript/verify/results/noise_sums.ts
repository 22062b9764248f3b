/** Laws of the shufflers' noise of several symbols together, given the known sum of all symbols' noise. */

import type { Noise } from "../../src/task/task.js";
import { tableOf } from "../certificate/noise.js";

/** Most values of a sum of noise whose law is computed here. */
const LONGEST = 2 ** 20;
const WHOLE = 2 ** 128;
const CUT = 1e-11;
const LEAST_CHANCE = 1e-7;
const DIRECT = 2 ** 26;

/** A law that is too long to compute in a page. */
export class TooLong extends Error {}

/** The noise of all shufflers of a chain together. */
export interface ChainNoise {
  readonly law: Noise;
  readonly shufflers: number;
}

export function largestOf(noise: ChainNoise): number {
  return 2 * noise.law.reach * noise.shufflers;
}

/** Return the variance of one symbol's noise. */
export function varianceOf(noise: ChainNoise): number {
  const middle = BigInt(noise.law.reach);
  const sum = tableOf(noise.law).reduce((so, weight, z) => so + weight * (BigInt(z) - middle) ** 2n, 0n);
  return (Number(sum) / WHOLE) * noise.shufflers;
}

/** Return the probability of each value of the noise of so many symbols, from 0 on. */
function lawOf(noise: ChainNoise, symbols: number): Float64Array {
  const table = Float64Array.from(tableOf(noise.law), (weight) => Number(weight) / WHOLE);
  const draws = symbols * noise.shufflers;
  if (draws === 1) return table;
  const length = (table.length - 1) * draws + 1;
  if (length > LONGEST) throw new TooLong();
  if (symbols === 1 && largestOf(noise) ** 2 <= DIRECT) {
    let law = table;
    for (let each = 1; each < noise.shufflers; each++) law = convolved(law, table);
    return law;
  }
  return power(table, draws, length);
}

function convolved(one: Float64Array, other: Float64Array): Float64Array<ArrayBuffer> {
  const found = new Float64Array(one.length + other.length - 1);
  one.forEach((left, place) => {
    for (let at = 0; at < other.length; at++) found[place + at]! += left * other[at]!;
  });
  return found;
}

function power(table: Float64Array, draws: number, length: number): Float64Array {
  let size = 1;
  while (size < length) size *= 2;
  const [re, im] = [new Float64Array(size), new Float64Array(size)];
  re.set(table);
  transform(re, im, -1);
  for (let place = 0; place < size; place++) {
    const [modulus, angle] = [
      Math.hypot(re[place]!, im[place]!) ** draws,
      Math.atan2(im[place]!, re[place]!) * draws,
    ];
    re[place] = modulus * Math.cos(angle);
    im[place] = modulus * Math.sin(angle);
  }
  transform(re, im, 1);
  return re.slice(0, length).map((each) => Math.max(each / size, 0));
}

/** The discrete Fourier transform in place, of a power of two of values. */
function transform(re: Float64Array, im: Float64Array, sign: number): void {
  const size = re.length;
  for (let place = 1, swap = 0; place < size; place++) {
    let bit = size >> 1;
    for (; swap & bit; bit >>= 1) swap ^= bit;
    swap ^= bit;
    if (place >= swap) continue;
    [re[place], re[swap]] = [re[swap]!, re[place]!];
    [im[place], im[swap]] = [im[swap]!, im[place]!];
  }
  for (let half = 1; half < size; half *= 2) {
    for (let step = 0; step < half; step++) {
      const angle = (sign * Math.PI * step) / half;
      const [cosine, sine] = [Math.cos(angle), Math.sin(angle)];
      for (let one = step; one < size; one += 2 * half) {
        const other = one + half;
        const left = re[other]! * cosine - im[other]! * sine;
        const right = re[other]! * sine + im[other]! * cosine;
        re[other] = re[one]! - left;
        im[other] = im[one]! - right;
        re[one]! += left;
        im[one]! += right;
      }
    }
  }
}

/** The law of a sum of independent draws of a table, whose first value is `least`. */
export class NoiseSum {
  readonly mean: number;
  readonly variance: number;
  readonly reach: number;

  constructor(
    readonly least: number,
    readonly table: Float64Array,
    readonly draws: number,
  ) {
    let [middle, spread] = [0, 0];
    table.forEach((chance, place) => (middle += chance * (least + place)));
    table.forEach((chance, place) => (spread += chance * (least + place - middle) ** 2));
    const furthest = Math.max(middle - least, least + table.length - 1 - middle);
    this.mean = draws * middle;
    this.variance = draws * spread;
    this.reach = Math.min(draws * furthest, Math.sqrt(60 * this.variance) + 20 * furthest);
  }
}

/** Return the law of the noise of `some` of the symbols, given that all noise adds up to `total`. */
export function noiseSum(noise: ChainNoise, some: number, symbols: number, total: number): NoiseSum {
  const table = lawOf(noise, 1);
  if (symbols === 2)
    return some === 1 ? new NoiseSum(0, table, 1) : new NoiseSum(total, Float64Array.of(1), 1);
  const given = givenTotal(lawOf(noise, some), lawOf(noise, symbols - some), total);
  return given ?? new NoiseSum(0, table, some);
}

function givenTotal(inside: Float64Array, outside: Float64Array, total: number): NoiseSum | null {
  const least = Math.max(0, total - outside.length + 1);
  const most = Math.min(total, inside.length - 1);
  const joint: number[] = [];
  for (let a = least; a <= most; a++) joint.push(inside[a]! * outside[total - a]!);
  const chance = joint.reduce((sum, each) => sum + each, 0);
  if (!(chance >= LEAST_CHANCE)) return null;
  let [first, last] = [0, joint.length];
  for (let sum = joint[first]!; sum < CUT * chance; sum += joint[first]!) first += 1;
  for (let sum = joint[last - 1]!; sum < CUT * chance; sum += joint[last - 1]!) last -= 1;
  return new NoiseSum(
    least + first,
    Float64Array.from(joint.slice(first, last), (each) => each / chance),
    1,
  );
}

/** Return the law of one symbol's noise with all of its digits. */
export function exactLaw(noise: ChainNoise): Float64Array {
  if (noise.shufflers > 1 && largestOf(noise) ** 2 > DIRECT) throw new TooLong();
  return lawOf(noise, 1);
}
