/** The words of a certificate: who was let in, and who must be honest for which ε. They follow from the task alone. */

import type { Mode, Task } from "../../src/task/task.js";
import { decimal } from "../base/exact.js";

export const ALONE = "epsilon_upper_alone";
export const IF_MINIMUM_VALID = "epsilon_upper_if_minimum_valid";
export const AT_MINIMUM = "epsilon_upper_at_minimum";
export const LOCAL = "epsilon_local";
/** The members with an ε that is an upper bound, from the most honest parties to the fewest. */
export const RUNGS = ["epsilon_upper", AT_MINIMUM, IF_MINIMUM_VALID, ALONE, LOCAL] as const;
export type Rung = (typeof RUNGS)[number];

const WHO: Readonly<Record<Mode, string>> = {
  enrolled:
    "Each device with a ticket of the operator submits once a round. That the tickets went to different people is " +
    "the operator's word.",
  mtls:
    "Each device with a TLS certificate of the devices' authority submits once a round. That the certificates went " +
    "to different people is that authority's word.",
  open: "Nobody checked who submitted: anybody who reached the shuffler could make reports up.",
};
const PRIVACY = "Made-up reports hide nobody: privacy counts on the share of reports that is honest.";
const ACCURACY =
  "Made-up reports can spoil the estimates, and weaken an ε that needs everyone who answers to be honest. They " +
  "weaken none that needs only an honest shuffler: its noise hides each person.";

export function admissionOf(task: Task): { mode: Mode; words: string } {
  const noisy = task.queries.every((query) => query.noise !== null);
  return { mode: task.mode, words: `${WHO[task.mode]} ${noisy ? ACCURACY : PRIVACY}` };
}

/** Return the sentence for each rung of a certificate of so many rounds. */
export function ladderOf(task: Task, rounds: number): Partial<Record<Rung, string>> {
  const shufflers = 1 + task.identities.hops.length;
  const chain = shufflers > 1;
  const firstOnly = chain && task.privacy.dummies > 0;
  const shuffler = !chain
    ? "the shuffler"
    : firstOnly
      ? "the first shuffler"
      : `one of the ${shufflers} shufflers`;
  const people = peopleOf(task);
  const needs: string[] = [];
  if (task.mode === "open") needs.push("nobody checked who submitted, so that is assumed");
  if (chain && !firstOnly)
    needs.push(
      "the shufflers before the honest one must pass on all reports, and the first must make none up",
    );
  if (
    task.queries.some(
      ({ randomizer }) => randomizer.mechanism === "sampled" || randomizer.mechanism === "vector",
    )
  )
    needs.push("as many people must answer every round as the task states");
  const fixed = rounds > 1 ? ["earlier results must not change how many people answer"] : [];
  const came = task.privacy.honestShare < 1 ? fixed : [];
  const minimum = grouped(task.minimumReports);
  const free = `each batch counts as ${minimum}, so earlier results may change how many people answer`;
  const valid = `at least ${minimum} reports of each batch are valid`;
  const added = hiding(task, chain, firstOnly, shuffler);
  const hidden = `everybody else may lie and work together, the analyzer too${added}`;
  const services = chain ? `all ${shufflers} shufflers and the analyzer` : "the shuffler and the analyzer";
  const honest = `if ${shuffler}, the analyzer and ${people} are honest`;
  const sentence = (...parts: string[]): string => parts.join("; ");
  return {
    epsilon_upper: sentence(honest, ...needs, ...fixed),
    ...(rounds > 1 ? { [AT_MINIMUM]: sentence(honest, ...needs, free) } : {}),
    [IF_MINIMUM_VALID]: sentence(
      `if ${shuffler} and ${people} are honest, and ${valid}`,
      "the analyzer may miscount",
      ...needs,
      ...came,
    ),
    [ALONE]: sentence(`if ${shuffler} is honest`, hidden),
    [LOCAL]: sentence(
      "if only the person's own device is honest",
      `everybody else may work together, ${services} too`,
    ),
  };
}

function peopleOf(task: Task): string {
  const share = task.privacy.honestShare;
  if (share === 1) return "everyone who answers";
  const { over, under } = decimal(share);
  return `the people behind ${percent(100n * over, under)} % of the reports`;
}

/** Return a fraction over a power of ten as it is written, without zeros at its end. */
function percent(over: bigint, under: bigint): string {
  const whole = over / under;
  const rest = over % under;
  if (rest === 0n) return String(whole);
  const places = String(under).length - 1;
  return `${whole}.${String(rest).padStart(places, "0").replace(/0+$/, "")}`;
}

export function grouped(number: number): string {
  return String(number).replace(/\B(?=(\d{3})+$)/g, ",");
}

function hiding(task: Task, chain: boolean, firstOnly: boolean, shuffler: string): string {
  const noisy = task.queries.filter((query) => query.noise !== null);
  const hidden =
    noisy.length > 0
      ? noisy
      : task.queries.filter((query) => task.privacy.dummies > 0 && countsDummies(query));
  if (hidden.length === 0) return "";
  const honest = chain && !firstOnly ? "the honest shuffler" : shuffler;
  const added = `${honest}'s ${noisy.length > 0 ? "noise hides" : "dummies hide"}`;
  if (hidden.length === task.queries.length) return `: ${added} each person`;
  return `: ${added} the answers to ${hidden.map((query) => query.name).join(", ")}`;
}

/** Whether the bounds of a query's mechanism count uniform dummies: those of levels over rounds do not. */
function countsDummies(query: Task["queries"][number]): boolean {
  return COUNTING.includes(query.randomizer.mechanism);
}

const COUNTING: readonly string[] = ["krr", "unary", "hashed", "direct"];
