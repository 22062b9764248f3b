"""What the recorder hears, and that the way gets no longer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

LONGEST = {"device": (240, 45), "shuffler": (200, 49), "together": (412, 80)}
"""Most functions and files that one submission enters, by side: a few more than it does, as threads meet by chance."""

PROGRAM = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from calls import Recorder

recorder = Recorder()
recorder.start()
from hubbub.protos.task.schedule import forgotten_after
from hubbub.client.session.send_time import wait_until

async def twice():
    times = iter((0.0, 0.0, 3.0))
    await wait_until(2.0, lambda: next(times), asyncio.sleep)

asyncio.run(twice())
print([entry.function for entry in recorder.entries])
"""


def test_a_function_counts_when_it_begins_and_imports_do_not() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(HERE)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['wait_until']"


def test_one_submission_goes_no_longer_way() -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "calls.py"), "--json"], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    longer = {
        side: (each["functions"], each["files"])
        for side, each in found.items()
        if each["functions"] > LONGEST[side][0] or each["files"] > LONGEST[side][1]
    }
    assert longer == {}
    assert "Device.submit" in found["device"]["entered"]["client/device.py"]
    assert "AdmissionHandler.submit" in found["shuffler"]["entered"]["shuffler/admit/admission.py"]
