/** Intervals of a ratio of two estimates by Fieller's method (`queries/estimation/ratios.py`). */

import { halfWidth, type Interval, nearHalfWidth } from "./rows.js";

const STEPS = 32;
const HALVINGS = 40;

type Parabola = readonly [number, number, number];

export interface Line {
  readonly total: number;
  readonly people: number;
  readonly value: number;
  readonly variance: Parabola;
  readonly reach: number;
  readonly span: readonly [number, number];
}

export function parabola(places: readonly [number, number, number], values: readonly number[]): Parabola {
  const [x, y, z] = places;
  const [f, g, h] = values as [number, number, number];
  const [first, second] = [(g - f) / (y - x), (h - g) / (z - y)];
  const c = (second - first) / (z - x);
  const b = first - c * (x + y);
  return [f - x * (b + c * x), b, c];
}

function fits(line: Line, ratio: number, z: number): boolean {
  const [a, b, c] = line.variance;
  const error = Math.sqrt(Math.max(0, a + ratio * (b + ratio * c)));
  return Math.abs(line.total - ratio * line.people) <= nearHalfWidth(z, error, line.reach);
}

/** Return the least interval with all ratios that fit; if none does, the estimate alone. */
export function lineInterval(line: Line): Interval {
  return (rate) => {
    const [first, last] = line.span;
    const z = halfWidth(rate);
    const steps = Array.from({ length: STEPS }, (_, step) => first + ((last - first) * step) / STEPS);
    const tried = [...new Set([line.value, ...steps, last])].sort((one, other) => one - other);
    const fitting = tried.map((ratio) => fits(line, ratio, z));
    const [low, high] = [fitting.indexOf(true), fitting.lastIndexOf(true)];
    if (low < 0) return [line.value, line.value];
    return [
      low === 0 ? tried[0]! : edge(line, tried[low]!, tried[low - 1]!, z),
      high === tried.length - 1 ? tried.at(-1)! : edge(line, tried[high]!, tried[high + 1]!, z),
    ];
  };
}

/** Return a ratio outside of the set, next to its edge between the two. */
function edge(line: Line, inside: number, outside: number, z: number): number {
  for (let halving = 0; halving < HALVINGS; halving++) {
    const middle = (inside + outside) / 2;
    if (fits(line, middle, z)) inside = middle;
    else outside = middle;
  }
  return outside;
}
