/** The rounds of a task: when each is prepared, taken and forgotten, in seconds since 1970. */

import type { Json } from "../base/canonical.js";
import { NoRound } from "../base/errors.js";
import * as read from "./fields.js";
import { LATEST } from "./successions.js";

const DAY = 86_400;

export interface Schedule {
  readonly start: number;
  readonly length: number;
  readonly grace: number;
  readonly rounds: number;
}

export function readSchedule(value: Json | undefined): Schedule {
  const found = read.members(value, "schedule", ["close", "grace", "length", "rounds", "start"]);
  read.oneOf(found["close"], "schedule.close", ["schedule", "operator"] as const);
  const text = found["start"];
  const start =
    typeof text === "string" && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(text) ? Date.parse(text) : NaN;
  // A day such as the 31st of June is read as another one.
  if (Number.isNaN(start) || at(start / 1000) !== text)
    throw read.refused("schedule.start", "is no time in UTC");
  const schedule = {
    start: start / 1000,
    length: read.whole(found["length"], "schedule.length", 1, 3650 * DAY),
    grace: read.whole(found["grace"], "schedule.grace", 0, 365 * DAY),
    rounds: read.whole(found["rounds"], "schedule.rounds", 1, 1_000_000),
  };
  if (schedule.start < 0 || cut(schedule, schedule.rounds) > LATEST)
    throw read.refused("schedule.start", "puts a round before 1970 or after the year 9999");
  return schedule;
}

/** Return a time for people, in UTC. */
export function at(seconds: number): string {
  return new Date(1000 * Math.floor(seconds)).toISOString().replace(".000Z", "Z");
}

export function opens(schedule: Schedule, round: number): number {
  return schedule.start + round * schedule.length;
}

/** Return when a round stops taking submissions. */
export function cut(schedule: Schedule, round: number): number {
  return opens(schedule, round) + schedule.length + schedule.grace;
}

/** Return when a round begins to take submissions: clocks may differ by the grace. */
export function takenFrom(schedule: Schedule, round: number): number {
  return opens(schedule, round) - schedule.grace;
}

/** Return when a round's keys may first be made: whoever signs then signs everything of the round. */
export function preparedFrom(schedule: Schedule, round: number): number {
  return takenFrom(schedule, round) - Math.min(DAY, Math.max(600, schedule.length));
}

/** Return when a round is forgotten: by every clock it has been cut. */
export function forgottenAfter(schedule: Schedule, round: number): number {
  return cut(schedule, round) + schedule.grace;
}

/** Return the round to answer: the one of `now`, or `wanted` if it is not over. */
export function chooseRound(schedule: Schedule, wanted: number | undefined, now: number): number {
  const current = Math.floor((now - schedule.start) / schedule.length);
  if (wanted === undefined) {
    if (current < 0 || current >= schedule.rounds)
      throw new NoRound(`there is no round now; ${next(schedule, current)}`);
    return current;
  }
  if (!Number.isSafeInteger(wanted) || wanted < 0 || wanted >= schedule.rounds) {
    throw new NoRound(`there is no round ${wanted}; rounds are 0 to ${schedule.rounds - 1}`);
  }
  if (now > forgottenAfter(schedule, wanted))
    throw new NoRound(`round ${wanted} is over; ${next(schedule, current)}`);
  return wanted;
}

function next(schedule: Schedule, current: number): string {
  const following = Math.max(0, current + 1);
  if (following >= schedule.rounds) return `the last one ended at ${at(opens(schedule, schedule.rounds))}`;
  return `round ${following} begins at ${at(opens(schedule, following))}`;
}
