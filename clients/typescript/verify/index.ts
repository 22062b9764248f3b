/** Checks certificates and results of hubbub offline: in a page, in Node, without any service.
 *
 * `verifyFiles` says of each file what was checked and what was not. It never says that a whole certificate is valid:
 * some of its ε rest on numerical bounds that `hubbub verify` computes, and this does not. */

import type { Succession } from "../src/task/successions.js";
import { connected } from "../src/task/successions.js";
import { readIdentities } from "../src/task/task.js";
import { isObject } from "./certificate/records.js";
import { plain, readStrict } from "./base/strict.js";
import { checkCertificate, type Certificate, type Pins } from "./certificate/certificate.js";
import { type Given, type GivenFile, type Held, type Problem, problemOf, readFiles } from "./files.js";
import { byTask, type Found, problemsAmong } from "./history.js";
import type { LogProofs } from "./log.js";
import { checkResults, type CheckedResults } from "./results/results.js";

export { publicKey } from "../src/base/signatures.js";
export type { Certificate, Pins, Signer } from "./certificate/certificate.js";
export { fingerprint } from "./certificate/records.js";
export type { CheckedEpsilon } from "./certificate/statement.js";
export type { GivenFile, Problem } from "./files.js";
export type { CheckedResults } from "./results/results.js";
export { linesOf, type Line, verdictOf } from "./words.js";

/** A file of results that was not refused. */
export interface FoundResults {
  readonly where: string;
  readonly certificate: Certificate;
  readonly checked: CheckedResults;
}

/** What was found of all files. */
export interface Report {
  /** Everything that is wrong. If there is anything, use no number of these files. */
  readonly problems: readonly Problem[];
  /** The certificates that were not refused, by task, in the order of their rounds' releases. */
  readonly histories: readonly (readonly Found[])[];
  readonly results: readonly FoundResults[];
  /** Of each file of a proof of a transparency log that was not used: why. */
  readonly unused: readonly string[];
  /** Files of another kind, which were not looked at. */
  readonly skipped: readonly string[];
}

/** Check certificates, results of one round or of all, or a whole history of them; everything stays here.
 *
 * If the task demands a transparency log, `files` must have the proofs of each certificate and of the task. */
export async function verifyFiles(files: readonly GivenFile[], pins: Pins = {}): Promise<Report> {
  const given = readFiles(files);
  const problems = [...given.problems];
  const held = checkAll(given, pins, problems);
  const results: FoundResults[] = [];
  for (const each of given.results) {
    const certificate = held.get(each.digest)?.certificate;
    // What is wrong with the certificate is named already; its counts and estimates are then nobody's.
    if (certificate === undefined) continue;
    try {
      results.push({
        where: each.where,
        certificate,
        checked: await checkResults(each.document, certificate),
      });
    } catch (error) {
      problems.push(problemOf(error, each.where, certificate.round));
    }
  }
  const histories = byTask([...held.values()]);
  // One certificate is checked alone, and so are its results: who gives several asks whether they belong together.
  if (given.certificates.length > 1) {
    for (const history of histories) problems.push(...problemsAmong(history));
    problems.push(...unmatched(given, held));
  }
  if (given.certificates.length === 0 && problems.length === 0)
    problems.push({
      where: null,
      round: null,
      because: "kind",
      message: "there is no certificate in these files",
    });
  const used = new Set(histories.flat().flatMap((each) => each.certificate.logged?.files ?? []));
  const others = given.proofs.given.map((each) => each.where).filter((name) => !used.has(name));
  const nothing = others.map((name) => `${name}: a proof of nothing here that has to be in a log`);
  const unused = [...nothing, ...given.proofs.unread];
  return { problems, histories, results, unused, skipped: given.skipped };
}

/** Check every certificate; a succession that one of them has counts for all. */
function checkAll({ certificates, proofs }: Given, pins: Pins, problems: Problem[]): Map<string, Found> {
  const first = certificates.map((each) => tried(each, pins, [], proofs));
  const successions = first.flatMap((each) => ("certificate" in each ? each.certificate.successions : []));
  const found = new Map<string, Found>();
  certificates.forEach((each, place) => {
    let outcome = first[place]!;
    if (successions.length > 0 && ("certificate" in outcome || outcome.because === "pin"))
      outcome = tried(each, pins, successions, proofs);
    if ("certificate" in outcome) found.set(each.digest, outcome);
    else problems.push(outcome);
  });
  return found;
}

function tried(
  held: Held,
  pins: Pins,
  known: readonly Succession[],
  proofs: LogProofs,
): Found | Problem {
  try {
    const certificate = checkCertificate(held.document, pins, related(held, known), proofs);
    return { where: held.where, certificate };
  } catch (error) {
    return problemOf(error, held.where);
  }
}

/** Return the successions that are of a certificate's parties; those of other deployments are not looked at. */
function related(held: Held, known: readonly Succession[]): readonly Succession[] {
  if (known.length === 0) return known;
  const value = plain(readStrict(held.document));
  const body = isObject(value) ? value["body"] : undefined;
  const file = isObject(body) ? body["task"] : undefined;
  const task = isObject(file) ? file["task"] : undefined;
  return isObject(task) ? connected(readIdentities(task["identities"]), known) : [];
}

/** Find results whose certificate is of another task or round than every certificate that has a file of its own. */
function unmatched(given: Given, held: ReadonlyMap<string, Found>): Problem[] {
  const ofResults = new Set(given.results.map((each) => each.file));
  const alone = given.certificates.filter((each) => each.files.some((file) => !ofResults.has(file)));
  if (alone.length === 0 || given.results.length === 0) return [];
  const digests = new Set(alone.map((each) => each.digest));
  const isAny = given.results.some((each) => digests.has(each.digest));
  const tasks = new Set(alone.flatMap((each) => taskOf(held.get(each.digest))));
  return given.results.flatMap((each): Problem[] => {
    const found = held.get(each.digest);
    if (found === undefined || (isAny && taskOf(found).every((task) => tasks.has(task)))) return [];
    const { round, task } = found.certificate;
    const message = `the certificate in these results is none of those given: it is of task ${task.name}`;
    return [{ where: each.where, round, because: "kind", message }];
  });
}

function taskOf(found: Found | undefined): string[] {
  return found === undefined ? [] : [found.certificate.task.id.join()];
}
