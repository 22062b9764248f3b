/** Which ε of a certificate is proven here, by exact numbers: that of the device alone, and that of noise alone.
 *
 * Every ε that is proven here is true, whatever else the certificate says. What is false here is refused. The others
 * rest on bounds of the crowd or on compositions, which `hubbub verify` computes. */

import { SPAN } from "../../src/base/random.js";
import type { Query, Task } from "../../src/task/task.js";
import { exact, type Fraction, isAtLeast, LARGEST_EXPONENT, times } from "../base/exact.js";
import { Refused } from "../base/refused.js";
import { type Beside, keeps } from "./noise.js";
import { ALONE, LOCAL, type Rung } from "./words.js";

/** The largest ε at which the pair of noise is looked at: far above every local ε of a query. */
const LARGEST_EPSILON = 100;

/** How an ε is known: by exact numbers here, or not. */
export type Known = "device" | "noise" | "not";

/** Return E = e^ε of a query's report alone, exactly; null for one that is linked over rounds. */
function ratioOf(query: Query): Fraction | null {
  const { randomizer } = query;
  switch (randomizer.mechanism) {
    case "krr":
      return response(randomizer.gamma, query.symbols);
    case "hashed":
      return response(randomizer.gamma, randomizer.cells);
    case "direct":
      return response(randomizer.gamma, 2);
    case "unary": {
      const [truthful, other] = [BigInt(randomizer.truthful), BigInt(randomizer.other)];
      const span = BigInt(SPAN);
      return { over: truthful * (span - other), under: other * (span - truthful) };
    }
    default:
      return null;
  }
}

function response(gamma: number, symbols: number): Fraction {
  const under = BigInt(gamma);
  return { over: BigInt(symbols) * (BigInt(SPAN) - under) + under, under };
}

/** Return a query beside its noise; null if it has none, or if a person's reports are linked over rounds. */
function besideOf(query: Query): Beside | null {
  const { noise, randomizer, symbols } = query;
  if (noise === null) return null;
  switch (randomizer.mechanism) {
    case "krr":
      return { noise, gamma: randomizer.gamma, answers: symbols, fixedTotal: symbols === 2 };
    case "direct":
      return { noise, gamma: randomizer.gamma, answers: 2, fixedTotal: true };
    case "hashed":
      return { noise, gamma: randomizer.gamma, answers: randomizer.cells, fixedTotal: false };
    default:
      return null;
  }
}

/** One object of a certificate that states ε: one query's batch, or several over some rounds. */
export interface Charged {
  readonly where: string;
  readonly queries: readonly Query[];
  readonly rounds: number;
}

/** Whether ε is surely at least the sum of all ε_local; null if that is not computed here. */
function coversDevice(charged: Charged, epsilon: number): boolean | null {
  let product: Fraction = { over: 1n, under: 1n };
  for (const query of charged.queries) {
    const ratio = ratioOf(query);
    if (ratio === null) return null;
    product = times(product, ratio);
  }
  // Each round costs the same, so a round's share of ε is compared: e^ε of a year would be a long number.
  const { over, under } = exact(epsilon);
  const share = { over, under: under * BigInt(charged.rounds) };
  // e^10000 is more than 64 queries can cost, so what is beyond is enough too.
  const isFar = share.over > LARGEST_EXPONENT * share.under;
  return isAtLeast(isFar ? { over: LARGEST_EXPONENT, under: 1n } : share, product);
}

/** Return how an ε at δ is known; throw a Refused if exact numbers show that it is too small.
 *
 * `bound` is what the certificate names for a query's `epsilon_upper`. */
export function checkEpsilon(
  task: Task,
  charged: Charged,
  rung: Rung,
  epsilon: number,
  bound: string | null,
): Known {
  const tooSmall = (what: string): Refused =>
    new Refused("number", `${charged.where}: ${rung} is stated as ${epsilon}, which is too small: ${what}`);
  const device = coversDevice(charged, epsilon);
  if (device === true) return "device";
  if (rung === LOCAL) {
    if (device === null) return "not";
    throw tooSmall("the devices' reports alone reach more");
  }
  const single = charged.queries.length === 1 && charged.rounds === 1 ? charged.queries[0]! : null;
  const beside = single === null ? null : besideOf(single);
  const noisy =
    beside === null ? false : epsilon > LARGEST_EPSILON ? null : keeps(beside, epsilon, task.privacy.delta);
  if (noisy === true) return "noise";
  if (rung === ALONE && beside !== null && noisy === false)
    throw tooSmall("the shuffler's noise by itself reaches more at this δ");
  if (bound === "noise" && noisy === false)
    throw tooSmall("the bound noise, which is named for it, gives more at this δ");
  if (bound === "local" && device === false)
    throw tooSmall("the bound local, which is named for it, gives more");
  if (rung === ALONE && device === false && charged.queries.every((query) => nothingHides(task, query)))
    throw tooSmall("nothing hides a person if everybody else lies, so it is that of the device alone");
  return "not";
}

/** Whether nothing that a shuffler adds hides a person's answer to a query. */
export function nothingHides(task: Task, query: Query): boolean {
  return query.noise === null && task.privacy.dummies === 0;
}
