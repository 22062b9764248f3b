/** Whether a stated number is the rounded one of what is computed here, each within its own last digit.
 *
 * The numbers of a row have one place of their last digit: the ninth of the row's largest. A chance has six of its own.
 * `protos/records/significant_digits.py` has the rule. Here the room of a chance is wider, as tails of many people are
 * known to a part of 2·10⁻⁸ only: a change of its last stated digit is still found. */

import { shown } from "../base/refused.js";
import { Float, isMembers, type Value } from "../base/strict.js";

const DIGITS = 9;
const CHANCE_DIGITS = 6;
const NOISE = 1e-12;
const CHANCE_NOISE = 1e-7;
/** Chances that are smaller lose their digits in a double. */
const TINY = 1e-290;
const CHANCE = "p_value";
const ENDS = [
  ["lower", "upper"],
  ["simultaneous_lower", "simultaneous_upper"],
] as const;
const IN_ONE_UNIT = [
  ...["estimate", "standard_error", "lower", "upper"],
  ...["simultaneous_lower", "simultaneous_upper", "consistent"],
];

type Computed = { readonly [name: string]: unknown };

function isRow(members: object): boolean {
  return Object.hasOwn(members, "standard_error");
}

/** Return how a stated value first differs from what follows, in words; null if it follows. */
export function difference(computed: unknown, stated: Value | undefined, where = ""): string | null {
  if (Array.isArray(computed)) return ofLists(computed, stated, where);
  if (typeof computed === "object" && computed !== null)
    return ofObjects(computed as Computed, stated, where);
  if (typeof computed === "number")
    return numberOf(stated) === computed ? null : differs(computed, stated, where);
  return computed === stated ? null : differs(computed, stated, where);
}

function ofObjects(computed: Computed, stated: Value | undefined, where: string): string | null {
  if (!isMembers(stated)) return differs(computed, stated, where);
  const wrong = oddMembers(stated, Object.keys(computed));
  if (wrong !== null) return `${where === "" ? "" : `${where}: `}${wrong}`;
  const row = isRow(computed);
  for (const [name, value] of Object.entries(computed)) {
    const place = where === "" ? name : `${where}.${name}`;
    const inRow = row && typeof value === "number" && (IN_ONE_UNIT.includes(name) || name === CHANCE);
    const found = inRow
      ? ofNumbers(computed, name, stated[name], place)
      : difference(value, stated[name], place);
    if (found !== null) return found;
  }
  return null;
}

function ofLists(computed: readonly unknown[], stated: Value | undefined, where: string): string | null {
  if (!Array.isArray(stated)) return differs(computed, stated, where);
  if (computed.length !== stated.length)
    return `${where} does not follow from the counts: it has ${stated.length} members, but ${computed.length} follow`;
  for (const [place, each] of computed.entries()) {
    const found = difference(each, stated[place], `${where}[${place}]`);
    if (found !== null) return found;
  }
  return null;
}

function ofNumbers(row: Computed, name: string, stated: Value | undefined, where: string): string | null {
  const value = numberOf(stated);
  const computed = row[name] as number;
  if (value !== null && follows(value, computed, sizeOf(row, name), name)) return null;
  return differs(rounded(computed, sizeOf(row, name), digitsOf(name)), stated, where);
}

function sizeOf(row: Computed, name: string): number {
  if (name === CHANCE) return Math.abs(row[name] as number);
  const sizes = IN_ONE_UNIT.map((each) => row[each]).filter(
    (each): each is number => typeof each === "number",
  );
  return sizes.reduce(
    (largest, each) => (Number.isFinite(each) ? Math.max(largest, Math.abs(each)) : largest),
    0,
  );
}

function digitsOf(name: string): number {
  return name === CHANCE ? CHANCE_DIGITS : DIGITS;
}

export function follows(stated: number, computed: number, size: number, name: string): boolean {
  const chance = name === CHANCE;
  if (!Number.isFinite(computed)) return stated === computed;
  if (chance && stated >= 0 && stated < TINY && computed < TINY) return true;
  const room = chance ? size * CHANCE_NOISE : size * NOISE;
  if (Number.isInteger(stated) && Math.abs(stated - computed) <= room) return true;
  return [0, room, -room].some((moved) =>
    [size, size + room, size - room].some(
      (each) => stated === rounded(computed + moved, each, digitsOf(name)),
    ),
  );
}

/** Return a number cut where a number of that size has so many digits; the last one is rounded. */
export function rounded(value: number, size: number, digits: number): number {
  const whole = Number.isInteger(value) && Math.abs(value) < 2 ** 53;
  if (!Number.isFinite(value) || whole || size <= 0) return value + 0;
  const place = digits - 1 - Math.floor(Math.log10(size));
  const kept = Number(value.toExponential().split("e")[1]) + 1 + place;
  if (kept > 100) return value;
  if (kept < 0) return 0;
  if (kept === 0) return Math.abs(value) > 0.5 * 10 ** -place ? Math.sign(value) * 10 ** -place : 0;
  return Number(value.toPrecision(kept)) + 0;
}

export function numberOf(value: Value | undefined): number | null {
  if (value instanceof Float) return value.value;
  return typeof value === "number" ? value : null;
}

function differs(computed: unknown, stated: Value | undefined, where: string): string {
  const follow = typeof computed === "object" && computed !== null ? "another form" : shown(computed);
  return `${where || "it"} does not follow from the counts: it is ${inWords(stated)}, but ${follow} follows`;
}

function inWords(value: Value | undefined): string {
  if (value === undefined) return "missing";
  if (value instanceof Float) return String(value.value);
  return Array.isArray(value) ? "a list" : isMembers(value) ? "an object" : shown(value);
}

/** Return which members of an object are missing or too many; it may have those that are `allowed` too. */
export function oddMembers(
  stated: object,
  needed: readonly string[],
  allowed: readonly string[] = [],
): string | null {
  const missing = needed.find((name) => !Object.hasOwn(stated, name));
  if (missing !== undefined) return `the member ${missing} is missing`;
  const more = Object.keys(stated).find((name) => !needed.includes(name) && !allowed.includes(name));
  return more === undefined ? null : `the member ${shown(more)} is one too many`;
}

/** Return what is wrong with the form of rows that are not made again: numbers, errors, the order of ends. */
export function oddNumbers(stated: Value, where = ""): string | null {
  if (Array.isArray(stated)) {
    for (const [place, each] of stated.entries()) {
      const found = oddNumbers(each, `${where}[${place}]`);
      if (found !== null) return found;
    }
    return null;
  }
  if (!isMembers(stated)) return null;
  for (const [name, value] of Object.entries(stated)) {
    const found = oddNumbers(value, where === "" ? name : `${where}.${name}`);
    if (found !== null) return found;
  }
  return isRow(stated) ? oddRow(stated, where) : null;
}

function oddRow(row: { [name: string]: Value }, where: string): string | null {
  for (const name of [...IN_ONE_UNIT, CHANCE]) {
    const given = Object.hasOwn(row, name) && !(name === "standard_error" && row[name] === null);
    if (given && numberOf(row[name]) === null)
      return `${where}.${name} is ${inWords(row[name])}, and no number`;
  }
  if ((numberOf(row["standard_error"]) ?? 0) < 0) return `${where}.standard_error is negative`;
  for (const [low, high] of ENDS) {
    const [lower, upper] = [numberOf(row[low]), numberOf(row[high])];
    if (lower !== null && upper !== null && lower > upper) return `${where}.${low} is above ${high}`;
  }
  return null;
}
