/** Every member of a certificate's statement: its form, what follows from the task and the counts, and each ε. */

import type { Json } from "../../src/base/canonical.js";
import { SPAN } from "../../src/base/random.js";
import type { Query, Task } from "../../src/task/task.js";
import { Refused, shown } from "../base/refused.js";
import { honestReports } from "../base/exact.js";
import { type Charged, checkEpsilon, type Known, nothingHides } from "./epsilons.js";
import { isCount, isObject, type Members, namesOf } from "./records.js";
import { ALONE, AT_MINIMUM, IF_MINIMUM_VALID, ladderOf, LOCAL, type Rung, RUNGS } from "./words.js";

type Kind = (value: Json) => boolean;

const number: Kind = (value) => typeof value === "number" && Number.isFinite(value) && value >= 0;
const orNone: Kind = (value) => value === null || number(value);
const count: Kind = (value) => isCount(value);
const text: Kind = (value) => typeof value === "string";
const list: Kind = (value) => Array.isArray(value);
const counts: Kind = (value) => isObject(value) && Object.values(value).every((each) => isCount(each));
const any: Kind = () => true;

const lowerOf = (member: string): string => member.replace("upper", "lower");

const TOTAL = { bound: text, epsilon_local: number, epsilon_upper: number, epsilon_lower: orNone };
const BATCH = { honest_reports: count, reports: count, valid: count };
const ALONE_MEMBERS = { [ALONE]: number, [lowerOf(ALONE)]: orNone };
const BESIDE = { ...ALONE_MEMBERS, [IF_MINIMUM_VALID]: orNone, [lowerOf(IF_MINIMUM_VALID)]: orNone };
const QUERY = {
  ...TOTAL,
  ...BATCH,
  ...BESIDE,
  dummies: count,
  left_out: counts,
  mechanism: text,
  name: text,
  state: text,
};
const ALL_ROUNDS = {
  ...TOTAL,
  ...BESIDE,
  budget: orNone,
  [AT_MINIMUM]: orNone,
  [lowerOf(AT_MINIMUM)]: orNone,
  history: list,
};
const HORIZON = { ...TOTAL, ...ALONE_MEMBERS, epsilon_upper: orNone, rounds: count };

const OVER_TIME =
  "the ε of its strategy over time, and that as many people can answer every round as the task states";

const BOUNDS: readonly string[] = [
  ...["whole-law", "blanket", "2rr", "stronger-clones", "clones", "noise", "krr-lower", "rappor-lower"],
  ...["finite-lower", "ends-lower", "noise-lower", "koskela-strong", "koskela-clones", "local"],
];

/** One ε of a certificate, and how it is known here. */
export interface CheckedEpsilon {
  readonly covers: string;
  readonly query: string | null;
  readonly member: Rung;
  readonly epsilon: number;
  readonly lower: number | null;
  readonly words: string;
  readonly known: Known;
}

interface Counted {
  readonly round: number;
  readonly queries: readonly { readonly reports: number; readonly valid: number }[];
}

export interface Statement {
  readonly epsilons: readonly CheckedEpsilon[];
  /** What was not computed, in words, beside the ε that are marked so. */
  readonly left: readonly string[];
}

function checkMembers(
  where: string,
  kinds: Readonly<Record<string, Kind>>,
  stated: Json | undefined,
): Members {
  if (!isObject(stated) || namesOf(stated) !== Object.keys(kinds).sort().join())
    throw new Refused("form", `${where} does not have exactly the members of hubbub-certificate/1`);
  for (const [name, fits] of Object.entries(kinds))
    if (!fits(stated[name]!))
      throw new Refused("form", `${where}: ${name} is ${shown(stated[name])}, of another kind`);
  return stated;
}

function same(where: string, name: string, stated: Json | undefined, wanted: Json): void {
  const [found, expected] = [JSON.stringify(stated), JSON.stringify(wanted)];
  if (found !== expected)
    throw new Refused("number", `${where}: ${name} is ${shown(stated)}; it must be ${shown(wanted)}`);
}

