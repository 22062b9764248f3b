/** Checks certificates of one task together: one chain of releases, no gap, and no round with two certificates. */

import type { Json } from "../src/base/canonical.js";
import { canonical } from "../src/base/canonical.js";
import { hex, isSame } from "../src/base/bytes.js";
import type { Certificate } from "./certificate/certificate.js";
import type { Members, Release } from "./certificate/records.js";
import type { Problem } from "./files.js";

export interface Found {
  readonly where: string;
  readonly certificate: Certificate;
}

const chainOf = (each: Found): Release[] => [...each.certificate.releases, each.certificate.release];

interface Entry {
  readonly round: number;
}

function historyOf(each: Found): Entry[] {
  return (each.certificate.body["all_rounds"] as Members)["history"] as unknown as Entry[];
}

/** Return the certificates by task, in the order of their releases. */
export function byTask(found: readonly Found[]): Found[][] {
  const tasks = new Map<string, Found[]>();
  for (const each of found) {
    const id = hex(each.certificate.task.id);
    tasks.set(id, [...(tasks.get(id) ?? []), each]);
  }
  const order = (each: Found): number => each.certificate.releases.length;
  return [...tasks.values()].map((held) =>
    held.sort((one, other) => order(one) - order(other) || one.certificate.round - other.certificate.round),
  );
}

/** Return what is wrong among the certificates of one task, given in their order. */
export function problemsAmong(held: readonly Found[]): Problem[] {
  const last = held.at(-1)!;
  return [...twice(held), ...counts(held), ...totals(held), ...oneChain(held, last), ...gaps(held, last)];
}

function problem(where: string | null, round: number | null, message: string): Problem {
  return { where, round, because: "history", message };
}

function twice(held: readonly Found[]): Problem[] {
  const first = new Map<number, Found>();
  return held.flatMap((each) => {
    const { round } = each.certificate;
    const other = first.get(round);
    if (other === undefined) first.set(round, each);
    return other === undefined
      ? []
      : [problem(each.where, round, `${other.where} is a different certificate of it`)];
  });
}

function counts(held: readonly Found[]): Problem[] {
  const first = new Map<number, [Entry, Found]>();
  for (const each of held) first.set(each.certificate.round, [historyOf(each).at(-1)!, each]);
  return held.flatMap((each) =>
    historyOf(each).flatMap((entry) => {
      const known = first.get(entry.round);
      if (known === undefined) {
        first.set(entry.round, [entry, each]);
        return [];
      }
      const same = isSame(canonical(known[0] as unknown as Json), canonical(entry as unknown as Json));
      return same
        ? []
        : [problem(each.where, entry.round, `its counts differ from those in ${known[1].where}`)];
    }),
  );
}

/** Find totals below what an attack on a single earlier round reaches: no bound on all rounds can be so low. */
function totals(held: readonly Found[]): Problem[] {
  let known = 0;
  let of: Found | null = null;
  return held.flatMap((each) => {
    const { body, round } = each.certificate;
    const lower = (body["round_total"] as Members)["epsilon_lower"] as number | null;
    if (lower !== null && lower > known) [known, of] = [lower, each];
    const total = (body["all_rounds"] as Members)["epsilon_upper"] as number;
    if (of === null || total >= known) return [];
    return [
      problem(each.where, round, `epsilon is ${total} over all rounds, but at least ${known} by ${of.where}`),
    ];
  });
}

function isSameRelease(one: Release, other: Release): boolean {
  const text = (each: Release): string =>
    JSON.stringify([each.round, each.reports, each.dummies, each.records]);
  return text(one) === text(other);
}

function oneChain(held: readonly Found[], last: Found): Problem[] {
  const whole = chainOf(last);
  return held.flatMap((each) => {
    const place = chainOf(each).findIndex((own, at) => at < whole.length && !isSameRelease(own, whole[at]!));
    if (place < 0) return [];
    const words = `it is not of one history with ${last.where}: they differ at position ${place} of the releases`;
    return [problem(each.where, chainOf(each)[place]!.round, words)];
  });
}

function gaps(held: readonly Found[], last: Found): Problem[] {
  const rounds = new Set(held.map((each) => each.certificate.round));
  const uncounted = new Set(last.certificate.uncounted);
  return historyOf(last).flatMap(({ round }) => {
    const never = uncounted.has(round);
    if (!rounds.has(round) && !never)
      return [problem(null, round, `its certificate is missing: ${last.where} includes this round`)];
    if (rounds.has(round) && never)
      return [
        problem(last.where, round, "it states that the round was never counted, but a certificate exists"),
      ];
    return [];
  });
}
