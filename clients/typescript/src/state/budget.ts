/** What a device has spent, and the limits that an application sets on it.
 *
 * Sums are of whole units of 2⁻⁶⁰, each ε rounded up, so that no rounding lets a limit be passed. */

import { OverLimit } from "../base/errors.js";
import { exact } from "../base/random.js";
import { paidRounds } from "../task/randomizers.js";
import type { Task } from "../task/task.js";
import type { Charge, DeviceState, TaskState } from "./state.js";

/** The most ε that a device may spend, and the largest promise that a task may have; what is left out is unlimited.
 *
 * A day is a UTC day by this device's clock. Central ε is the task's promise for each round that was answered. */
export interface PrivacyLimits {
  readonly epsilonLocalPerDay?: number;
  readonly epsilonPerDay?: number;
  readonly epsilonLocalPerTask?: number;
  readonly epsilonPerTask?: number;
  readonly epsilon?: number;
  readonly delta?: number;
  readonly epsilonLocal?: number;
}

/** What was spent: on this task, and today on all tasks of this state. */
export interface Budget {
  readonly rounds: number;
  readonly epsilonLocal: number;
  readonly epsilon: number;
  readonly epsilonLocalToday: number;
  readonly epsilonToday: number;
}

const UNIT = 1n << 60n;
const PAST = -1;
const SPENDING = ["epsilonLocalPerDay", "epsilonPerDay", "epsilonLocalPerTask", "epsilonPerTask"] as const;
const NAMES = [...SPENDING, "epsilon", "delta", "epsilonLocal"] as const;

export function checkedLimits(limits: PrivacyLimits): PrivacyLimits {
  for (const [name, value] of Object.entries(limits)) {
    if (!NAMES.includes(name as (typeof NAMES)[number]) || !(typeof value === "number" && value >= 0)) {
      throw new RangeError(
        `the limit ${name.slice(0, 40)} is not one, or no number from 0 on; give ${NAMES.join(", ")}`,
      );
    }
  }
  return limits;
}

export function dayOf(now: number): number {
  return Math.floor(now / 86_400);
}

function units(value: number): bigint {
  const { over, under } = exact(value);
  return -((-over * UNIT) / under) + ((over * UNIT) % under === 0n ? 0n : 1n);
}

/** Return the least double that is not below so many units. */
function upward(amount: bigint): number {
  const near = Number(amount) / 2 ** 60;
  return units(near) >= amount ? near : near * (1 + 2 ** -52);
}

/** Return what one more round costs locally, after `answered` rounds of the task. */
function localCost(task: Task, answered: number): bigint {
  return task.queries.reduce((sum, { randomizer, question, epsilonLocal }) => {
    const paid = (rounds: number): number => paidRounds(randomizer, question, rounds);
    return sum + BigInt(paid(answered + 1) - (answered === 0 ? 0 : paid(answered))) * units(epsilonLocal);
  }, 0n);
}

export function isLinked(task: Task): boolean {
  return localCost(task, 1) < localCost(task, 0);
}

interface Spent {
  readonly epsilon: number;
  readonly epsilonTotal: number | null;
  readonly linked: boolean;
  readonly charges: readonly Charge[];
}

function roundsOf(charges: readonly Charge[]): number {
  return charges.reduce((sum, each) => sum + each.rounds, 0);
}

function localOf(task: Spent): bigint {
  return task.charges.reduce((sum, each) => sum + BigInt(each.rounds) * BigInt(each.local), 0n);
}

/** Return the central ε of the rounds: the least of the sum of promises, the cap on all rounds, and the local ε. */
function centralOf(task: Spent): bigint {
  const rounds = roundsOf(task.charges);
  if (rounds === 0) return 0n;
  const bounds = [localOf(task)];
  if (!task.linked) bounds.push(BigInt(rounds) * units(task.epsilon));
  if (task.epsilonTotal !== null) bounds.push(units(task.epsilonTotal));
  return bounds.reduce((least, each) => (each < least ? each : least));
}

/** Leave out the charges of days before that one: a clock that is set back gives no new budget. */
function since(task: Spent, day: number): Spent {
  return { ...task, charges: task.charges.filter((each) => each.day >= day) };
}

/** Throw OverLimit if one more round of a task would exceed a limit. */
export function checkLimits(
  state: DeviceState,
  task: Task,
  id: string,
  now: number,
  limits: PrivacyLimits,
): void {
  for (const name of ["epsilon", "delta", "epsilonLocal"] as const) {
    const [limit, promised] = [limits[name], task.privacy[name]];
    if (limit !== undefined && promised > limit) {
      throw new OverLimit(
        name,
        `the task has ${name} = ${promised}, and this device allows ${limit}; raise the limit`,
      );
    }
  }
  const day = dayOf(now);
  const own = state.tasks[id];
  const charges = own?.charges ?? [];
  const added: Charge = { day, local: String(localCost(task, roundsOf(charges))), rounds: 1 };
  const after: Spent = {
    epsilon: task.privacy.epsilon,
    epsilonTotal: task.privacy.epsilonTotal,
    linked: isLinked(task),
    charges: [...charges, added],
  };
  const others = Object.entries(state.tasks).filter(([other]) => other !== id);
  for (const name of SPENDING) {
    const limit = limits[name];
    if (limit === undefined || limit === Infinity) continue;
    const counted = name.endsWith("PerDay")
      ? [after, ...others.map(([, each]) => each)].map((each) => since(each, day))
      : [after];
    const amount = counted
      .map(name.includes("Local") ? localOf : centralOf)
      .reduce((one, other) => one + other, 0n);
    if (amount > units(limit)) {
      const remedy = name.endsWith("PerDay")
        ? "answer on another day, or raise the limit"
        : "raise the limit";
      throw new OverLimit(
        name,
        `with this round ${upward(amount)} would be spent, above ${name} = ${limit}; ${remedy}`,
      );
    }
  }
}

/** Charge a round. Days before yesterday become one: the state does not say when somebody answered. */
export function charge(state: TaskState, task: Task, now: number): void {
  const day = dayOf(now);
  const local = String(localCost(task, roundsOf(state.charges)));
  const merged = new Map<string, Charge>();
  for (const each of [...state.charges, { day, local, rounds: 1 }]) {
    const kept = each.day < day - 1 ? PAST : each.day;
    const name = `${kept} ${each.local}`;
    merged.set(name, { day: kept, local: each.local, rounds: (merged.get(name)?.rounds ?? 0) + each.rounds });
  }
  state.charges = [...merged.values()];
}

export function budgetOf(state: DeviceState, id: string, now: number): Budget {
  const all = Object.values(state.tasks).map((task) => since(task, dayOf(now)));
  const sum = (amount: (task: Spent) => bigint, of: readonly Spent[]): number =>
    upward(of.map(amount).reduce((one, other) => one + other, 0n));
  const own = state.tasks[id] === undefined ? [] : [state.tasks[id]];
  return {
    rounds: own.reduce((rounds, task) => rounds + roundsOf(task.charges), 0),
    epsilonLocal: sum(localOf, own),
    epsilon: sum(centralOf, own),
    epsilonLocalToday: sum(localOf, all),
    epsilonToday: sum(centralOf, all),
  };
}

/** Return what one more round would add to the local ε. */
export function nextLocalCost(state: DeviceState, task: Task, id: string): number {
  return upward(localCost(task, roundsOf(state.tasks[id]?.charges ?? [])));
}
