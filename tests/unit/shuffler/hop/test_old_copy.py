"""An old copy of a hop's store is put back: the next party refuses its second list by name, and keeps the first."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

from hubbub.protos.refusals import Reason, Refusal
from support.hop_chain import Chain


async def test_a_hop_that_forgot_its_list_is_refused_and_nothing_counts_twice(tmp_path: Path) -> None:
    """It permutes anew, so its record has another digest than the one that was announced before."""
    with contextlib.closing(Chain(tmp_path / "chain")) as chain:
        await chain.start()
        # So many that another permutation is never the same by chance: of six, one in 720 is.
        sent = {query: await chain.seal([0, 1, 2] * 6, query) for query in range(2)}
        deliveries = await chain.deliveries(sent)
        chain.close()
        shutil.copytree(chain.at("hop-2"), tmp_path / "yesterday")
        await chain.start()
        counted = {query: await chain.deliver(delivery, sent[query]) for query, delivery in deliveries.items()}
        chain.close()
        shutil.rmtree(chain.at("hop-2"))
        shutil.copytree(tmp_path / "yesterday", chain.at("hop-2"))
        await chain.start()
        for query, delivery in deliveries.items():
            for _ in range(2):  # the shuffler tries again, and is told the same
                with pytest.raises(Refusal) as refused:
                    await chain.deliver(delivery, sent[query])
                assert refused.value.reason is Reason.DIGEST_DIFFERS
            stored = await chain.analyzer_store.batch(delivery.batch)
            assert stored is not None
            assert stored.committed == counted[query]
        assert {task: len(charges) for task, charges in (await chain.analyzer_store.ledgers()).items()} == {
            chain.task.id: 2
        }