/** Return the members of a query's mechanism; null stands for one that is not computed here. */
export function mechanismOf(query: Query, raw: Members): { [name: string]: Json | null } {
  const { randomizer, noise } = query;
  const gamma = (w: number): Json => [w, SPAN];
  let own: { [name: string]: Json | null };
  switch (randomizer.mechanism) {
    case "krr":
      own = { categories: query.symbols, gamma: gamma(randomizer.gamma), mechanism: "krr" };
      break;
    case "direct":
      own = { categories: 2, gamma: gamma(randomizer.gamma), mechanism: "krr" };
      break;
    case "unary":
      own = {
        categories: query.symbols,
        mechanism: "unary",
        other: gamma(randomizer.other),
        truthful: gamma(randomizer.truthful),
      };
      break;
    case "hashed":
      own = {
        cells: randomizer.cells,
        gamma: gamma(randomizer.gamma),
        mechanism: "hashed",
        rows: randomizer.rows,
      };
      break;
    case "tree": {
      const [changes, periods] = [raw["changes"]!, raw["periods"]!];
      const node = { gamma: gamma(randomizer.gamma), side: gamma(randomizer.side) };
      own = { changes, gamma: node.gamma, mechanism: "tree-nodes", periods, side: node.side };
      break;
    }
    default:
      own = {
        epsilon_local_hex: null,
        epsilon_round_hex: null,
        mechanism: "sequence",
        steady: raw["steady"]!,
      };
  }
  return noise === null ? own : { mechanism: "with-noise", noise: raw["noise"]!, randomizer: own as Json };
}

/** Check every number and word of a statement; `uncounted` are the rounds that were never counted. */
export function checkStatement(
  task: Task,
  raw: readonly Members[],
  body: Members,
  uncounted: readonly number[],
): Statement {
  const allRounds = checkMembers("all_rounds", ALL_ROUNDS, body["all_rounds"]);
  const total = checkMembers("round_total", { ...TOTAL, ...BESIDE }, body["round_total"]);
  const history = readHistory(task, body, allRounds);
  const horizon = checkHorizon(task, body);
  const stated = (body["queries"] as Json[]).map((each, place) =>
    checkQuery(task, task.queries[place]!, raw[place]!, each, history.at(-1)!.queries[place]!),
  );
  same("the certificate", "honest_share", body["honest_share"], task.privacy.honestShare);
  same("the certificate", "delta", body["delta"], task.privacy.delta);
  same("all_rounds", "budget", allRounds["budget"], task.privacy.epsilonTotal);
  const words = ladderOf(task, history.length);
  if (JSON.stringify(sorted(body["ladder"])) !== JSON.stringify(sorted(words as Json)))
    throw new Refused(
      "words",
      "its ladder is not what follows from the task: the words that say who must be honest",
    );
  checkNulls(task, history, stated, total, allRounds, horizon, uncounted);
  const epsilons = [
    ...stated.flatMap((each, place) => {
      const charged = { where: task.queries[place]!.name, queries: [task.queries[place]!], rounds: 1 };
      return epsilonsOf(task, charged, "query", each, words);
    }),
    ...epsilonsOf(
      task,
      { where: "round_total", queries: task.queries, rounds: 1 },
      "round_total",
      total,
      words,
    ),
    ...ofAllRounds(task, history.length, allRounds, words),
    ...ofHorizon(task, horizon, words),
  ];
  return { epsilons, left: leftOf(task, stated) };
}

function sorted(value: Json | undefined): Json {
  return isObject(value) ? Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)) : [];
}

function ofAllRounds(task: Task, rounds: number, stated: Members, words: Words): CheckedEpsilon[] {
  return epsilonsOf(
    task,
    { where: "all_rounds", queries: task.queries, rounds },
    "all_rounds",
    stated,
    words,
  );
}

function ofHorizon(task: Task, stated: Members | null, words: Words): CheckedEpsilon[] {
  if (stated === null) return [];
  const charged = { where: "horizon", queries: task.queries, rounds: task.schedule.rounds };
  return epsilonsOf(task, charged, "horizon", stated, words);
}

type Words = Partial<Record<Rung, string>>;

