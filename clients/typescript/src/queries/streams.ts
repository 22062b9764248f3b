/** A state that is sent over many rounds: what the device keeps, and the symbol of each round.
 *
 * A value that was drawn for all rounds is never drawn again. So the memory is stored in one step with the report. */

import { AnswerError } from "../base/errors.js";
import { draw, type Random, SPAN, uniform, uniformLarge } from "../base/random.js";
import type { Longitudinal } from "../task/questions.js";
import { type Randomizer, type Sampled, type Tree, type Vector, weights } from "../task/randomizers.js";

/** What a device keeps of a query: whole numbers by name. Vectors of signs are texts of + and −. */
export type Memory = Readonly<Record<string, number | string>>;

/** The mark that a memory was erased: from then on nothing depends on any answer. */
export const ERASED: Memory = { erased: 1 };

export interface Step {
  readonly symbol: number;
  readonly memory: Memory;
}

interface Stream {
  readonly period: number;
  readonly state: number;
  readonly changes: number;
}

/** Return the symbol of a round, and the memory to keep. No answer keeps the last state. */
export function step(
  question: Longitudinal,
  randomizer: Randomizer,
  answer: number | null,
  round: number,
  memory: Memory | undefined,
  random: Random,
): Step {
  if (memory?.["erased"] === 1)
    return { symbol: withoutAnswer(question, randomizer, random), memory: ERASED };
  const before: Stream = {
    period: number(memory, "period"),
    state: number(memory, "state"),
    changes: number(memory, "changes"),
  };
  const after = follow(question, before, round + 1, answer);
  switch (randomizer.mechanism) {
    case "direct":
      return { symbol: after.state, memory: { ...after } };
    case "tree":
      return treeStep(question, randomizer, memory, before, after, random);
    case "sampled":
    case "vector":
      return signStep(
        question,
        randomizer,
        memory ?? begun(question, randomizer, random),
        before,
        after,
        random,
      );
    default:
      throw new TypeError(`${randomizer.mechanism} is no strategy of a longitudinal question`);
  }
}

function number(memory: Memory | undefined, name: string): number {
  return (memory?.[name] as number | undefined) ?? 0;
}

function follow(question: Longitudinal, before: Stream, period: number, answer: number | null): Stream {
  if (period <= before.period) {
    const last = before.period - 1;
    throw new AnswerError(
      `round ${period - 1} of ${question.name} comes too late: round ${last} was answered; answer a later one`,
    );
  }
  if (answer === null || answer === before.state || before.changes >= question.changes)
    return { ...before, period };
  return { period, state: answer, changes: before.changes + 1 };
}

/** Return how many levels of nodes there are over the periods. */
export function levelsOf(question: Longitudinal): number {
  return question.periods.toString(2).length;
}

/** Whether the node of a level that has this period began after the last round that was answered. */
function isNew(before: Stream, period: number, level: number): boolean {
  const size = 2 ** level;
  return before.period <= Math.floor((period - 1) / size) * size;
}

function treeStep(
  question: Longitudinal,
  randomizer: Tree,
  memory: Memory | undefined,
  before: Stream,
  after: Stream,
  random: Random,
): Step {
  // A bit for each level: the state before the level's current node.
  let bases = number(memory, "bases");
  for (let level = 0; level < levelsOf(question); level++) {
    if (isNew(before, after.period, level)) bases = (bases & ~(1 << level)) | (before.state << level);
  }
  const level = 31 - Math.clz32(after.period & -after.period);
  const symbol = nodeSymbol(question, randomizer, after.state - ((bases >> level) & 1), random);
  return { symbol, memory: { ...after, bases } };
}

function nodeSymbol(question: Longitudinal, randomizer: Tree, value: number, random: Random): number {
  const signed = question.changes > 1;
  // Both are drawn in any case, so that how much is drawn says nothing.
  const [truth, place] = [draw(random), draw(random)];
  let sent = value;
  if (truth < randomizer.gamma)
    sent = place < randomizer.side ? 1 : signed && place < 2 * randomizer.side ? -1 : 0;
  return sent + (signed ? 1 : 0);
}

/** Draw what is drawn once for all rounds. */
function begun(question: Longitudinal, randomizer: Sampled | Vector, random: Random): Memory {
  const levels = levelsOf(question);
  if (randomizer.mechanism === "sampled") {
    const level = uniform(levels, random);
    return { base: 0, pending: 0, level, kept: 1 + uniform(question.changes, random) };
  }
  const signs = drawnSigns(randomizer, question.changes, random);
  return { base: 0, pending: 0, signs, used: 0, level: uniform(levels, random) };
}

function drawnSigns(randomizer: Vector, changes: number, random: Random): string {
  const all = weights(randomizer, changes);
  let drawn = uniformLarge(
    all.reduce((one, other) => one + other, 0n),
    random,
  );
  let left = 0;
  for (; drawn >= all[left]!; left++) drawn -= all[left]!;
  let signs = "";
  for (let place = 0; place < changes; place++) {
    const minus = uniform(changes - place, random) < left;
    left -= minus ? 1 : 0;
    signs += minus ? "-" : "+";
  }
  return signs;
}

function signStep(
  question: Longitudinal,
  randomizer: Sampled | Vector,
  memory: Memory,
  before: Stream,
  after: Stream,
  random: Random,
): Step {
  const level = number(memory, "level");
  const kept: Record<string, number | string> = { ...memory, ...after };
  if (isNew(before, after.period, level)) Object.assign(kept, { base: before.state, pending: 0 });
  if (
    randomizer.mechanism === "sampled" &&
    after.changes !== before.changes &&
    after.changes === kept["kept"]
  ) {
    kept["pending"] = after.state - before.state;
  }
  const ends = after.period % 2 ** level === 0;
  const change = ends ? changeOf(randomizer, kept, after) : 0;
  const sign = change === 0 ? coin(random) : signOf(question, randomizer, kept, change, random);
  return { symbol: 2 * level + (sign > 0 ? 1 : 0), memory: kept };
}

/** Return the change of the node that ends, and begin the next one. */
function changeOf(
  randomizer: Sampled | Vector,
  kept: Record<string, number | string>,
  after: Stream,
): number {
  const change =
    randomizer.mechanism === "sampled" ? number(kept, "pending") : after.state - number(kept, "base");
  Object.assign(kept, randomizer.mechanism === "sampled" ? { pending: 0 } : { base: after.state });
  return change;
}

function signOf(
  question: Longitudinal,
  randomizer: Sampled | Vector,
  kept: Record<string, number | string>,
  change: number,
  random: Random,
): number {
  if (randomizer.mechanism === "sampled") {
    return uniformLarge(randomizer.odds + BigInt(SPAN), random) < randomizer.odds ? change : -change;
  }
  const place = number(kept, "used");
  if (place >= question.changes) throw new TypeError("a vector of signs has no more of them");
  kept["used"] = place + 1;
  return (kept["signs"] as string)[place] === "-" ? -change : change;
}

function coin(random: Random): number {
  return random(1)[0]! & 1 ? -1 : 1;
}

function withoutAnswer(question: Longitudinal, randomizer: Randomizer, random: Random): number {
  if (randomizer.mechanism === "tree") return nodeSymbol(question, randomizer, 0, random);
  return uniform(randomizer.mechanism === "direct" ? 2 : 2 * levelsOf(question), random);
}
