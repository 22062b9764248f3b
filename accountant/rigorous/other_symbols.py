"""Encloses the law of S, what the symbols that are neither answer tell, from a table of whole numbers alone.

Others' reports are known. With w_z = 2^128·P[z], a count c of one symbol has chance w_(c−1) if the victim's report is
that symbol, and w_c if not; l_c is the first by the second. S is the sum of l over the other k − 2 symbols, if the
report is none of them. δ is Σ f(S) for a function f ≥ 0 that is convex and falls (`rigorous.noise`). So nothing here
lowers δ:

* a value is split between two of a lattice so that its mean stays (a *spread*; sums of spreads are spreads),
* a value is moved down, as those below the lattice are moved to 0,
* a mass is rounded up, and what is cut off a sum is laid at 0.

All but l = 0 share a lattice base, base + step, …: those of a geometric law are its ends. A sum with z zeros is then
(others − z)·base + g·step, an exact whole number. If there are too many sums, they are spread between fewer.

From below, each count tells only whether it is above the middle: then l is its mean there, and f is not above (Jensen).
So each half is one value, and sums are on a lattice again. They are *gathered*: all of a cell have their mean. Masses
are rounded up here too. f is at most 1, so this adds at most what the masses have too much (`excess`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import comb

from flint import fmpz_poly

from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, NoiseLaw

SUM_BITS = 96
"""Sums are whole numbers over 2^96."""

MASS_BITS = 192
"""Masses are whole numbers over 2^192."""

_CUT = 1 << (MASS_BITS - 90)
"""What is cut from each end of a sum, at most."""

_OUTSIDE = 1 << (TABLE_BITS - 40)
"""Mass of counts whose l is below the lattice, and mass under report x of those above it, at most."""

_FINEST = 512
"""Most steps of a lattice."""

_MANY = 500
"""So many other symbols need no finer lattice than more of them do."""

_MOST_ZEROS = 64
"""Most counts of 0 that are told apart: of a law that hides somebody they are rare."""

Sums = list[tuple[int, int]]
"""Values of S in units of 2^−SUM_BITS, rising, each with its mass in units of 2^−MASS_BITS."""


@dataclass(frozen=True)
class SumEnds:
    """S from above and from below; the masses of `gathered` are too large by `excess` at most, in their units."""

    spread: Sums
    gathered: Sums
    excess: int


@dataclass(frozen=True)
class _SumMasses:
    """Masses of lowest, lowest + 1, … steps, and what was cut, which counts as the least sum there is."""

    lowest: int
    masses: list[int]
    floor: int

    @property
    def total(self) -> int:
        return sum(self.masses) + self.floor


@dataclass(frozen=True)
class _RatioLattice:
    """l of one symbol: the lattice in units of 2^−SUM_BITS, masses on it, and that of 0."""

    base: int
    step: int
    one: _SumMasses
    zero: int


@lru_cache(maxsize=16)
def other_symbols(law: NoiseLaw, others: int, most: int) -> SumEnds:
    """Return the law of S of so many symbols, on about `most` values at most."""
    if not others:
        return SumEnds([(0, 1 << MASS_BITS)], [(0, 1 << MASS_BITS)], 0)
    listed, floor = _listed(_lattice(law, others), others)
    spread = [(0, floor), *_split(listed, _knots(listed, most))]
    # More counts of 0 than are told apart have weights that add up to much more than 1: S = 0 is then a closer spread.
    if sum(mass for _, mass in spread) > 2 << MASS_BITS:
        spread = [(0, 1 << MASS_BITS)]
    listed, cut = _listed(_halves(law), others)
    excess = max(0, sum(mass for _, mass in listed) + cut - (1 << MASS_BITS))
    return SumEnds(spread, _gathered(listed, _knots(listed, most)), excess)


def _listed(lattice: _RatioLattice, others: int) -> tuple[Sums, int]:
    """Return all sums that are not cut off, by rising value, and the mass of those that are; rounded up."""
    most_zeros = min(others, _zeros(lattice.zero, others))
    floor = min(1 << MASS_BITS, _weight(lattice.zero, others, most_zeros + 1))
    sums = dict[int, int]()
    for zeros, weight, found in _by_zeros(lattice, others, most_zeros):
        floor += _up(weight * found.floor)
        for place, mass in enumerate(found.masses, found.lowest):
            at = (others - zeros) * lattice.base + place * lattice.step
            sums[at] = sums.get(at, 0) + _up(weight * mass)
    return sorted(sums.items()), floor


def _halves(law: NoiseLaw) -> _RatioLattice:
    """Return the mean of l up to the middle, and beyond it, both rounded up, as a lattice of one step."""
    low, high = (slice(0, law.reach + 1), slice(law.reach + 1, None))
    masses, means = list[int](), list[int]()
    for half in (low, high):
        mass = sum(law.weights[half])
        masses.append(mass << (MASS_BITS - TABLE_BITS))
        means.append(-(-(sum((0, *law.weights[:-1])[half]) << SUM_BITS) // mass))
    return _RatioLattice(means[0], means[1] - means[0], _SumMasses(0, masses, 0), 0)


def _up(product: int) -> int:
    """Return a product of two masses as a mass, rounded up."""
    return -(-product >> MASS_BITS)


def _weight(zero: int, others: int, zeros: int) -> int:
    """Return C(others, zeros)·zero^zeros, rounded up: no less than the chance of so many zeros or more."""
    product: int = comb(others, zeros) * zero**zeros
    return -(-(product << MASS_BITS) >> (MASS_BITS * zeros))


def _zeros(zero: int, others: int) -> int:
    """Return the most zeros that are told apart."""
    return next((z for z in range(min(others, _MOST_ZEROS)) if _weight(zero, others, z + 1) <= _CUT), _MOST_ZEROS)


def _by_zeros(lattice: _RatioLattice, others: int, most: int) -> Iterator[tuple[int, int, _SumMasses]]:
    """Yield each number of zeros from the most down, the weight of them, and the masses of all other symbols."""
    found = _power(lattice.one, others - most)
    for zeros in range(most, -1, -1):
        yield zeros, _weight(lattice.zero, others, zeros), found
        if zeros:
            found = _product(found, lattice.one)


def _power(one: _SumMasses, times: int) -> _SumMasses:
    found = _SumMasses(0, [1 << MASS_BITS], 0)
    for digit in f"{times:b}":
        found = _product(found, found)
        if digit == "1":
            found = _product(found, one)
    return found


def _product(one: _SumMasses, other: _SumMasses) -> _SumMasses:
    """Return the masses of a sum, rounded up; both ends of it are cut."""
    masses = [_up(int(each)) for each in (fmpz_poly(one.masses) * fmpz_poly(other.masses)).coeffs()]
    floor = _up(one.floor * other.total + (one.total - one.floor) * other.floor)
    first, last = 0, len(masses)
    cut = 0
    while first < last - 1 and cut + masses[first] <= _CUT:
        cut, first = cut + masses[first], first + 1
    floor, cut = floor + cut, 0
    while first < last - 1 and cut + masses[last - 1] <= _CUT:
        cut, last = cut + masses[last - 1], last - 1
    return _SumMasses(one.lowest + other.lowest + first, masses[first:last], floor + cut)


def _lattice(law: NoiseLaw, others: int) -> _RatioLattice:
    """Return l of one symbol on the coarsest lattice that adds little to its variance, the fewer others the less."""
    counts = list(zip((0, *law.weights[:-1]), law.weights, strict=True))
    # By rising l; floats only choose where the lattice is.
    counts.sort(key=lambda each: each[0] / each[1])
    low, high = 1, len(counts) - 1
    mass = counts[1][1]
    while low < high and mass <= _OUTSIDE:
        low, mass = low + 1, mass + counts[low + 1][1]
    mass = counts[high][0]
    while low < high and mass <= _OUTSIDE:
        high, mass = high - 1, mass + counts[high - 1][0]
    base = (counts[low][0] << SUM_BITS) // counts[low][1]
    # Counts of nearly one ratio may be sorted wrongly, and below the lattice they would count as 0.
    base -= base >> 64
    width = -(-(counts[high][0] << SUM_BITS) // counts[high][1]) - base
    step = -(-width // _steps(counts, base, width, min(1.0, others / _MANY)))
    return _on_lattice(counts, base, max(1, step), -(-width // max(1, step)))


def _steps(counts: list[tuple[int, int]], base: int, width: int, share: float) -> int:
    """Return how many steps add this share of a hundredth of the variance of l, or of 10⁻⁵."""
    values = [(q / 2**TABLE_BITS, p / q) for p, q in counts]
    variance = sum(mass * (value - 1) ** 2 for mass, value in values)
    low, wide = base / 2**SUM_BITS, width / 2**SUM_BITS
    steps = 1
    while steps < _FINEST:
        size = wide / steps
        places = [(mass, min(steps, max(0.0, (value - low) / size))) for mass, value in values] if size else []
        if sum(mass * (at % 1) * (1 - at % 1) for mass, at in places) * size**2 <= share * (variance / 100 + 1e-5):
            break
        steps *= 2
    return steps


def _on_lattice(counts: list[tuple[int, int]], base: int, step: int, steps: int) -> _RatioLattice:
    finer = MASS_BITS - TABLE_BITS
    masses, zero = [0] * (steps + 1), 0
    for p, q in counts:
        place = ((p << SUM_BITS) // q - base) // step
        if place < 0:
            zero += q << finer
        elif place >= steps:
            masses[steps] += q << finer
        else:
            # In units of 2^−(SUM_BITS + TABLE_BITS): how far q·l is above that of the place below it.
            up = (((p << SUM_BITS) - q * (base + place * step)) << finer) // step
            masses[place] += (q << finer) - up
            masses[place + 1] += up + 1
    return _RatioLattice(base, step, _SumMasses(0, masses, 0), zero)


def _knots(listed: Sums, most: int) -> list[int]:
    """Return the values that others are spread between: all if they are few; else finest at small sums, which tell."""
    if len(listed) <= most:
        return [at for at, _ in listed]
    first, last, below, above = 0, len(listed) - 1, 0, 0
    while first < last and (below + listed[first][1]) >> (MASS_BITS - 70) == 0:
        below, first = below + listed[first][1], first + 1
    while first < last and (above + listed[last][1]) >> (MASS_BITS - 12) == 0:
        above, last = above + listed[last][1], last - 1
    low, high = listed[first][0], listed[last][0]
    inner = {low + (high - low) * place // (most - 3) for place in range(most - 2)}
    return sorted(inner | {listed[0][0], listed[-1][0]})


def _split(listed: Sums, knots: list[int]) -> Sums:
    """Return the masses at the knots, each split between two so that its mean stays; rounded up."""
    found = dict.fromkeys(knots, 0)
    for at, mass in listed:
        place = bisect_right(knots, at) - 1
        if knots[place] == at:
            found[at] += mass
            continue
        up = mass * (at - knots[place]) // (knots[place + 1] - knots[place])
        found[knots[place]] += mass - up
        found[knots[place + 1]] += up + 1
    return list(found.items())


def _gathered(listed: Sums, knots: list[int]) -> Sums:
    """Return the mass and the mean of all sums from one knot to the next, the mean rounded up."""
    found, place = list[tuple[int, int]](), 0
    for _, end in pairwise([*knots, knots[-1] + 1]):
        mass = moment = 0
        while place < len(listed) and listed[place][0] < end:
            mass, moment, place = mass + listed[place][1], moment + listed[place][0] * listed[place][1], place + 1
        if mass:
            found.append((-(-moment // mass), mass))
    return found
