"""Ends a round that cannot be delivered, such as one whose list is damaged on disk, for the operator."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing

from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import RoundState
from hubbub.protos.task.task import Task
from hubbub.service.receiving.key_check import KeyDamaged, check_key
from hubbub.shuffler.records import FINAL, Round
from hubbub.shuffler.release.delivery import Undeliverable, check_signed
from hubbub.shuffler.stores.protocol import ShufflerStore
from hubbub.shuffler.tasks import Tasks

REASON = "its operator gave it up"
"""The reason that `hubbub status` shows for such a round."""

_NAMED = re.compile(r"([0-9a-f]{8,64}):([0-9]{1,10})")


async def abandon_round(
    opened: Callable[[], ShufflerStore], named: str, tasks: Tasks, *, though_whole: bool = False
) -> Round:
    """Erase a round as EXPIRED in the store that `opened` opens, while no shuffler runs; return the round.

    `named` is "TASK:ROUND": at least eight hex digits of the beginning of the task's id, and the round's number. The
    round's charge stays, and a signed release stays in the release chain. A batch that the analyzer has whole, or has
    counted, stays counted there. A round without damage here is erased only if `though_whole`.

    Raises:
        HubbubError: if `named` has another form, or the round is unknown, over, counted already or not damaged.
    """
    found = _NAMED.fullmatch(named)
    if found is None:
        raise HubbubError(
            f"--give-up is {named!r:.80}; give TASK:ROUND, that is at least the first 8 digits of the task's id, as "
            "`hubbub status` shows them, and the round's number"
        )
    with closing(opened()) as store:
        rounds = [each for each in await store.rounds() if each.task_id.hex().startswith(found[1])]
        if len({each.task_id for each in rounds}) > 1:
            raise HubbubError(f"several tasks have an id that begins with {found[1]}; give more characters of it")
        round_ = next((each for each in rounds if each.number == int(found[2])), None)
        if round_ is None:
            raise HubbubError(
                f"there is no round {found[2]} of a task whose id begins with {found[1]}; name a round of it that "
                "this shuffler began"
            )
        if round_.state in FINAL or round_.state is RoundState.RELEASED:
            raise HubbubError(f"round {round_.number} is {round_.state.shown} already; nothing was changed")
        if not though_whole and not await _is_damaged(store, tasks.get(round_.task_id), round_):
            # An open round's submissions are not counted before the cut.
            answers = round_.submissions or await store.submissions(round_)
            raise HubbubError(
                f"round {round_.number} was not given up: it has no known damage in this store, and its "
                f"{answers} submissions would be lost. Start the shuffler to go on with it; if it still "
                "cannot be delivered, for example if the analyzer's key is damaged, add --though-whole"
            )
        return await store.erase(round_, RoundState.EXPIRED, REASON)


async def _is_damaged(store: ShufflerStore, task: Task | None, round_: Round) -> bool:
    """Return whether a list of a round cannot be delivered, or an open round's key is damaged."""
    if task is None:
        return False  # without its task there is nothing to compare with
    try:
        if round_.state is RoundState.OPEN and round_.keys is not None:
            check_key(round_.keys.private_key, round_.keys.key_set.shuffler, task.hpke)
        if round_.state is RoundState.MIXED:
            for batch in await store.batches(round_):
                if not batch.committed:
                    await check_signed(store, round_, task, batch)
    except (KeyDamaged, Undeliverable):
        return True
    return False
