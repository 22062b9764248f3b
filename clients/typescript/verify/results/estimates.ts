/** Makes the estimates of a query again, from its counts and the task alone.
 *
 * Null stands for a question whose estimates are not made again here. Each kind is that of `queries/questions`. */

import type { Json } from "../../src/base/canonical.js";
import {
  answersOf,
  type Amount,
  type Choice,
  type Digit,
  type Distribution,
  type Grouped,
  symbolsOf,
} from "../../src/task/questions.js";
import type { Query } from "../../src/task/task.js";
import type { Members } from "../certificate/records.js";
import { type Batch, Debiased, krrSupport, nearInterval, type Support, unarySupport } from "./debiased.js";
import type { ChainNoise } from "./noise_sums.js";
import {
  type Estimate,
  type Estimates,
  estimateOf,
  firstAtLeast,
  type Group,
  inBand,
  invert,
  known,
  mapped,
  rateOf,
  type Row,
  withBands,
  withVerdicts,
} from "./rows.js";

/** Return how a query's reports count for symbols; null if its estimates are not made again here. */
function supportOf(query: Query): Support | null {
  const { randomizer } = query;
  if (randomizer.mechanism === "krr") return krrSupport(query.symbols, randomizer.gamma);
  if (randomizer.mechanism === "unary")
    return unarySupport(query.symbols, randomizer.truthful, randomizer.other);
  return null;
}

export function batchOf(
  query: Query,
  shufflers: number,
  counts: readonly number[],
  valid: number,
  dummies: number,
): Batch | null {
  const support = supportOf(query);
  const { kind } = query.question;
  if (support === null || kind === "longitudinal" || kind === "text") return null;
  // The p-values of several symbols together beside noise lose the digits that a file states.
  if (kind === "grouped" && query.noise !== null) return null;
  const noise: ChainNoise | null = query.noise === null ? null : { law: query.noise, shufflers };
  return { support, counts, valid, dummies, noise };
}

/** Return a query's estimates; `raw` is the query as its task has it. */
export function estimatesOf(query: Query, raw: Members, batch: Batch): Estimates {
  const found = asked(query.question as Asked, raw, new Debiased(batch));
  return withBands(withVerdicts(found));
}

type Asked = Choice | Amount | Distribution | Grouped | Digit;

function asked(question: Asked, raw: Members, debiased: Debiased): Estimates {
  switch (question.kind) {
    case "histogram":
      return histogram(question, debiased);
    case "top":
      return top(question, raw["false_discovery_rate"] as number, debiased);
    case "sum":
      return sumOf(question, debiased);
    case "variance":
      return varianceOf(question, debiased);
    case "distribution":
      return distribution(question, raw["quantiles"] as number[], debiased);
    case "grouped":
      return byGroup(question, raw["of"] as { [name: string]: Json }, debiased);
    case "bit":
      return { kind: "bit", rows: [{ statistic: "ones", estimate: debiased.countOf([0, 1]) }] };
  }
}

function histogram(question: Choice, debiased: Debiased): Estimates {
  const answers = answersOf(question);
  const [counts, consistent, values] = [debiased.everySymbol(), debiased.consistent(), debiased.pValues()];
  const rows: Row[] = question.categories.map((category, place) => ({
    statistic: "count",
    estimate: counts[place]!,
    category,
    consistent: consistent[place]!,
    pValue: values[place]!,
  }));
  return {
    kind: question.kind,
    rows: [...rows, { statistic: "answered", estimate: debiased.answered(answers) }],
  };
}

function top(question: Choice, rate: number, debiased: Debiased): Estimates {
  const answers = answersOf(question);
  const values = debiased.pValues().slice(0, answers);
  const [counts, consistent] = [debiased.everySymbol(), debiased.consistent()];
  const answered = debiased.answered(answers);
  const band = rateOf(answers + (answered.interval === undefined ? 0 : 1));
  const found = discovered(values, rate).sort((one, other) => counts[other]!.value - counts[one]!.value);
  const rows: Row[] = found.map((place) => {
    const banded = inBand(counts[place]!, band);
    const [lower, upper] = banded.simultaneous ?? [banded.lower, banded.upper];
    return {
      statistic: "count",
      estimate: { ...banded, lower, upper },
      category: question.categories[place]!,
      consistent: consistent[place]!,
      pValue: values[place]!,
      significant: true,
    };
  });
  const note =
    `${found.length} of ${answers} categories are significantly different from zero; on average at most ` +
    `${sixDigits(rate)} of those found have nobody; their counts are too high on average, ` +
    "and the intervals are valid for all categories at once";
  return {
    kind: question.kind,
    rows: [...rows, { statistic: "answered", estimate: inBand(answered, band) }],
    notes: [note],
  };
}

