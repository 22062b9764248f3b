/** Verifies the files of many cases, the same in Node and in a browser; each case is a result of its own. */

import { fromBase64, fromHex, utf8 } from "../../src/base/bytes.js";
import { type Line, linesOf, type Pins, verifyFiles } from "../../verify/index.js";

export interface Case {
  /** The files: each a name, and its bytes in base64 or its text. */
  readonly files: readonly { readonly name: string; readonly base64?: string; readonly text?: string }[];
  /** Keys in hex, by role; the id of a task. */
  readonly pins?: Readonly<Record<string, string>>;
}

export interface Outcome {
  /** The code of each problem, with its words. */
  readonly problems: readonly (readonly [string, string])[];
  readonly again: readonly string[];
  readonly left: readonly string[];
  /** Each ε: what it covers, its query, its member, its value, and how it is known. */
  readonly epsilons: readonly (readonly unknown[])[];
  readonly lines: readonly Line[];
}

export async function verifyCase(one: Case): Promise<Outcome> {
  const files = one.files.map(({ name, base64, text }) => ({
    name,
    bytes: text === undefined ? fromBase64(base64!) : utf8(text),
  }));
  const named = Object.entries(one.pins ?? {}).map(([name, digits]) => [name, fromHex(digits, 32)!]);
  const report = await verifyFiles(files, Object.fromEntries(named) as Pins);
  return {
    problems: report.problems.map((each) => [each.because, each.message]),
    again: report.results.flatMap((each) => each.checked.again),
    left: report.results.flatMap((each) => [...each.checked.left.keys()]),
    epsilons: report.histories.flatMap((history) =>
      history.flatMap(({ certificate }) =>
        certificate.statement.epsilons.map((each) => [
          each.covers,
          each.query,
          each.member,
          each.epsilon,
          each.known,
        ]),
      ),
    ),
    lines: linesOf(report),
  };
}

/** Verify all cases, in order. */
export async function verifyCases(cases: readonly Case[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const each of cases) outcomes.push(await verifyCase(each));
  return outcomes;
}
