/** How many reports of which symbols a shuffler adds to a batch: uniform dummies, or noise. */

import { levelsOf } from "../../src/queries/streams.js";
import type { Query, Task } from "../../src/task/task.js";
import { Refused } from "../base/refused.js";
import { REACH_LIMIT, tableOf, VARIANCE_LIMIT } from "./noise.js";

const MOST_NOISE = 10_000_000;
/** The randomizers whose reports a shuffler can imitate symbol by symbol. */
const IMITATED: readonly string[] = ["krr", "hashed", "tree", "direct"];

/** Return how many symbols a report can be: of a tree's node its values, of hashed answers the cells of all rows. */
export function reportSymbols({ question, randomizer, symbols }: Query): number {
  switch (randomizer.mechanism) {
    case "hashed":
      return randomizer.cells * randomizer.rows;
    case "tree":
      return question.kind === "longitudinal" && question.changes > 1 ? 3 : 2;
    case "sampled":
    case "vector":
      return question.kind === "longitudinal" ? 2 * levelsOf(question) : symbols;
    default:
      return symbols;
  }
}

/** Whether the number of all of a shuffler's noise is fixed, as one symbol gets the rest. */
function isTotalFixed(query: Query): boolean {
  const { mechanism } = query.randomizer;
  return mechanism === "tree" || (mechanism !== "hashed" && query.symbols === 2);
}

/** Return the fewest and the most reports that the shuffler in a position of the chain adds to a query's batch. */
export function addedWithin(task: Task, query: Query, position: number): [number, number] {
  if (query.noise === null) {
    const dummies = position === 1 ? task.privacy.dummies : 0;
    return [dummies, dummies];
  }
  const fixed = isTotalFixed(query);
  const most = (reportSymbols(query) - (fixed ? 1 : 0)) * 2 * query.noise.reach;
  return [fixed ? most : 0, most];
}

/** Check what the shufflers may add: whoever signs a task without this would promise what is not proven. */
export function checkNoise(task: Task): void {
  const wrong = (what: string): Refused => new Refused("value", `the task ${what}`);
  const shufflers = 1 + task.identities.hops.length;
  for (const query of task.queries) {
    const { name, noise, randomizer } = query;
    if (noise === null) continue;
    if (task.privacy.dummies > 0) throw wrong("has uniform dummies, and noise too");
    const most = noise.family === "geometric" ? 2n ** 32n - 1n : VARIANCE_LIMIT;
    if (noise.reach > REACH_LIMIT || BigInt(noise.parameter) > most)
      throw wrong(`has noise for ${name} that is beyond every limit`);
    if (!IMITATED.includes(randomizer.mechanism))
      throw wrong(`has noise for ${name} beside ${randomizer.mechanism}, which is not proven`);
    const expected = isTotalFixed(query)
      ? addedWithin(task, query, 1)[1]
      : reportSymbols(query) * noise.reach;
    if (expected * shufflers > MOST_NOISE) throw wrong(`has too much noise for ${name}`);
    if (tableOf(noise)[0] === 0n) throw wrong(`has noise for ${name} without any mass at its ends`);
  }
}
