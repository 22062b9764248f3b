/** Budgets of purposes: what all tasks of one purpose together may spend, added as the decimals that people write. */

import type { Json } from "../base/canonical.js";
import { DocumentError } from "../base/errors.js";
import * as read from "../task/fields.js";
import type { Task } from "../task/task.js";

/** The (ε, δ) that all tasks of a purpose may spend for one person. */
export interface PurposeBudget {
  readonly purpose: string;
  readonly epsilon: number;
  readonly delta: number;
}

/** Sums have so many digits behind the point: more than any double has. */
const DIGITS = 400;

export function readBudget(value: Json | undefined): PurposeBudget {
  const found = read.members(value, "budget", ["delta", "epsilon", "purpose"]);
  const delta = read.positive(found["delta"], "budget.delta", 1);
  if (delta === 1) throw read.refused("budget.delta", "is not below 1");
  return {
    purpose: read.taskName(found["purpose"], "budget.purpose"),
    epsilon: read.positive(found["epsilon"], "budget.epsilon", Number.MAX_VALUE),
    delta,
  };
}

/** Return the decimal that a person wrote, times 10 to the power of `DIGITS`: 0.1 three times is 0.3. */
export function exactly(value: number): bigint {
  const [number, exponent = "0"] = String(value).split("e") as [string, string?];
  const [whole, fraction = ""] = number.split(".") as [string, string?];
  return BigInt(whole + fraction) * 10n ** BigInt(DIGITS + Number(exponent) - fraction.length);
}

interface Spending {
  readonly budget: PurposeBudget;
  epsilon: bigint;
  delta: bigint;
}

/** What the published tasks take of their purposes' budgets. An end gives nothing back. */
export class Purposes {
  private readonly spending = new Map<string, Spending>();
  /** The purpose of each name of a task that has one: later tasks of the name must not leave its budget. */
  private readonly named = new Map<string, string>();

  /** Add a published task; throw a DocumentError if its budget does not allow it, and add nothing. */
  add(where: string, task: Task, budget: PurposeBudget | null): void {
    const before = this.named.get(task.name);
    if (before !== undefined && budget?.purpose !== before)
      throw refused(where, `publishes task ${task.name}, whose name belongs to purpose ${before}, for another or none`);
    if (budget === null) return;
    const { purpose } = budget;
    const spent = this.spending.get(purpose) ?? { budget, epsilon: 0n, delta: 0n };
    if (spent.budget.epsilon !== budget.epsilon || spent.budget.delta !== budget.delta)
      throw refused(where, `states another budget of purpose ${purpose} than its first entry, and that one stands`);
    const { epsilonTotal, delta: share } = task.privacy;
    if (epsilonTotal === null)
      throw refused(where, `publishes task ${task.name}, which does not cap what all its rounds cost together`);
    const [epsilon, delta] = [spent.epsilon + exactly(epsilonTotal), spent.delta + exactly(share)];
    if (epsilon > exactly(budget.epsilon) || delta > exactly(budget.delta))
      throw refused(where, `publishes task ${task.name}, which would take more than is left to purpose ${purpose}`);
    this.spending.set(purpose, { budget: spent.budget, epsilon, delta });
    this.named.set(task.name, purpose);
  }
}

function refused(where: string, problem: string): DocumentError {
  return new DocumentError("budget", `${where} ${problem}; nothing is sent for it, ask the operator`);
}