/** Return the places of the discoveries, by Benjamini and Yekutieli's procedure. */
function discovered(values: readonly number[], rate: number): number[] {
  const order = values.map((_, place) => place).sort((one, other) => values[one]! - values[other]!);
  const harmonic = values.reduce((so, _, place) => so + 1 / (place + 1), 0);
  const last = order.findLastIndex(
    (place, rank) => values[place]! <= ((rank + 1) * rate) / (values.length * harmonic),
  );
  return order.slice(0, last + 1);
}

function scaledOf(question: Amount, debiased: Debiased): number[] {
  const steps = question.levels;
  const scaled = Array.from({ length: answersOf(question) }, (_, step) =>
    question.kind === "sum" ? step / steps : (step - 0.5) / steps - 0.5,
  );
  return debiased.size > scaled.length ? [...scaled, 0] : scaled;
}

function sumRow(
  question: Amount,
  debiased: Debiased,
  value: number,
  variance: number,
  weights: number[],
): Estimate {
  const width = question.upper - question.lower;
  const all = debiased.answered(answersOf(question)).interval === undefined;
  const [least, most] = [debiased.people * question.lower, debiased.people * question.upper];
  const within: [number, number] = all ? [least, most] : [Math.min(least, 0), Math.max(most, 0)];
  return debiased.near(value, variance, weights, width, within);
}

function sumOf(question: Amount, debiased: Debiased): Estimates {
  const answers = answersOf(question);
  const { lower, levels, unit, upper } = question;
  const width = upper - lower;
  const [scaled, answered] = [scaledOf(question, debiased), debiased.answered(answers)];
  const answering = debiased.answering(answers);
  const rounding = Math.min(Math.max(answered.value, 0), debiased.people) / (4 * levels ** 2);
  const weights = scaled.map((each, place) => each + (lower / width) * answering[place]!);
  const value = lower * answered.value + width * debiased.total(scaled);
  const total = sumRow(question, debiased, value, debiased.variance(weights, rounding), weights);
  const mean = debiased.ratio(scaled, answers, [0, 1], rounding);
  const rows: Row[] = [
    { statistic: "answered", estimate: answered },
    { statistic: "sum", estimate: total },
    { statistic: "mean", estimate: mean === null ? null : mapped(mean, lower, width) },
  ];
  return { kind: question.kind, rows, unit, clippedTo: [lower, upper] };
}

function varianceOf(question: Amount, debiased: Debiased): Estimates {
  const answers = answersOf(question);
  const { lower, levels, unit, upper } = question;
  const [width, middle] = [upper - lower, lower / 2 + upper / 2];
  const answered = debiased.answered(answers);
  const first = scaledOf(question, debiased);
  const answering = debiased.answering(answers);
  const rounding = Math.min(Math.max(answered.value, 0), debiased.people) / (4 * levels ** 2);
  const weights = first.map((each, place) => each + (middle / width) * answering[place]!);
  const value = middle * answered.value + width * debiased.total(first);
  const total = sumRow(question, debiased, value, debiased.variance(weights, rounding), weights);
  const [mean, spread] =
    answered.value > 0 ? moments(question, debiased, answered.value, rounding) : [null, null];
  const rows: Row[] = [
    { statistic: "answered", estimate: answered },
    { statistic: "sum", estimate: total },
    { statistic: "mean", estimate: mean },
    { statistic: "variance", estimate: spread },
  ];
  return { kind: question.kind, rows, unit, clippedTo: [lower, upper] };
}

