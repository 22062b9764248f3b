/** What can be asked: each kind of question, as a task has it. */

import { SPAN } from "../base/random.js";
import * as read from "./fields.js";
import type { Members } from "./fields.js";

const MOST_SYMBOLS = 1_000_000;
const FAR = 1e300;
/** The symbol of a text that is "no answer". */
export const NO_TEXT = 2n ** 64n - 1n;

interface Shared {
  readonly name: string;
  readonly optional: boolean;
}

export interface Choice extends Shared {
  readonly kind: "histogram" | "top";
  readonly categories: readonly string[];
}

export interface Amount extends Shared {
  readonly kind: "sum" | "variance";
  readonly lower: number;
  readonly upper: number;
  readonly levels: number;
  readonly unit: string;
}

export interface Distribution extends Shared {
  readonly kind: "distribution";
  readonly edges: readonly number[];
  readonly unit: string;
}

export interface Text extends Shared {
  readonly kind: "text";
  readonly prefixes: readonly number[];
}

export interface Grouped extends Shared {
  readonly kind: "grouped";
  readonly by: readonly { readonly name: string; readonly categories: readonly string[] }[];
  readonly of: Choice | Amount | Distribution;
}

/** A binary digit of a number that is asked by digits: `of` is the name that people answer. */
export interface Digit extends Shared {
  readonly kind: "bit";
  readonly of: string;
  readonly digit: number;
  readonly digits: number;
  readonly lower: number;
  readonly upper: number;
  readonly unit: string;
}

export interface Longitudinal extends Shared {
  readonly kind: "longitudinal";
  readonly changes: number;
  readonly periods: number;
  readonly strategy: "direct" | "tree" | "sampled" | "vector";
  readonly epsilonLocal: number | null;
}

export type Question = Choice | Amount | Distribution | Text | Grouped | Digit | Longitudinal;

const KINDS = [
  "histogram",
  "top",
  "sum",
  "variance",
  "distribution",
  "text",
  "grouped",
  "bit",
  "longitudinal",
] as const;

/** The members of each kind, beside `kind`, `name` and `weight`. */
const OWN: Readonly<Record<Question["kind"], readonly string[]>> = {
  histogram: ["categories", "optional"],
  top: ["categories", "false_discovery_rate", "optional"],
  sum: ["levels", "lower", "optional", "unit", "upper"],
  variance: ["levels", "lower", "optional", "unit", "upper"],
  distribution: ["edges", "optional", "quantiles", "unit"],
  text: ["optional", "prefixes"],
  grouped: ["by", "of", "optional"],
  bit: ["digit", "digits", "lower", "of", "unit", "upper"],
  longitudinal: ["changes", "epsilon_local", "periods", "steady_share", "strategy"],
};

/** Return the members that a question of this kind has, within another one or by itself. */
export function membersOf(kind: Question["kind"], inside: boolean): string[] {
  return ["kind", ...(inside ? [] : ["name", "weight"]), ...OWN[kind]];
}

export function kindOf(query: Members, where: string): Question["kind"] {
  return read.oneOf(query["kind"], `${where}.kind`, KINDS);
}

/** Read a question; that it has no other member is checked by who knows its randomizer. */
export function readQuestion(query: Members, where: string, rounds: number, inside?: string): Question {
  const kind = kindOf(query, where);
  const name = inside ?? read.queryName(query["name"], `${where}.name`);
  if (inside === undefined) read.double(query["weight"], `${where}.weight`, 1e-6, 1e6);
  const optional = OWN[kind].includes("optional") && read.bool(query["optional"], `${where}.optional`);
  const shared = { name, optional };
  switch (kind) {
    case "histogram":
    case "top":
      if (kind === "top") read.positive(query["false_discovery_rate"], `${where}.false_discovery_rate`, 0.5);
      return { ...shared, kind, categories: categories(query, where, optional ? 1 : 2) };
    case "sum":
    case "variance":
      return {
        ...shared,
        kind,
        ...range(query, where, kind === "sum" ? FAR : 1e150),
        levels: levels(query, where, kind),
      };
    case "distribution":
      return { ...shared, kind, edges: edges(query, where), unit: unit(query, where) };
    case "text":
      return { ...shared, kind, prefixes: prefixes(query, where, rounds) };
    case "grouped":
      return grouped(query, where, rounds, shared);
    case "bit":
      return digit(query, where, name);
    case "longitudinal":
      return longitudinal(query, where, name, rounds);
  }
}

function categories(query: Members, where: string, least: number): string[] {
  const found = read
    .list(query["categories"], `${where}.categories`, least, MOST_SYMBOLS - 1)
    .map((each) => read.label(each, `${where}.categories`, 200));
  if (new Set(found).size !== found.length) throw read.refused(`${where}.categories`, "has a name twice");
  return found;
}

function unit(query: Members, where: string): string {
  return read.printable(query["unit"], `${where}.unit`, 0, 200);
}

function range(query: Members, where: string, far: number): { lower: number; upper: number; unit: string } {
  const lower = read.double(query["lower"], `${where}.lower`, -far, far);
  const upper = read.double(query["upper"], `${where}.upper`, -far, far);
  if (lower >= upper) throw read.refused(`${where}.lower`, "is not below upper");
  return { lower, upper, unit: unit(query, where) };
}

