/** A query's published numbers, and the intervals and verdicts that all of them have together. */

import { normalQuantile } from "./normal.js";

const LEVEL = 0.95;
const ERROR_RATE = 0.025;

export type Interval = (rate: number) => [number, number];
export type Group = readonly (readonly [string, string])[];

export interface Estimate {
  readonly value: number;
  /** Null for a statistic that has an interval and no standard error. */
  readonly error: number | null;
  readonly lower: number;
  readonly upper: number;
  readonly simultaneous?: readonly [number, number];
  /** Intervals of other levels; a number that is known has none. */
  readonly interval?: Interval;
}

export interface Row {
  readonly statistic: string;
  readonly estimate: Estimate | null;
  readonly category?: string;
  readonly consistent?: number;
  readonly group?: Group;
  readonly at?: number;
  readonly pValue?: number;
  readonly significant?: boolean;
}

export interface Estimates {
  readonly kind: string;
  readonly rows: readonly Row[];
  readonly unit?: string;
  readonly clippedTo?: readonly [number, number];
  readonly notes?: readonly string[];
}

export function estimateOf(value: number, error: number, interval: Interval): Estimate {
  const [lower, upper] = interval(1 - LEVEL);
  return { value, error, lower, upper, interval };
}

export function known(value: number): Estimate {
  return { value, error: 0, lower: value, upper: value };
}

/** Return the estimate of offset + factor·(the estimated number). */
export function mapped(estimate: Estimate, offset: number, factor: number): Estimate {
  const ends = ([first, second]: readonly [number, number]): [number, number] => {
    const [low, high] = [offset + factor * first, offset + factor * second];
    return factor >= 0 ? [low, high] : [high, low];
  };
  const [value, error] = [offset + factor * estimate.value, Math.abs(factor) * (estimate.error ?? 0)];
  const { interval } = estimate;
  if (interval !== undefined) return estimateOf(value, error, (rate) => ends(interval(rate)));
  const [lower, upper] = ends([estimate.lower, estimate.upper]);
  return { value, error, lower, upper };
}

/** Return the probability with which each of so many intervals of a band may miss. */
export function rateOf(intervals: number): number {
  return (1 - LEVEL) / Math.max(intervals, 1);
}

export function halfWidth(rate: number): number {
  return normalQuantile(1 - rate / 2);
}

export function nearHalfWidth(z: number, error: number, reach: number): number {
  return z * error + (reach * (z ** 2 + 2)) / 6;
}

export function inBand(estimate: Estimate, rate: number): Estimate {
  const { interval, ...rest } = estimate;
  if (estimate.error === null || estimate.simultaneous !== undefined) return rest;
  const simultaneous = interval === undefined ? ([estimate.lower, estimate.upper] as const) : interval(rate);
  return { ...rest, simultaneous };
}

export function withBands(estimates: Estimates): Estimates {
  const rate = rateOf(estimates.rows.filter((row) => row.estimate?.interval !== undefined).length);
  const rows = estimates.rows.map((row) =>
    row.estimate === null ? row : { ...row, estimate: inBand(row.estimate, rate) },
  );
  const span = estimates.clippedTo;
  if (span === undefined || rows.every((row) => row.statistic !== "quantile")) return { ...estimates, rows };
  return { ...estimates, rows: rows.map((row) => inverted(row, rows, span)) };
}

function inverted(row: Row, rows: readonly Row[], span: readonly [number, number]): Row {
  if (row.statistic !== "quantile" || row.estimate === null || row.at === undefined) return row;
  const edges = [span[0]];
  const band: (readonly [number, number])[] = [];
  for (const other of rows) {
    const same = other.statistic === "cdf" && JSON.stringify(other.group) === JSON.stringify(row.group);
    if (!same || other.estimate === null || other.at === undefined) continue;
    edges.push(other.at);
    band.push(other.estimate.simultaneous ?? [0, 1]);
  }
  const simultaneous = invert([...edges, span[1]], band, row.at);
  return { ...row, estimate: { ...row.estimate, simultaneous } };
}

