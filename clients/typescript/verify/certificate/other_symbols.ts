/** The sum S of what all symbols but two tell beside noise, in whole numbers alone.
 *
 * With w the table of a law, l is w_(c−1)/w_c for a count c of one symbol, with chance w_c. δ is Σ f(S) for an f ≥
 * 0 that is convex and falls. So δ is not below its own value if a value of l is split between two so that its mean
 * stays, if one is moved down, and if a mass is rounded up. From below, a count tells only whether it is above the
 * middle: each half has the mean of its l, rounded up. Masses are rounded up there too, and `excess` is subtracted.
 *
 * All l but 0 are on a lattice: base, base + step, … A sum of others of which `zeros` are 0 is a whole number
 * then: (others − zeros)·base + place·step. */

/** A table's numbers add up to 2^128. */
export const TABLE_BITS = 128n;
/** Sums are whole numbers over 2^96. */
export const SUM_BITS = 96n;
/** Masses are whole numbers over 2^192. */
export const MASS_BITS = 192n;

const WHOLE = 1n << MASS_BITS;
const FINER = MASS_BITS - TABLE_BITS;
/** The most that is cut from each end of a sum. */
const CUT = 1n << (MASS_BITS - 90n);
/** The most mass of counts whose l is below the lattice, and of those above it if the report is their symbol. */
const OUTSIDE = 1n << (TABLE_BITS - 40n);
/** The most steps of a lattice. */
const FINEST = 512;
/** So many other symbols need no finer lattice than more of them do. */
const MANY = 500;
/** The most counts of 0 that are told apart: of a law that hides somebody they are rare. */
const MOST_ZEROS = 64;

/** Values of S by rising size, each with its mass. */
export type Sums = readonly { readonly at: bigint; readonly mass: bigint }[];

/** S from above and from below; the masses from below are too large by `excess` at most. */
export interface OtherSymbols {
  readonly spread: Sums;
  readonly gathered: Sums;
  readonly excess: bigint;
}

/** Masses of lowest, lowest + 1, … steps, and what was cut. */
interface Masses {
  readonly lowest: number;
  readonly masses: readonly bigint[];
  readonly floor: bigint;
}

interface Lattice {
  readonly base: bigint;
  readonly step: bigint;
  readonly one: Masses;
  readonly zero: bigint;
}

/** Return the law of S, on about `most` values at most. */
export function otherSymbols(table: readonly bigint[], others: number, most: number): OtherSymbols {
  if (others === 0) {
    const none = [{ at: 0n, mass: WHOLE }];
    return { spread: none, gathered: none, excess: 0n };
  }
  const above = listed(latticeOf(table, others), others);
  const below = listed(halvesOf(table), others);
  const spread = [{ at: 0n, mass: above.floor }, ...split(above.sums, most)];
  // More counts of 0 than are told apart have weights that add up to much more than 1: S = 0 is then a closer spread.
  const isFar = total(spread.map((each) => each.mass)) > 2n * WHOLE;
  return {
    spread: isFar ? [{ at: 0n, mass: WHOLE }] : spread,
    gathered: gathered(below.sums, Math.ceil(below.sums.length / most)),
    excess: total(below.sums.map((each) => each.mass)) + below.floor - WHOLE,
  };
}

/** Return a product of two masses as a mass, rounded up. */
function up(product: bigint): bigint {
  return -(-product >> MASS_BITS);
}

function total(masses: readonly bigint[]): bigint {
  return masses.reduce((sum, mass) => sum + mass, 0n);
}