function levels(query: Members, where: string, kind: "sum" | "variance"): number {
  return read.whole(query["levels"], `${where}.levels`, 1, MOST_SYMBOLS - (kind === "sum" ? 2 : 3));
}

function edges(query: Members, where: string): number[] {
  const found = rising(query, "edges", where, 3, MOST_SYMBOLS - 1);
  found.forEach((each) => read.double(each, `${where}.edges`, -FAR, FAR));
  for (const each of rising(query, "quantiles", where, 0, 100)) {
    if (read.positive(each, `${where}.quantiles`, 1) === 1)
      throw read.refused(`${where}.quantiles`, "is not below 1");
  }
  return found;
}

function rising(query: Members, name: string, where: string, least: number, most: number): number[] {
  const found = read
    .list(query[name], `${where}.${name}`, least, most)
    .map((each) => read.double(each, `${where}.${name}`, -Number.MAX_VALUE, Number.MAX_VALUE));
  if (found.some((each, at) => at > 0 && each <= found[at - 1]!))
    throw read.refused(`${where}.${name}`, "does not rise");
  return found;
}

function prefixes(query: Members, where: string, rounds: number): number[] {
  const found = rising(query, "prefixes", where, 0, 64).map((each) =>
    read.whole(each, `${where}.prefixes`, 1, 1024),
  );
  if (found.length >= rounds && found.length > 0) {
    throw read.refused(`${where}.prefixes`, "leaves no round for whole texts");
  }
  return found;
}

function grouped(query: Members, where: string, rounds: number, shared: Shared): Grouped {
  const by = read.list(query["by"], `${where}.by`, 1, 2).map((each, place) => {
    const at = `${where}.by[${place}]`;
    const attribute = read.members(each, at, ["categories", "name"]);
    return {
      name: read.queryName(attribute["name"], `${at}.name`),
      categories: categories(attribute, at, 2),
    };
  });
  if (new Set([shared.name, ...by.map((each) => each.name)]).size !== by.length + 1) {
    throw read.refused(`${where}.by`, "has the name of the query, or of another attribute");
  }
  const inner = read.object(query["of"], `${where}.of`);
  const kind = kindOf(inner, `${where}.of`);
  read.members(inner, `${where}.of`, membersOf(kind, true));
  const of = readQuestion(inner, `${where}.of`, rounds, shared.name);
  if (of.kind === "text" || of.kind === "grouped" || of.kind === "bit" || of.kind === "longitudinal") {
    throw read.refused(`${where}.of`, `is of the kind ${of.kind}, which is not asked by group`);
  }
  const found: Grouped = { ...shared, kind: "grouped", by, of };
  if (answersOf(found) >= MOST_SYMBOLS) throw read.refused(`${where}.by`, "makes too many groups");
  return found;
}

function digit(query: Members, where: string, name: string): Digit {
  const of = read.queryName(query["of"], `${where}.of`);
  const digits = read.whole(query["digits"], `${where}.digits`, 1, 16);
  const found = read.whole(query["digit"], `${where}.digit`, 1, digits);
  if (name !== `${of}-bit-${found}`) throw read.refused(`${where}.name`, `is not ${of}-bit-${found}`);
  return { name, optional: false, kind: "bit", of, digit: found, digits, ...range(query, where, FAR) };
}

function longitudinal(query: Members, where: string, name: string, rounds: number): Longitudinal {
  const at = (member: string): string => `${where}.${member}`;
  const strategy = read.oneOf(query["strategy"], at("strategy"), [
    "direct",
    "tree",
    "sampled",
    "vector",
  ] as const);
  const periods = read.whole(query["periods"], at("periods"), rounds, rounds);
  const changes = read.whole(query["changes"], at("changes"), 1, Math.min(256, periods));
  const steady = query["steady_share"];
  if (steady !== null) read.positive(steady, at("steady_share"), 1);
  else if (strategy === "sampled" || strategy === "vector")
    throw read.refused(at("steady_share"), "is missing");
  const cap = query["epsilon_local"];
  const epsilonLocal = cap === null ? null : read.positive(cap, at("epsilon_local"), 1e6);
  return { name, optional: false, kind: "longitudinal", changes, periods, strategy, epsilonLocal };
}

/** Return how many symbols encode answers, without "no answer"; of a text it is more than can be counted. */
export function answersOf(question: Question): number {
  switch (question.kind) {
    case "histogram":
    case "top":
      return question.categories.length;
    case "sum":
      return question.levels + 1;
    case "variance":
      return question.levels + 2;
    case "distribution":
      return question.edges.length - 1;
    case "grouped":
      return groupsOf(question) * symbolsOf(question.of);
    case "bit":
    case "longitudinal":
      return 2;
    case "text":
      return SPAN * SPAN;
  }
}

/** Return how many symbols there are, "no answer" included. */
export function symbolsOf(question: Question): number {
  return answersOf(question) + (question.optional ? 1 : 0);
}

export function groupsOf(question: Grouped): number {
  return question.by.reduce((product, each) => product * each.categories.length, 1);
}
