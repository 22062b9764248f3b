/** How a symbol becomes a report: the randomizers that a task can name, with the ε that each costs its device. */

import { SPAN } from "../base/random.js";
import * as read from "./fields.js";
import type { Members } from "./fields.js";
import { type Longitudinal, type Question, symbolsOf } from "./questions.js";

export interface Krr {
  readonly mechanism: "krr";
  readonly gamma: number;
}

export interface Unary {
  readonly mechanism: "unary";
  readonly truthful: number;
  readonly other: number;
}

export interface Hashed {
  readonly mechanism: "hashed";
  readonly cells: number;
  readonly rows: number;
  readonly gamma: number;
}

/** The strategies by which a state is sent over many rounds. */
export interface Direct {
  readonly mechanism: "direct";
  readonly gamma: number;
}

export interface Tree {
  readonly mechanism: "tree";
  readonly gamma: number;
  readonly side: number;
}

export interface Sampled {
  readonly mechanism: "sampled";
  readonly odds: bigint;
}

export interface Vector {
  readonly mechanism: "vector";
  readonly odds: bigint;
  readonly minuses: number;
}

export type Randomizer = Krr | Unary | Hashed | Direct | Tree | Sampled | Vector;

const MOST_BITS = 4096;
/** e⁴⁰, the largest odds of a sign. */
const MOST_ODDS = Math.exp(40);

/** The members of each randomizer in a query. */
const OWN: Readonly<Record<Randomizer["mechanism"], readonly string[]>> = {
  krr: ["mechanism", "gamma"],
  unary: ["mechanism", "truthful", "other"],
  hashed: ["mechanism", "cells", "rows", "gamma"],
  direct: ["gamma"],
  tree: ["gamma", "side"],
  sampled: ["steady", "odds"],
  vector: ["steady", "odds", "minuses"],
};

export function membersOf(randomizer: Randomizer): readonly string[] {
  return OWN[randomizer.mechanism];
}

export function readRandomizer(query: Members, question: Question, where: string): Randomizer {
  if (question.kind === "longitudinal") return readStrategy(query, question, where);
  const mechanism = read.oneOf(query["mechanism"], `${where}.mechanism`, ["krr", "unary", "hashed"] as const);
  if (question.kind === "text" && mechanism !== "hashed")
    throw read.refused(where, "is a text, and is not hashed");
  switch (mechanism) {
    case "krr":
      return { mechanism, gamma: read.share(query["gamma"], `${where}.gamma`) };
    case "unary": {
      const truthful = read.share(query["truthful"], `${where}.truthful`);
      const other = read.share(query["other"], `${where}.other`);
      if (other >= truthful) throw read.refused(`${where}.other`, "is not below truthful");
      if (symbolsOf(question) > MOST_BITS)
        throw read.refused(where, `is unary, with more than ${MOST_BITS} symbols`);
      return { mechanism, truthful, other };
    }
    case "hashed":
      return {
        mechanism,
        cells: read.whole(query["cells"], `${where}.cells`, 3, 2 ** 20),
        rows: read.whole(query["rows"], `${where}.rows`, 1, 4096),
        gamma: read.share(query["gamma"], `${where}.gamma`),
      };
  }
}

function readStrategy(query: Members, question: Longitudinal, where: string): Randomizer {
  const mechanism = question.strategy;
  switch (mechanism) {
    case "direct":
      return { mechanism, gamma: read.share(query["gamma"], `${where}.gamma`) };
    case "tree": {
      const gamma = read.share(query["gamma"], `${where}.gamma`);
      const side = read.share(query["side"], `${where}.side`);
      if (question.changes > 1 && 2 * side >= SPAN)
        throw read.refused(`${where}.side`, "is not below a half");
      return { mechanism, gamma, side };
    }
    case "sampled":
      return { mechanism, odds: odds(query, where) };
    case "vector": {
      const minuses = read.whole(query["minuses"], `${where}.minuses`, 0, question.changes - 1);
      return { mechanism, odds: odds(query, where), minuses };
    }
  }
}