function epsilonsOf(
  task: Task,
  charged: Charged,
  covers: string,
  stated: Members,
  words: Words,
): CheckedEpsilon[] {
  const found: CheckedEpsilon[] = [];
  for (const member of RUNGS) {
    const epsilon = stated[member];
    if (typeof epsilon !== "number") continue;
    const bound = covers === "query" && member === "epsilon_upper" ? (stated["bound"] as string) : null;
    const known = checkEpsilon(task, charged, member, epsilon, bound);
    const lower = member === LOCAL ? null : ((stated[lowerOf(member)] ?? null) as number | null);
    if (lower !== null && !(lower > 0 && lower <= epsilon))
      throw new Refused(
        "number",
        `${charged.where}: ${lowerOf(member)} is ${lower}; it must be above 0 and at most ${epsilon}`,
      );
    if (member === ALONE && lower !== null && charged.queries.every((each) => nothingHides(task, each)))
      throw new Refused(
        "number",
        `${charged.where}: ${lowerOf(ALONE)} must be null, as whoever reads a report reaches ε_local`,
      );
    const query = covers === "query" ? charged.where : null;
    found.push({ covers, query, member, epsilon, lower, words: words[member] ?? "", known });
  }
  checkOrder(charged.where, stated);
  return found;
}

/** Check that an ε that rests on fewer claims is not the smaller one: a careful reader relies on it. */
function checkOrder(where: string, stated: Members): void {
  let before: [string, number] | null = null;
  for (const name of ["epsilon_upper", IF_MINIMUM_VALID, ALONE]) {
    const value = stated[name];
    if (typeof value !== "number") continue;
    if (before !== null && value < before[1])
      throw new Refused(
        "number",
        `${where}: ${name} is ${value}; it must be at least ${before[0]}, ${before[1]}`,
      );
    before = [name, value];
  }
}

function readHistory(task: Task, body: Members, allRounds: Members): Counted[] {
  const found = (allRounds["history"] as Json[]).map((each): Counted => {
    const entry = checkMembers("a round so far", { queries: list, round: count }, each);
    const queries = (entry["queries"] as Json[]).map((one) => checkMembers("a round so far", BATCH, one));
    if (queries.length !== task.queries.length)
      throw new Refused(
        "form",
        `round ${shown(entry["round"])} counts ${queries.length} queries of ${task.queries.length}`,
      );
    queries.forEach((one, place) =>
      checkCounts(task, `round ${shown(entry["round"])}, ${task.queries[place]!.name}`, one),
    );
    return { round: entry["round"] as number, queries: queries as unknown as Counted["queries"] };
  });
  const rounds = found.map((each) => each.round);
  if (new Set(rounds).size !== rounds.length || rounds.at(-1) !== body["round"])
    throw new Refused("history", "the rounds so far must list each round once, and its own last");
  return found;
}

function checkCounts(task: Task, where: string, stated: Members): void {
  const [reports, valid] = [stated["reports"] as number, stated["valid"] as number];
  if (valid > reports) throw new Refused("number", `${where}: ${valid} reports of ${reports} are valid`);
  same(
    where,
    "honest_reports",
    stated["honest_reports"],
    honestReports(valid, reports, task.privacy.honestShare),
  );
}

function checkQuery(
  task: Task,
  query: Query,
  raw: Members,
  value: Json,
  latest: Counted["queries"][number],
): Members {
  const mechanism = mechanismOf(query, raw);
  const kinds = { ...QUERY, ...Object.fromEntries(Object.keys(mechanism).map((name) => [name, any])) };
  const stated = checkMembers("a query", { ...kinds, mechanism: text }, value);
  const { name } = query;
  for (const [member, wanted] of Object.entries(mechanism)) {
    if (wanted !== null) sameTree(name, member, stated[member], wanted);
    else if (!/^0x1\.[0-9a-f]{13}p[+-][0-9]{1,4}$/.test(shown(stated[member]).replaceAll('"', "")))
      throw new Refused("form", `${name}: ${member} is no number as C writes it in hexadecimals`);
  }
  same(name, "name", stated["name"], name);
  same(name, "reports", stated["reports"], latest.reports);
  same(name, "valid", stated["valid"], latest.valid);
  checkCounts(task, name, stated);
  const state = latest.valid >= task.minimumReports ? "published" : "withheld";
  same(name, "state", stated["state"], state);
  // With noise it is the shufflers' sum, which was compared with their records.
  if (query.noise === null) same(name, "dummies", stated["dummies"], task.privacy.dummies);
  const left = Object.values(stated["left_out"] as { [reason: string]: number });
  const lacking = latest.reports - latest.valid;
  if (left.reduce((sum, each) => sum + each, 0) !== lacking)
    throw new Refused("number", `${name}: what was left out does not add up to ${lacking}`);
  const bound = stated["bound"] as string;
  if (!BOUNDS.includes(bound)) throw new Refused("form", `${name}: ${shown(bound)} is no bound`);
  if (bound.endsWith("-lower") || bound.startsWith("koskela") || (bound === "noise" && query.noise === null))
    throw new Refused("number", `${name}: its bound ${bound} does not apply`);
  return stated;
}