/** Return all sums that are not cut off, and the mass of those that are; rounded up. */
function listed(lattice: Lattice, others: number): { readonly sums: Sums; readonly floor: bigint } {
  // Each weight is C(others, zeros)·zero^zeros: no less than the chance of so many zeros or more.
  const weights = [WHOLE];
  while (weights.length <= others && weights.length <= MOST_ZEROS && weights.at(-1)! > CUT) {
    const zeros = weights.length;
    weights.push(-(-up(weights.at(-1)! * lattice.zero) * BigInt(others - zeros + 1) / BigInt(zeros)) + 1n);
  }
  const beyond = weights.at(-1)! <= CUT || weights.length > MOST_ZEROS ? weights.pop()! : 0n;
  let floor = beyond < WHOLE ? beyond : WHOLE;
  const sums = new Map<bigint, bigint>();
  let found = power(lattice.one, others - weights.length + 1);
  for (let zeros = weights.length - 1; zeros >= 0; zeros--) {
    const weight = weights[zeros]!;
    floor += up(weight * found.floor);
    const least = BigInt(others - zeros) * lattice.base;
    found.masses.forEach((mass, place) => {
      const at = least + BigInt(found.lowest + place) * lattice.step;
      sums.set(at, (sums.get(at) ?? 0n) + up(weight * mass));
    });
    if (zeros > 0) found = product(found, lattice.one);
  }
  const rising = [...sums].map(([at, mass]) => ({ at, mass }));
  return { sums: rising.sort((one, other) => (one.at < other.at ? -1 : 1)), floor };
}

function power(one: Masses, times: number): Masses {
  let found: Masses = { lowest: 0, masses: [WHOLE], floor: 0n };
  for (const digit of times.toString(2)) {
    found = product(found, found);
    if (digit === "1") found = product(found, one);
  }
  return found;
}

/** Return the masses of a sum, rounded up; both ends of it are cut. */
function product(one: Masses, other: Masses): Masses {
  const masses = multiplied(one.masses, other.masses).map(up);
  let floor = up(one.floor * (total(other.masses) + other.floor) + total(one.masses) * other.floor);
  let [first, last] = [0, masses.length];
  for (let cut = 0n; first < last - 1 && cut + masses[first]! <= CUT; first++) {
    cut += masses[first]!;
    floor += masses[first]!;
  }
  for (let cut = 0n; first < last - 1 && cut + masses[last - 1]! <= CUT; last--) {
    cut += masses[last - 1]!;
    floor += masses[last - 1]!;
  }
  return { lowest: one.lowest + other.lowest + first, masses: masses.slice(first, last), floor };
}

/** Return the product of two polynomials: one product of two long numbers, in which each coefficient has its digits. */
function multiplied(one: readonly bigint[], other: readonly bigint[]): bigint[] {
  // A sum of up to 2^32 products of masses of up to 2^194 each.
  const digits = Number(2n * MASS_BITS + 36n) / 4;
  const joined = (masses: readonly bigint[]): bigint =>
    BigInt(`0x${masses.map((mass) => mass.toString(16).padStart(digits, "0")).join("")}`);
  const places = one.length + other.length - 1;
  const product = (joined(one) * joined(other)).toString(16).padStart(places * digits, "0");
  return Array.from({ length: places }, (_, place) =>
    BigInt(`0x${product.slice(place * digits, (place + 1) * digits)}`),
  );
}

/** Return l of one symbol on the coarsest lattice that adds little to its variance, the fewer others the less. */
function latticeOf(table: readonly bigint[], others: number): Lattice {
  const counts = table.map((q, count) => ({ p: count > 0 ? table[count - 1]! : 0n, q }));
  counts.sort((one, other) => {
    const [left, right] = [one.p * other.q, other.p * one.q];
    return left < right ? -1 : left > right ? 1 : 0;
  });
  let [low, high] = [1, counts.length - 1];
  for (let mass = counts[1]!.q; low < high && mass <= OUTSIDE; mass += counts[low]!.q) low += 1;
  for (let mass = counts[high]!.p; low < high && mass <= OUTSIDE; mass += counts[high]!.p) high -= 1;
  const base = (counts[low]!.p << SUM_BITS) / counts[low]!.q;
  const width = -((-counts[high]!.p << SUM_BITS) / counts[high]!.q) + 1n - base;
  const step = width / BigInt(stepsOf(counts, base, width, Math.min(1, others / MANY))) + 1n;
  const steps = Number(width / step) + 1;
  const masses = new Array<bigint>(steps + 1).fill(0n);
  let zero = 0n;
  for (const { p, q } of counts) {
    const value = (p << SUM_BITS) / q;
    const place = Number((value - base) / step);
    if (value < base) zero += q << FINER;
    else if (place >= steps) masses[steps]! += q << FINER;
    else {
      // How far q·l is above that of the place below it.
      const above = (((p << SUM_BITS) - q * (base + BigInt(place) * step)) << FINER) / step;
      masses[place]! += (q << FINER) - above;
      masses[place + 1]! += above + 1n;
    }
  }
  return { base, step, one: { lowest: 0, masses, floor: 0n }, zero };
}