function moments(
  question: Amount,
  debiased: Debiased,
  answered: number,
  rounding: number,
): [Estimate, Estimate] {
  const answers = answersOf(question);
  const { levels } = question;
  const [width, middle] = [question.upper - question.lower, question.lower / 2 + question.upper / 2];
  const first = scaledOf(question, debiased);
  const second = first.map((each, place) => (place < answers ? each ** 2 - 1 / (4 * levels ** 2) : 0));
  const answering = debiased.answering(answers);
  const [m, square] = [debiased.total(first) / answered, debiased.total(second) / answered];
  const off = first.map((each, place) => each - m * answering[place]!);
  const ofMean = debiased.variance(off, rounding) / answered ** 2;
  const spread = square - m ** 2 + ofMean;
  const weights = second.map(
    (each, place) => each - 2 * m * first[place]! - (square - 2 * m ** 2) * answering[place]!,
  );
  const step = 1 / levels;
  const bounded = Math.min(Math.max(spread, 0), 0.25);
  const most = 4 * rounding * (bounded + step * Math.sqrt(bounded / 27) + (3 * step ** 2) / 16);
  const ofSpread = debiased.variance(weights, most) / answered ** 2 + 2 * ofMean ** 2;
  const mean = debiased.ratio(first, answers, [-0.5, 0.5], rounding)!;
  const scaled = weights.map((each) => each / answered);
  const variance = debiased.near(width ** 2 * spread, ofSpread, scaled, width ** 2, [0, width ** 2 / 4]);
  return [mapped(mean, middle, width), variance];
}

function distribution(question: Distribution, quantiles: readonly number[], debiased: Debiased): Estimates {
  const answers = answersOf(question);
  const { edges, unit } = question;
  const inner = edges.slice(1, -1);
  const answered = debiased.answered(answers);
  const consistent = debiased.consistent().slice(0, answers);
  const [counts, values] = [debiased.everySymbol(), debiased.pValues()];
  const rows: Row[] = bucketNames(inner).map((category, place) => ({
    statistic: "count",
    estimate: counts[place]!,
    category,
    consistent: consistent[place]!,
    pValue: values[place]!,
  }));
  const shares = sharesOf(consistent);
  const functions = inner.map((_, place) => shareUpTo(debiased, answers, place + 1));
  inner.forEach((at, place) => {
    const share = shares[place + 1];
    rows.push({
      statistic: "cdf",
      estimate: functions[place]!,
      at,
      ...(share === undefined ? {} : { consistent: share }),
    });
  });
  for (const at of quantiles)
    rows.push({ statistic: "quantile", estimate: quantile(edges, functions, shares, at), at });
  rows.push({ statistic: "answered", estimate: answered });
  return { kind: question.kind, rows, unit, clippedTo: [edges[0]!, edges.at(-1)!] };
}

function shareUpTo(debiased: Debiased, answers: number, buckets: number): Estimate | null {
  const below = Array.from({ length: debiased.size }, (_, symbol) => (symbol < buckets ? 1 : 0));
  const answered = debiased.answered(answers);
  if (answered.interval === undefined && answered.value > 0)
    return mapped(debiased.countOf(below), 0, 1 / answered.value);
  return debiased.ratio(below, answers, [0, 1]);
}

function quantile(
  edges: readonly number[],
  functions: readonly (Estimate | null)[],
  shares: readonly number[],
  at: number,
): Estimate | null {
  const intervals = functions.flatMap((each) => (each?.interval === undefined ? [] : [each.interval]));
  if (shares.length === 0 || intervals.length < functions.length) return null;
  const [lower, upper] = invert(
    edges,
    intervals.map((interval) => interval(rateOf(intervals.length))),
    at,
  );
  const value = Math.min(Math.max(interpolated(edges, shares, at), lower), upper);
  return { value, error: null, lower, upper };
}

function interpolated(edges: readonly number[], shares: readonly number[], probability: number): number {
  const after = Math.min(Math.max(firstAtLeast(shares, probability), 1), edges.length - 1);
  const [low, high] = [shares[after - 1]!, shares[after]!];
  const part = high > low ? (probability - low) / (high - low) : 1;
  return edges[after - 1]! + part * (edges[after]! - edges[after - 1]!);
}

function sharesOf(counts: readonly number[]): number[] {
  const total = counts.reduce((so, each) => so + each, 0);
  if (total <= 0) return [];
  let so = 0;
  return [0, ...counts.slice(0, -1).map((each) => Math.min((so += each) / total, 1)), 1];
}