function odds(query: Members, where: string): bigint {
  read.whole(query["steady"], `${where}.steady`, 1, Number.MAX_SAFE_INTEGER);
  const text = query["odds"];
  if (typeof text !== "string" || !/^[1-9][0-9]{0,39}$/.test(text)) {
    throw read.refused(`${where}.odds`, "is no whole number as a text");
  }
  const found = BigInt(text);
  if (found <= BigInt(SPAN) || Number(found) / SPAN > MOST_ODDS) {
    throw read.refused(`${where}.odds`, `is not above ${SPAN}, or more than e⁴⁰ times as much`);
  }
  return found;
}

/** Return how many bytes a report has, the same for every answer. */
export function reportBytes(randomizer: Randomizer, question: Question): number {
  return randomizer.mechanism === "unary" ? Math.ceil(symbolsOf(question) / 8) : 4;
}

/** Return the ε of one round, as a double that may be off by its last digits. */
export function epsilonLocal(randomizer: Randomizer, question: Question): number {
  switch (randomizer.mechanism) {
    case "krr":
      return response(randomizer.gamma, symbolsOf(question));
    case "hashed":
      return response(randomizer.gamma, randomizer.cells);
    case "direct":
      return response(randomizer.gamma, 2);
    case "unary": {
      const [p, q] = [randomizer.truthful / SPAN, randomizer.other / SPAN];
      return Math.log((p * (1 - q)) / (q * (1 - p)));
    }
    case "tree": {
      const signed = (question as Longitudinal).changes > 1;
      const rest = SPAN - randomizer.side * (signed ? 2 : 1);
      const least = Math.min(randomizer.side, rest) / SPAN;
      return Math.log1p((SPAN - randomizer.gamma) / (randomizer.gamma * least));
    }
    case "sampled": {
      const one = BigInt(SPAN);
      const changes = BigInt((question as Longitudinal).changes);
      return signs(ratio(randomizer.odds - one, (randomizer.odds + one) * changes), question as Longitudinal);
    }
    case "vector":
      return signs(meanSign(randomizer, question as Longitudinal), question as Longitudinal);
  }
}

function response(gamma: number, symbols: number): number {
  return Math.log1p((symbols * (SPAN - gamma)) / gamma);
}

function signs(gap: number, question: Longitudinal): number {
  return question.periods === 1 ? -Math.log1p(-gap) : Math.log1p(gap) - Math.log1p(-gap);
}

/** Return the weights of vectors by their number of minuses, times how many vectors have it. */
export function weights(randomizer: Vector, changes: number): bigint[] {
  const found: bigint[] = [];
  let vectors = 1n;
  for (let minuses = 0; minuses <= changes; minuses++) {
    found.push(vectors * (minuses <= randomizer.minuses ? randomizer.odds : BigInt(SPAN)));
    vectors = (vectors * BigInt(changes - minuses)) / BigInt(minuses + 1);
  }
  return found;
}

function meanSign(randomizer: Vector, question: Longitudinal): number {
  const found = weights(randomizer, question.changes);
  const sum = found.reduce((one, other) => one + other, 0n);
  const k = BigInt(question.changes);
  const excess = found.reduce((so, weight, minuses) => so + weight * (k - 2n * BigInt(minuses)), 0n);
  return ratio(excess, k * sum);
}

function ratio(over: bigint, under: bigint): number {
  return Number((over << 96n) / under) / 2 ** 96;
}

/** Return how often a person pays for one round's ε in so many rounds: an upper bound. */
export function paidRounds(randomizer: Randomizer, question: Question, rounds: number): number {
  if (randomizer.mechanism === "sampled" || randomizer.mechanism === "vector") return Math.min(rounds, 1);
  if (randomizer.mechanism !== "tree") return rounds;
  const { changes, periods } = question as Longitudinal;
  let all = 0;
  // Every other node of a level is sent; two streams differ in a node by one unit, or by two if states change twice.
  for (let size = 1; size <= periods; size *= 2) {
    const sent = Math.floor((Math.floor(periods / size) + 1) / 2);
    all += changes === 1 ? Math.min(2, sent) : Math.min(2 * changes, 2 * sent - 1);
  }
  return Math.min(changes === 1 ? rounds : 2 * rounds, all);
}
