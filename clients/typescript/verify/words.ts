/** A report as lines for people: what was checked here, and what was not. No line says that a certificate is valid. */

import { hex } from "../src/base/bytes.js";
import type { CheckedEpsilon } from "./certificate/statement.js";
import type { Found } from "./history.js";
import type { FoundResults, Report } from "./index.js";
import { loggedWords } from "./log.js";

/** A line, and what it says: that something is wrong, was checked, was not, or has to be compared by a person. */
export interface Line {
  readonly kind: "refused" | "checked" | "left" | "compare" | "about";
  readonly text: string;
}

const KNOWN = {
  device: "checked here, exactly: the device alone keeps it",
  noise: "checked here, exactly: the shuffler's noise alone keeps it",
} as const;

const COVERS: Readonly<Record<string, string>> = {
  round_total: "everything that one person sent in the round",
  all_rounds: "all rounds so far",
  horizon: "all rounds of the task",
};

/** What would turn a line around, or break it, is written as its number. */
const ODD = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** Why a certificate that is right in itself is not shown to be in the log that its task demands. */
const NOT_LOGGED: ReadonlySet<string> = new Set(["proof", "inclusion", "log", "witnesses"]);

export function linesOf(report: Report): Line[] {
  const safe = (text: string): string =>
    text.replace(ODD, (mark) => `\\u{${mark.codePointAt(0)!.toString(16)}}`);
  return linesIn(report).map(({ kind, text }) => ({ kind, text: safe(text) }));
}

/** Return the first line: whether anything is wrong, and whether anything is left to check or to compare. */
export function verdictOf(report: Report): string {
  const lines = linesIn(report);
  const many = (kind: Line["kind"]): number => lines.filter((each) => each.kind === kind).length;
  if (report.problems.length > 0) {
    const isLog = report.problems.every((each) => NOT_LOGGED.has(each.because));
    const what = isLog ? "Something is not shown to be in its log" : "Something is wrong";
    return `${what}: do not use these numbers.`;
  }
  const left =
    many("left") === 0 ? "" : ` ${many("left")} things were not checked here: each line says which.`;
  const compare = many("compare") === 0 ? "" : " Anybody could have made it, until you compare the keys.";
  return `Nothing is wrong in what was checked here.${left}${compare}`;
}

function linesIn(report: Report): Line[] {
  const lines: Line[] = report.problems.map((each) => {
    const where = [each.where, each.round === null ? null : `round ${each.round}`].filter(
      (one) => one !== null,
    );
    return { kind: "refused", text: [...where, `${each.message} (${each.because})`].join(": ") };
  });
  if (lines.length > 0)
    lines.push({ kind: "about", text: "What follows was checked of each file by itself only." });
  for (const history of report.histories) {
    for (const each of history) {
      const without = resultsOf(each, report).length === 0;
      lines.push(...ofCertificate(each, filesOf(each, report), without));
    }
    if (history.length > 1 && report.problems.length === 0)
      lines.push({
        kind: "checked",
        text: `these ${history.length} certificates are one history, without a gap`,
      });
  }
  for (const each of report.results) lines.push(...ofResults(each));
  // Proofs may be of a certificate that was refused, and not be of nothing.
  if (report.problems.length === 0)
    for (const each of report.unused) lines.push({ kind: "left", text: `${each}; skipped` });
  for (const each of report.skipped)
    lines.push({ kind: "left", text: `${each}: no certificate, no results and no proof; skipped` });
  return lines;
}

function resultsOf(found: Found, report: Report): readonly FoundResults[] {
  return report.results.filter((each) => each.certificate === found.certificate);
}

/** Return a name as it may stand in a command that people copy; a name that a shell would act on is left out. */
function inCommand(where: string): string {
  const name = where.split(", rounds[")[0]!;
  return /^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$/.test(name) ? name : "FILE";
}

function filesOf(found: Found, report: Report): string {
  const all = [found, ...resultsOf(found, report)];
  return [...new Set(all.map((each) => inCommand(each.where)))].join(" ");
}

function ofCertificate({ where, certificate }: Found, files: string, without: boolean): Line[] {
  const { round, signers, statement, task, releases } = certificate;
  const parties = signers.map((each) => each.name).join(", ");
  const checked = (text: string): Line => ({ kind: "checked", text });
  const left = (text: string): Line => ({
    kind: "left",
    text: `${text}: not recomputed here; run \`hubbub verify ${files}\``,
  });
  const lines: Line[] = [
    { kind: "about", text: `${where}: task ${task.name}, round ${round}, task id ${hex(task.id)}` },
    checked("its form, and that nobody can read it in two ways"),
    checked(`every signature in it: of ${parties}`),
    checked(
      `the records of ${task.queries.length} batches, and the chain of ${releases.length} releases before`,
    ),
    checked("every count, and every number and word that follows from the task and the counts alone"),
    ...(certificate.logged === null ? [] : [checked(loggedWords(certificate.logged))]),
    ...statement.epsilons.map((each) => ofEpsilon(each, left)),
    ...statement.left.map(left),
    ...(without
      ? [left("the counts behind its counts_digest, as no results of its round were checked")]
      : []),
  ];
  for (const { name, fingerprint, pinned } of signers)
    lines.push(
      pinned
        ? checked(`the ${name} is the one whose key you gave: ${fingerprint}`)
        : {
            kind: "compare",
            text: `the ${name} is anybody, until you compare this with its own fingerprint: ${fingerprint}`,
          },
    );
  return lines;
}

function ofEpsilon(each: CheckedEpsilon, left: (text: string) => Line): Line {
  const covers = each.query === null ? COVERS[each.covers]! : each.query;
  // Of a certificate of one round no sentence speaks of the minimum. Its number is named all the same.
  const text = `${covers}: ε ≤ ${each.epsilon} ${each.words === "" ? `as ${each.member}` : each.words}`;
  return each.known === "not" ? left(text) : { kind: "checked", text: `${text}: ${KNOWN[each.known]}` };
}

function ofResults({ where, checked }: FoundResults): Line[] {
  const { again, left } = checked;
  const remedy = `not recomputed here; run \`hubbub verify ${inCommand(where)}\``;
  const lines: Line[] = [
    { kind: "checked", text: `${where}: the counts are those of the certificate in it` },
  ];
  if (again.length > 0)
    lines.push({
      kind: "checked",
      text: `${where}: every number of ${again.join(", ")} follows from the counts`,
    });
  for (const [name, why] of left)
    lines.push({
      kind: "left",
      text: `${where}: the estimates of ${name}, as ${why}: ${remedy}`,
    });
  return lines;
}
