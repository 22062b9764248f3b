/** Shows what a device would send for its answers, which it contains. Nothing is sent, stored or spent. */

import { type Bytes } from "../base/bytes.js";
import { HubbubError } from "../base/errors.js";
import { SPAN } from "../base/random.js";
import { type Answers, drawReports } from "../queries/encode.js";
import { envelopeBytes } from "../seal/envelope.js";
import { checkLimits, nextLocalCost } from "../state/budget.js";
import { answersOf } from "../task/questions.js";
import { chooseRound } from "../task/schedule.js";
import type { Query } from "../task/task.js";
import type { Session } from "./session.js";

export interface PreviewedQuery {
  readonly name: string;
  /** In words, what the answer is encoded into before it is randomized. */
  readonly encoded: string;
  readonly symbols: number;
  /** How likely a report of kRR is the own symbol, and any one other; null of other randomizers. */
  readonly own: number | null;
  readonly other: number | null;
  readonly epsilonLocal: number;
  /** One report, drawn for this preview. Another draw gives another one. */
  readonly report: Bytes;
}

export interface Preview {
  readonly task: string;
  readonly round: number;
  readonly queries: readonly PreviewedQuery[];
  /** The length of a submission's id and envelope, the same for every answer. */
  readonly submissionBytes: number;
  /** What this round would add to the local ε of this device. */
  readonly epsilonLocal: number;
  /** Why submit() would not send these answers; null if it would. */
  readonly notSent: string | null;
}

export async function preview(
  session: Session,
  answers: Answers,
  wanted: number | undefined,
): Promise<Preview> {
  const { task } = session;
  const now = session.clock();
  const round = chooseRound(task.schedule, wanted, now);
  const state = await session.store.read();
  const own = state.tasks[session.id];
  const drawn = drawReports(task, answers, round, own?.memories ?? {}, session.random);
  let notSent: string | null = null;
  if (state.optedOut) notSent = "this device has opted out";
  else if (own?.rounds[round] !== undefined)
    notSent = `round ${round} was answered before, and its first answers stay`;
  else notSent = refusalOf(() => checkLimits(state, task, session.id, now, session.limits));
  return {
    task: task.name,
    round,
    queries: task.queries.map((query, place) =>
      previewed(query, drawn.symbols[place]!, drawn.reports[place]!),
    ),
    submissionBytes: 16 + envelopeBytes(task),
    epsilonLocal: nextLocalCost(state, task, session.id),
    notSent,
  };
}

function refusalOf(check: () => void): string | null {
  try {
    check();
    return null;
  } catch (error) {
    if (error instanceof HubbubError) return error.message;
    throw error;
  }
}

function previewed(query: Query, symbol: bigint, report: Bytes): PreviewedQuery {
  const { randomizer, symbols, name, epsilonLocal } = query;
  const other = randomizer.mechanism === "krr" ? randomizer.gamma / SPAN / symbols : null;
  const own = randomizer.mechanism === "krr" ? 1 - randomizer.gamma / SPAN + other! : null;
  return { name, encoded: inWords(query, symbol), symbols, own, other, epsilonLocal, report };
}

function inWords({ question, symbols }: Query, symbol: bigint): string {
  if (question.optional && question.kind !== "text" && symbol === BigInt(answersOf(question)))
    return "no answer";
  switch (question.kind) {
    case "histogram":
    case "top":
      return question.categories[Number(symbol)]!;
    case "bit":
      return `digit ${symbol}`;
    case "sum": {
      const value = question.lower + ((question.upper - question.lower) * Number(symbol)) / question.levels;
      return `${Number(value.toPrecision(6))} ${question.unit}`.trim();
    }
    case "text":
      return "a digest of the text";
    default:
      return `symbol ${symbol} of 0 to ${symbols - 1}`;
  }
}
