"""A short run of what `make soak` does for an hour."""

import json
import os
import subprocess
import sys
from pathlib import Path


def test_a_feed_with_all_faults_loses_nothing_in_silence_and_keeps_its_memory() -> None:
    # In a process of its own: what earlier tests left behind is not the feed's memory.
    seconds = float(os.environ.get("ISOCHRONY_SOAK_SECONDS", "15"))
    program = f"import json, soak; print(json.dumps(soak.soak({seconds})))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=seconds + 240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["latency_ms"]["median"] < 5, found
