"""Builds finite laws of known randomizers, with a few rows for any number of categories.

Each function takes e^ε_local as an exact fraction, `ratio`: the one that a client draws from. Three inputs represent
all inputs: two neighbors, and a third one that the others may have. One output represents all outputs whose
probabilities under these three inputs and the blanket are proportional (`Finite`).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import perm, prod

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.finite import BITS_LIMIT, Finite
from hubbub.accountant.mechanisms.krr import KRR, check_categories

Pattern = tuple[int, ...]
"""For each listed input, whether an output counts for it."""


def simplest(finite: Finite) -> KRR | Finite:
    """Return the same randomizer as `KRR` if it is one: kRR's own pairs are tighter (k = 2) or faster.

    Dummies of kRR are uniform reports, so a law with other dummies is returned unchanged.
    """
    rows, size = finite.law, len(finite.law)
    uniform = (Fraction(1, size),) * size
    if finite.blanket is not None or finite.neighbors is not None or finite.dummy not in (None, uniform):
        return finite
    own, other = max(rows[0]), min(rows[0])
    alike = len(rows[0]) == size and all(sorted(row) == [other] * (size - 1) + [own] for row in rows)
    # Every input has its own output, unless all rows are equal.
    if not alike or (own > other and len({row.index(own) for row in rows}) < size):
        return finite
    return KRR(size, size * other)


def subset_selection(categories: int, size: int, ratio: Fraction) -> Finite:
    """Subset selection (Ye and Barg, 2018): a subset of `size` categories, with the true one `ratio` times as likely.

    A subset y has the probability ratio/Z if x is in it, else 1/Z; the blanket is 1/Z, as no subset has every category.
    Raises AccountingError unless 0 < size < categories.
    """
    check_categories(categories)
    if not 0 < size < categories:
        raise AccountingError(
            f"size is {shown(size)}; give a number from 1 to {categories - 1}, for a subset of the categories"
        )
    listed = min(3, categories)
    scale = Fraction(categories) / (_checked_ratio(ratio) * size + categories - size)

    def share(pattern: Pattern) -> Fraction:
        # C(k − 3, size − inside)/C(k, size) as a product of small numbers: the number of subsets may be huge.
        inside = sum(pattern)
        ways = perm(size, inside) * perm(categories - size, listed - inside)
        return scale * Fraction(ways, perm(categories, listed))

    return _counting(listed, share, ratio)


def hadamard_response(categories: int, ratio: Fraction) -> Finite:
    """Hadamard response (Acharya, Sun and Zhang, 2019): one of K places, `ratio` times as likely if x's row has a 1.

    K is the least power of two above `categories`; the category x has row x + 1 of the Hadamard matrix of order K, and
    no category has row 0. Any two rows agree and differ in quarters of the places. Row 3 is the product of rows 1 and
    2, which is the best row that the others can have. Place 0 alone has a 1 in all rows, since rows 1, 2, 4, … are
    among them: at that place the blanket is every input's law.
    """
    check_categories(categories)
    places, listed = 1 << categories.bit_length(), min(3, categories)
    unit = 2 / (places * (_checked_ratio(ratio) + 1))

    def share(pattern: Pattern) -> Fraction:
        if listed == 3 and sum(pattern) % 2 == 0:
            return Fraction(0)
        return unit * (Fraction(places, 4) - all(pattern))

    return _counting(listed, share, ratio, ratio * unit)


def optimized_unary(categories: int, ratio: Fraction) -> Finite:
    """Optimized unary encoding (Wang and others, 2017): the true bit is fair, others are 1 with probability 1/(E + 1).

    `RAPPOR` has the same law. All inputs give a report of all ones with the same probability; if that probability has
    too many digits, the report is counted with the others, which is safe.
    """
    check_categories(categories)
    other, listed = 1 / (_checked_ratio(ratio) + 1), min(3, categories)
    exact = categories * other.denominator.bit_length() <= BITS_LIMIT // 2
    all_ones = other**categories if exact else Fraction(0)
    # If some bit is 0, m(y) = (1/2)/(1 − q)·P[all bits of chance q]; if the true bit is 1 the probability is
    # E = (1 − q)/q times that.
    scale = Fraction(1, 2) / (1 - other)

    def share(pattern: Pattern) -> Fraction:
        bits = prod((other if bit else 1 - other for bit in pattern), start=Fraction(1))
        return scale * (bits - (all_ones if all(pattern) else 0))

    return _counting(listed, share, ratio, ratio * scale * all_ones)


def local_hashing(values: int, ratio: Fraction, categories: int = 2**31) -> Finite:
    """Local hashing (Wang and others, 2017): each client's own public hash function, then kRR on its `values` values.

    The function is drawn uniformly from a family in which any three categories have independent uniform hashes (two,
    for the upper bound). A report counts for the categories that have its hash. Optimized (OLH): values = ratio + 1.
    """
    check_categories(values)
    check_categories(categories)
    listed, each = min(3, categories), Fraction(1, values)
    unit = values / (_checked_ratio(ratio) + values - 1)

    def share(pattern: Pattern) -> Fraction:
        return unit * prod((each if bit else 1 - each for bit in pattern), start=Fraction(1))

    return _counting(listed, share, ratio)


def _counting(
    listed: int, share: Callable[[Pattern], Fraction], ratio: Fraction, common: Fraction = Fraction(0)
) -> Finite:
    """Return the law whose outputs count for some inputs; for these they are `ratio` times as likely.

    `share` is the blanket's mass of the outputs with a pattern. `common` is the mass of one more output, which has the
    same probability for all inputs.
    """
    patterns = [pattern for pattern in product((0, 1), repeat=listed) if share(pattern) > 0]
    shares = [share(pattern) for pattern in patterns]
    rows = [
        [mass * (ratio if pattern[x] else 1) for pattern, mass in zip(patterns, shares, strict=True)]
        for x in range(listed)
    ]
    more = [common] if common > 0 else []
    return Finite(tuple(tuple(row + more) for row in rows), tuple(shares + more))


def _checked_ratio(ratio: object) -> Fraction:
    if not isinstance(ratio, Fraction) or ratio < 1:
        raise AccountingError(
            f"ratio is {shown(ratio)}; give an exact Fraction of at least 1, which is e^epsilon_local of the law that "
            "clients draw from"
        )
    return ratio