function byGroup(question: Grouped, raw: Members, debiased: Debiased): Estimates {
  const size = symbolsOf(question.of);
  const sizes = question.by.map((each) => each.categories.length);
  const joint = sizes.reduce((product, each) => product * each, size);
  let first: Estimates | null = null;
  const rows: Row[] = [];
  for (const chosen of choices(sizes)) {
    const place = Array.from({ length: debiased.size }, (_, symbol) => {
      if (symbol >= joint) return -1;
      let rest = Math.floor(symbol / size);
      for (let attribute = sizes.length - 1; attribute >= 0; attribute--) {
        const value = rest % sizes[attribute]!;
        rest = Math.floor(rest / sizes[attribute]!);
        if (chosen[attribute] !== null && chosen[attribute] !== value) return -1;
      }
      return symbol % size;
    });
    const group: Group = question.by.flatMap((each, attribute) =>
      chosen[attribute] === null ? [] : [[each.name, each.categories[chosen[attribute]!]!] as const],
    );
    const found = asked(question.of as Asked, raw, debiased.slice(place, size));
    first ??= found;
    for (const row of found.rows) rows.push({ ...row, group });
  }
  return { ...first!, kind: question.kind, rows };
}

/** Return every choice of a value, or none, for each attribute: those that fix fewer attributes come first. */
function choices(sizes: readonly number[]): (number | null)[][] {
  let all: (number | null)[][] = [[]];
  for (const size of sizes)
    all = all.flatMap((each) =>
      [null, ...Array.from({ length: size }, (_, value) => value)].map((one) => [...each, one]),
    );
  const fixed = (chosen: readonly (number | null)[]): number => chosen.filter((each) => each !== null).length;
  const order = (chosen: readonly (number | null)[], place: number): number => chosen[place] ?? 1e9;
  return all.sort((one, other) => {
    const difference = fixed(one) - fixed(other);
    if (difference !== 0) return difference;
    const place = one.findIndex((_, at) => order(one, at) !== order(other, at));
    return place < 0 ? 0 : order(one, place) - order(other, place);
  });
}

/** Return the sum and the mean of a number from the batches of all its digits, the most significant one first. */
export function sumOfDigits(question: Digit, batches: readonly Batch[]): Estimates {
  const bits = batches.map((each) => new Debiased(each));
  const people = bits.map((bit) => bit.people);
  const [number, steps] = [Math.max(...people), 2 ** bits.length - 1];
  const width = question.upper - question.lower;
  let [total, spread, reach] = [0, 0, 0];
  bits.toReversed().forEach((bit, place) => {
    const weight = 2 ** place / steps;
    total += weight * bit.total([0, 1]);
    spread += weight ** 2 * bit.variance([0, 1]);
    reach = Math.max(reach, weight * bit.reach([0, 1]));
  });
  const error = Math.sqrt(spread + number / (4 * steps ** 2)) * width;
  const value = question.lower * number + width * total;
  const within = [question.lower * number, question.upper * number] as const;
  const found = estimateOf(value, error, nearInterval(value, error, reach * width, within));
  const rows: Row[] = [
    { statistic: "answered", estimate: known(number) },
    { statistic: "sum", estimate: found },
    { statistic: "mean", estimate: number > 0 ? mapped(found, 0, 1 / number) : null },
  ];
  const [least, most] = [Math.min(...people), Math.max(...people)];
  const note = `the digits have from ${least} to ${most} reports; a report that was left out counts as a digit 0`;
  const notes = least === most ? [] : [note];
  const span = [question.lower, question.upper] as const;
  return withBands({ kind: "sum", rows, unit: question.unit, clippedTo: span, notes });
}

function bucketNames(inner: readonly number[]): string[] {
  const names = inner.slice(1).map((high, place) => `(${written(inner[place]!)}, ${written(high)}]`);
  return [`≤ ${written(inner[0]!)}`, ...names, `> ${written(inner.at(-1)!)}`];
}

/** Return a double as Python writes it, without the fraction of a whole one. */
export function written(value: number): string {
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const [digits, power] = value.toExponential().split("e") as [string, string];
  const exponent = Number(power);
  if (exponent >= -4 && exponent < 16) return plainly(value, digits, exponent);
  return `${digits}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

function plainly(value: number, digits: string, exponent: number): string {
  const text = digits.replace(/[-.]/g, "");
  const sign = value < 0 ? "-" : "";
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${text}`;
  const whole = text.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  const part = text.slice(exponent + 1);
  return sign + whole + (part === "" ? "" : `.${part}`);
}

/** Return a number as `%g` writes it. */
function sixDigits(value: number): string {
  return written(Number(value.toPrecision(6)));
}
