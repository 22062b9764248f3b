"""Randomize: k-ary randomized response with an exact rational γ (balle-2019, Alg. 1; sampled by integers alone).

With probability γ = w / 2³² the report is uniform on all symbols, else it is the truth. A 32-bit draw is compared with
w, and the uniform symbol is drawn by rejection: the law is exactly the one that the certificate is computed for. A
report is drawn once; whoever has to send it again sends the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.client.draws import DRAW_BYTES, Random, draw, uniform
from hubbub.protos.task import Task


def randomize(symbol: int, symbols: int, gamma: int, random: Random, width: int = DRAW_BYTES) -> int:
    """Return the report for `symbol` in range(symbols): uniform with probability `gamma` / 256 ** `width`, else itself.

    For every pair of inputs and every output, the probabilities' ratio is at most e^epsilon_local, with
    epsilon_local = ln(1 + k (1 - γ) / γ) and k = `symbols`.
    """
    if draw(random, width) < gamma:
        return uniform(symbols, random, width)
    return symbol


def randomize_all(task: Task, symbols: Sequence[int], random: Random) -> tuple[int, ...]:
    """Return one report per query, each drawn by itself; `symbols` are in the task's order."""
    pairs = zip(task.queries, symbols, strict=True)
    return tuple(randomize(symbol, query.symbols, query.gamma, random) for query, symbol in pairs)