/** Return the ends of a quantile's interval; `band` has those of F at every edge but the first and the last. */
export function invert(
  edges: readonly number[],
  band: readonly (readonly [number, number])[],
  probability: number,
): [number, number] {
  const lower: number[] = [];
  for (const [low] of band) lower.push(Math.max(low, lower.at(-1) ?? low));
  const upper: number[] = [];
  for (const [, high] of band.toReversed()) upper.push(Math.min(high, upper.at(-1) ?? high));
  upper.reverse();
  const first = firstAtLeast(upper, probability);
  const last = firstAtLeast(lower, probability) + 1;
  return [edges[Math.min(first, last - 1)]!, edges[Math.max(last, first + 1)]!];
}

/** Return the place of the first of rising values that is at least this, or their number. */
export function firstAtLeast(values: readonly number[], least: number): number {
  const found = values.findIndex((value) => value >= least);
  return found < 0 ? values.length : found;
}

/** Return the estimates with a verdict on each count that has a p-value, by Holm's test. */
export function withVerdicts(estimates: Estimates): Estimates {
  const asked = estimates.rows.filter((row) => row.pValue !== undefined && row.significant === undefined);
  const order = asked
    .map((_, place) => place)
    .sort((one, other) => asked[one]!.pValue! - asked[other]!.pValue!);
  const verdicts = new Map(asked.map((row) => [row, false]));
  let rejected = 0;
  for (const place of order) {
    if (asked[place]!.pValue! > ERROR_RATE / (asked.length - rejected)) break;
    verdicts.set(asked[place]!, true);
    rejected += 1;
  }
  const rows = estimates.rows.map((row) => {
    const significant = verdicts.get(row);
    return significant === undefined ? row : { ...row, significant };
  });
  return { ...estimates, rows };
}

/** Return the rows as the JSON of a file of results, with all digits. */
export function documentOf(estimates: Estimates): Record<string, unknown> {
  const document: Record<string, unknown> = { kind: estimates.kind };
  if (estimates.clippedTo !== undefined)
    Object.assign(document, { unit: estimates.unit ?? "", range: estimates.clippedTo });
  Object.assign(
    document,
    statistics(estimates.rows.filter((row) => row.group === undefined || row.group.length === 0)),
  );
  const groups = new Map<string, Row[]>();
  for (const row of estimates.rows) {
    if (row.group === undefined || row.group.length === 0) continue;
    const name = JSON.stringify(row.group);
    groups.set(name, [...(groups.get(name) ?? []), row]);
  }
  if (groups.size > 0)
    document["groups"] = [...groups.values()].map((rows) => ({
      group: Object.fromEntries(rows[0]!.group!),
      ...statistics(rows),
    }));
  if (estimates.notes !== undefined && estimates.notes.length > 0) document["notes"] = estimates.notes;
  return document;
}

function statistics(rows: readonly Row[]): Record<string, unknown> {
  const document: Record<string, unknown> = {};
  for (const row of rows) {
    const value = row.estimate === null ? null : numbersOf(row.estimate);
    if (row.category === undefined && row.at === undefined) {
      document[row.statistic] = value;
      continue;
    }
    const { category, at, consistent, pValue: p_value, significant } = row;
    const members = {
      ...given({ category, at }),
      ...(value ?? {}),
      ...given({ consistent, p_value, significant }),
    };
    const list = (document[`${row.statistic}s`] ??= []) as unknown[];
    list.push(members);
  }
  return document;
}

function numbersOf(estimate: Estimate): Record<string, number | null> {
  const { value, error, lower, upper, simultaneous } = estimate;
  const named = { estimate: value, standard_error: error, lower, upper };
  if (simultaneous === undefined) return named;
  return { ...named, simultaneous_lower: simultaneous[0], simultaneous_upper: simultaneous[1] };
}

function given(members: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}
