"""A master and a worker on loopback, that know a secret, mix and open for a service."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from hubbub.analyzer.opening import counted
from hubbub.protos.sealing.envelope import Destination, Sealer
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.service.processes.opening_pool import OpeningJob
from hubbub.service.settings import SparkSettings
from hubbub.service.spark.errors import SparkError
from hubbub.service.spark.opening import opened_on
from hubbub.service.spark.session import check_version, given, session, workplace
from hubbub.shuffler.mix.spark import keys_at, mixed_on, order_of
from support.krr_queries import INNER_BYTES, report
from support.samples import HALF
from support.spark import LEAKY, NEEDS_JAVA, holding

DESTINATION = Destination(bytes(32), 0, bytes(32))
RANDOMIZER = KRandomizedResponse(5, HALF)
COUNT = 300


@contextmanager
def said(program: str, conf: Path, words: list[str], what: str) -> Iterator[str]:
    """Run one of Spark's programs; give what stands in its log behind `what`."""
    import pyspark

    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = given({**os.environ, "SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": "127.0.0.1"})
    with subprocess.Popen(
        [spark_class, f"org.apache.spark.deploy.{program}", *words], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            found = (re.search(what, line) for line in process.stderr)
            yield next(match[1] for match in found if match)
        finally:
            process.terminate()
            process.stderr.read()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkSettings]:
    """Settings for a cluster of one worker with two cores; its secret is in a file of its configuration."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        "spark.authenticate true\nspark.authenticate.secret of-this-cluster\n"
        "spark.network.crypto.enabled true\nspark.network.crypto.cipher AES/GCM/NoPadding\n"
    )
    loopback = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with said("master.Master", conf, loopback, r"'sparkMaster' on port (\d+)") as port:
        master = f"spark://127.0.0.1:{port}"
        words = [*loopback, "--cores", "2", "--memory", "2g", "--work-dir", str(tmp_path / "work"), master]
        with said("worker.Worker", conf, words, r"Successfully registered with master (\S+)"):
            yield SparkSettings(
                master=master, minimum_envelopes=1, folder=tmp_path, configuration=conf, memory_mebibytes=512
            )


# simulation/test_on_spark.py mixes and opens on a local master.
@pytest.mark.exhaustive
@NEEDS_JAVA
@LEAKY
def test_a_cluster_that_knows_the_secret_mixes_and_opens(cluster: SparkSettings, tmp_path: Path) -> None:
    private, public = DEFAULT.generate_key()
    sealer = Sealer(DESTINATION, DEFAULT.generate_key()[1], public)
    rows = np.frombuffer(b"".join(sealer.inner(report(place % 5), 0) for place in range(COUNT)), dtype=np.uint8)
    column, job, secrets = (
        rows.reshape(-1, INNER_BYTES),
        OpeningJob(DESTINATION, private, 0, INNER_BYTES),
        list[bytes](),
    )

    def random(count: int) -> bytes:
        secrets.append(os.urandom(count))
        return secrets[-1]

    with workplace(cluster, tmp_path) as place, session(cluster, place) as begun:
        mixed = np.concatenate(list(mixed_on(begun, place, [column], INNER_BYTES, random).column()))
        opened = list(opened_on(begun, job, [mixed.tobytes()], functools.partial(counted, RANDOMIZER)))
        with pytest.raises(
            SparkError, match=r"have .*this service has 0\.0\.1\. Run pip install 'hubbub\[spark\]==0\.0\.1'"
        ):
            check_version(begun, "0.0.1")
        assert holding(tmp_path, [private, *secrets, rows[:INNER_BYTES].tobytes()]) == []
    order = order_of(keys_at(secrets[1], 0, COUNT))
    assert order is not None
    assert (mixed == column[order]).all()
    assert [(found.counts.tolist(), missed) for found, missed in opened if not isinstance(found, bytes)] == [
        ([COUNT // 5] * 5, 0)
    ]