/** Return how many steps add this share of a hundredth of the variance of l, or of 10⁻⁵.
 *
 * Doubles only choose where a lattice is. */
function stepsOf(
  counts: readonly { readonly p: bigint; readonly q: bigint }[],
  base: bigint,
  width: bigint,
  share: number,
): number {
  const values = counts.map(({ p, q }) => ({
    mass: Number(q) / 2 ** Number(TABLE_BITS),
    value: Number((p << SUM_BITS) / q - base) / Number(width),
  }));
  const wide = Number(width) / 2 ** Number(SUM_BITS);
  const mean = (1 - Number(base) / 2 ** Number(SUM_BITS)) / wide;
  const variance = values.reduce((sum, { mass, value }) => sum + mass * (value - mean) ** 2, 0);
  let steps = 1;
  for (; steps < FINEST; steps *= 2) {
    const added = values.reduce((sum, { mass, value }) => {
      const at = Math.min(1, Math.max(0, value)) * steps;
      return sum + mass * (at - Math.floor(at)) * (1 - at + Math.floor(at));
    }, 0);
    if (added / steps ** 2 <= share * (variance / 100 + 1e-5 / wide ** 2)) break;
  }
  return steps;
}

/** Return the mean of l up to the middle, and beyond it, both rounded up, as a lattice of one step. */
function halvesOf(table: readonly bigint[]): Lattice {
  const middle = (table.length + 1) / 2;
  const [low, high] = [total(table.slice(0, middle)), total(table.slice(middle))];
  const base = (total(table.slice(0, middle - 1)) << SUM_BITS) / low + 1n;
  const step = (total(table.slice(middle - 1, -1)) << SUM_BITS) / high + 1n - base;
  return { base, step, one: { lowest: 0, masses: [low << FINER, high << FINER], floor: 0n }, zero: 0n };
}

/** Return fewer values if there are more than `most`: those between are split between two so that their mean stays.
 *
 * They are finest at small sums, which tell. */
function split(sums: Sums, most: number): Sums {
  if (sums.length <= most) return sums;
  let [first, last] = [0, sums.length - 1];
  const [nearest, farthest] = [WHOLE >> 70n, WHOLE >> 12n];
  for (let below = sums[0]!.mass; first < last && below < nearest; below += sums[first]!.mass) first += 1;
  for (let above = sums[last]!.mass; first < last && above < farthest; above += sums[last]!.mass) last -= 1;
  const [low, high] = [sums[first]!.at, sums[last]!.at];
  const inner = Array.from(
    { length: most - 2 },
    (_, place) => low + ((high - low) * BigInt(place)) / BigInt(most - 3),
  );
  const knots = [...new Set([sums[0]!.at, ...inner, sums.at(-1)!.at])];
  const masses = knots.map(() => 0n);
  let place = 0;
  for (const { at, mass } of sums) {
    while (place + 2 < knots.length && knots[place + 1]! <= at) place += 1;
    const above = (mass * (at - knots[place]!)) / (knots[place + 1]! - knots[place]!);
    masses[place]! += mass - above;
    masses[place + 1]! += above + 1n;
  }
  return knots.map((at, index) => ({ at, mass: masses[index]! }));
}

/** Return so many neighbors as one, with their mean, rounded up. */
function gathered(sums: Sums, together: number): Sums {
  return Array.from({ length: Math.ceil(sums.length / together) }, (_, place) => {
    const part = sums.slice(place * together, (place + 1) * together);
    const mass = total(part.map((each) => each.mass));
    return { at: total(part.map((each) => each.at * each.mass)) / mass + 1n, mass };
  });
}