/** Compare members of any order: those of an object are in the order of their names. */
function sameTree(where: string, name: string, stated: Json | undefined, wanted: Json): void {
  if (deep(stated) !== deep(wanted))
    throw new Refused("number", `${where}: ${name} is ${shown(stated)}; it must be ${shown(wanted)}`);
}

function deep(value: Json | undefined): string {
  if (Array.isArray(value)) return `[${value.map(deep).join()}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? "nothing";
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${deep(value[name])}`).join()}}`;
}

function checkHorizon(task: Task, body: Members): Members | null {
  const linked = task.queries.some((query) => query.question.kind === "longitudinal");
  if (linked !== Object.hasOwn(body, "horizon"))
    throw new Refused("form", "horizon must be stated if a query is longitudinal, and left out otherwise");
  if (!linked) return null;
  const stated = checkMembers("horizon", HORIZON, body["horizon"]);
  same("horizon", "rounds", stated["rounds"], task.schedule.rounds);
  return stated;
}

/** Check which ε are null: those that no number covers, as a batch has too few valid reports. */
function checkNulls(
  task: Task,
  history: readonly Counted[],
  queries: readonly Members[],
  total: Members,
  allRounds: Members,
  horizon: Members | null,
  uncounted: readonly number[],
): void {
  const share = task.privacy.honestShare;
  const least = honestReports(task.minimumReports, task.minimumReports, share);
  const below = history.some((each) =>
    each.queries.some((one) => honestReports(one.valid, one.reports, share) < least),
  );
  const claimsFewer = (one: { valid: number }): boolean => one.valid < task.minimumReports;
  const isNull = (where: string, name: string, stated: Members, wanted: boolean): void => {
    if ((stated[name] === null) !== wanted)
      throw new Refused(
        "number",
        `${where}: ${name} must be ${wanted ? "null" : "a number"}, by the stated counts`,
      );
    if (wanted && stated[lowerOf(name)] !== null)
      throw new Refused("number", `${where}: ${lowerOf(name)} must be null, as ${name} is`);
  };
  const latest = history.at(-1)!.queries;
  queries.forEach((each, place) =>
    isNull(task.queries[place]!.name, IF_MINIMUM_VALID, each, claimsFewer(latest[place]!)),
  );
  isNull("round_total", IF_MINIMUM_VALID, total, latest.some(claimsFewer));
  const anyFewer = history.some((each) => each.queries.some(claimsFewer));
  isNull("all_rounds", IF_MINIMUM_VALID, allRounds, anyFewer);
  isNull("all_rounds", AT_MINIMUM, allRounds, below);
  if (horizon !== null) isNull("horizon", "epsilon_upper", horizon, below);
  const rounds = new Set(history.map((each) => each.round));
  for (const round of uncounted)
    if (!rounds.has(round))
      throw new Refused("history", `round ${round} was never counted, and is not composed either`);
}

function leftOf(task: Task, stated: readonly Members[]): string[] {
  const found = ["what known attacks reach (epsilon_lower and its like), and the bound that totals name"];
  stated.forEach((each, place) => {
    if (Object.hasOwn(each, "epsilon_local_hex")) found.push(`${task.queries[place]!.name}: ${OVER_TIME}`);
  });
  return found;
}
