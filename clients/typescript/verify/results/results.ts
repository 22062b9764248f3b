/** Checks a file of results of one round against its certificate: names, times, counts, and estimates. */

import { hex } from "../../src/base/bytes.js";
import type { Digit } from "../../src/task/questions.js";
import { at, opens } from "../../src/task/schedule.js";
import type { Query } from "../../src/task/task.js";
import { Refused, shown } from "../base/refused.js";
import type { Members, Value } from "../base/strict.js";
import type { Certificate } from "../certificate/certificate.js";
import { difference, oddMembers, oddNumbers } from "./compare.js";
import { type Counted, differ, readCounts } from "./counts.js";
import { batchOf, estimatesOf, sumOfDigits } from "./estimates.js";
import { TooLong } from "./noise_sums.js";
import { type Estimates, documentOf } from "./rows.js";

const ABOUT = ["left_out", "name", "reports", "state", "valid"];
const NOT_ESTIMATES = [...ABOUT, "tally"];

/** What was found of a file of results that was not refused. */
export interface CheckedResults {
  /** The queries and sums whose estimates were made again, and are the stated ones. */
  readonly again: readonly string[];
  /** Those of which nothing but the counts and the form was checked, each with the reason. */
  readonly left: ReadonlyMap<string, string>;
}

/** Check a document of results against the certificate in it, which was checked before. */
export async function checkResults(document: Members, certificate: Certificate): Promise<CheckedResults> {
  checkAbout(document, certificate);
  const counted = await readCounts(document["queries"], certificate);
  const again: string[] = [];
  const left = new Map<string, string>();
  for (const [place, query] of certificate.task.queries.entries()) {
    const stated = (document["queries"] as Members[])[place]!;
    const why = checkQuery(certificate, query, place, counted[place]!, stated);
    if (why === null) again.push(query.name);
    else if (why !== WITHHELD) left.set(query.name, why);
  }
  checkSums(document, certificate, counted, again);
  return { again, left };
}

const WITHHELD = "withheld";

function checkAbout(document: Members, certificate: Certificate): void {
  const { round, task } = certificate;
  const about = { task: { id: hex(task.id), name: task.name }, round };
  const found =
    difference(about.task, document["task"], "task") ??
    (document["round"] === round ? null : `round is ${shown(document["round"])}, not ${round}`);
  if (found !== null)
    throw new Refused("counts", `they name another task or round than their certificate: ${found}`);
  const begins = opens(task.schedule, round);
  const times = { round_begins: at(begins), round_ends: at(begins + task.schedule.length) };
  for (const [name, wanted] of Object.entries(times)) {
    if (Object.hasOwn(document, name) && document[name] !== wanted)
      throw new Refused("counts", `${name} is ${shown(document[name])}, but ${wanted} follows from the task`);
  }
}

/** Check what is stated of a query; return why its estimates were not made again, or null if they were. */
function checkQuery(
  certificate: Certificate,
  query: Query,
  place: number,
  counted: Counted,
  stated: Members,
): string | null {
  if (counted.counts === null) {
    const wrong = oddMembers(stated, ABOUT);
    if (wrong !== null) throw differ(query.name, `it is withheld, so it has no numbers, but ${wrong}`);
    return WITHHELD;
  }
  const given = Object.create(null) as Members;
  for (const [name, value] of Object.entries(stated)) if (!NOT_ESTIMATES.includes(name)) given[name] = value;
  const odd = oddNumbers(given);
  if (odd !== null) throw new Refused("estimate", `${query.name}: ${odd}`);
  const found = remade(certificate, query, place, counted);
  if (typeof found === "string") {
    if (given["kind"] !== query.question.kind)
      throw new Refused(
        "estimate",
        `${query.name}: its kind is ${shown(given["kind"])}, not ${query.question.kind}`,
      );
    return found;
  }
  const wrong = difference(documentOf(found), given);
  if (wrong !== null) throw new Refused("estimate", `${query.name}: ${wrong}`);
  return null;
}

/** Return a query's estimates, or why they are not made again here. */
function remade(certificate: Certificate, query: Query, place: number, counted: Counted): Estimates | string {
  const shufflers = 1 + certificate.task.identities.hops.length;
  const valid = counted.valid + counted.dummies;
  const batch = batchOf(query, shufflers, counted.counts!, valid, counted.dummies);
  if (batch === null) return `estimates of ${kindOf(query)} are not made again here`;
  try {
    return estimatesOf(query, certificate.raw[place]!, batch);
  } catch (error) {
    if (error instanceof TooLong) return "the law of its noise is too long to compute here";
    throw error;
  }
}

function kindOf(query: Query): string {
  if (query.question.kind === "longitudinal") return "a question over many rounds";
  if (query.randomizer.mechanism === "hashed") return "hashed answers";
  return `the kind ${query.question.kind} beside noise`;
}

/** Check the sums of numbers that are asked by digits. */
function checkSums(
  document: Members,
  certificate: Certificate,
  counted: readonly Counted[],
  again: string[],
): void {
  const { task } = certificate;
  const wanted = task.asked.filter((each) => task.queries[each.places[0]!]!.question.kind === "bit");
  const stated = document["sums"] ?? [];
  if (
    wanted.length > 0 !== Object.hasOwn(document, "sums") ||
    !Array.isArray(stated) ||
    stated.length !== wanted.length
  )
    throw new Refused("counts", "its sums are not those of the numbers that the task asks by digits");
  for (const [place, each] of wanted.entries()) {
    const queries = each.places.map((one) => task.queries[one]!);
    const batches = each.places.map((one) => counted[one]!);
    const isOut = batches.some((one) => one.counts === null);
    const named = {
      name: each.name,
      queries: queries.map((query) => query.name),
      state: isOut ? "withheld" : "published",
    };
    const wrong = difference(
      isOut ? named : { ...named, ...sumDocument(certificate, queries, batches) },
      stated[place] as Value,
    );
    if (wrong !== null) throw new Refused("estimate", `${each.name}: ${wrong}`);
    if (!isOut) again.push(each.name);
  }
}

function sumDocument(
  certificate: Certificate,
  queries: readonly Query[],
  counted: readonly Counted[],
): Record<string, unknown> {
  const shufflers = 1 + certificate.task.identities.hops.length;
  const batches = counted.map((each, place) =>
    batchOf(queries[place]!, shufflers, each.counts!, each.valid + each.dummies, each.dummies),
  );
  if (batches.some((each) => each === null))
    throw new Refused("form", `${queries[0]!.name}: a digit is not sent by kRR`);
  return documentOf(
    sumOfDigits(
      queries[0]!.question as Digit,
      batches.map((each) => each!),
    ),
  );
}
