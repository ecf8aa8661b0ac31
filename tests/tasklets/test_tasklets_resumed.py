"""Tasklets that were killed or interrupted: what was finished is there, and the rest is done later."""

from __future__ import annotations

import os
import signal as signals
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals")

PROGRAM = """
    import itertools, os, sys, time
    import numpy as np, isochrony as iso

    PART, PARTS = 500, 40
    store = iso.open(sys.argv[1], "r+")
    log = open(sys.argv[1] + ".log", "a", buffering=1)
    a, out, scratch = store["a"], store["out"], store.scratch(dtype="f8", rate=100)
    scratch.reserve(PART * PARTS)

    # So many of them; whoever comes then waits, so that the parent is in time however busy the machine is.
    limit, count, go = int(os.environ.get("LIMIT", 1000)), itertools.count(), sys.argv[1] + ".go"

    def square(inputs, outputs):
        log.write("square\\n")
        time.sleep(0.002)
        while next(count) >= limit:
            time.sleep(0.05)
            if os.path.exists(go):
                break
        outputs[0][:] = np.square(np.asarray(inputs[0], "f8"))

    def negate(inputs, outputs):
        log.write("negate\\n")
        outputs[0][:] = -np.asarray(inputs[0])
        return 7

    executor = iso.Executor(workers=2, scratch=8 * 8 * PART, keep_every_s=0.02)
    for start in range(0, PART * PARTS, PART):
        at = slice(start, start + PART)
        executor.add(iso.Tasklet(square, [a[at]], [scratch[at]]), iso.Tasklet(negate, [scratch[at]], [out[at]]))
"""


def prepared(path: Path) -> np.ndarray[Any, Any]:
    samples = np.arange(500 * 40) % 173
    with iso.open(path, "x") as store:
        store.create("a", dtype="f8", rate=100).append(samples)
        store.create("out", dtype="f8", rate=100).reserve(len(samples))
    return -np.square(samples).astype("f8")


def begun(path: Path) -> int:
    log = path.with_name(path.name + ".log")
    return log.read_text().count("\n") if log.exists() else 0


def child(path: Path, rest: str, limit: int = 1000) -> subprocess.Popen[str]:
    code = textwrap.dedent(PROGRAM) + textwrap.dedent(rest)
    known = {**os.environ, "LIMIT": str(limit)}
    return subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True, env=known)


def test_killed_at_any_time_it_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "x.iso"
    expected = prepared(path)
    kills = 0
    for life in range(100):
        # Each child gets some tasklets further, however slow the machine is.
        until = begun(path) + 25 + life % 7
        process = child(path, "print(executor.run(resume=True))", limit=31 if life < 2 else 1000)
        while process.poll() is None and begun(path) < until:
            time.sleep(0.001)
        time.sleep(life % 5 * 0.004)
        process.kill()
        said, _ = process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signals.SIGKILL
        kills += 1
        # Recovery, and whole tasklets whenever they were committed.
        with iso.open(path, "r+") as store:
            assert all(gap.start % 500 == gap.length % 500 == 0 for gap in store["out"].gaps)
    else:
        pytest.fail("no child came to its end")
    assert kills >= 2
    np.testing.assert_array_equal(iso.open(path)["out"].values(), expected)
    assert iso.verify(path)["damage"] == []
    process = child(path, "r = executor.run(resume=True); print(r.values['negate out[0:500]'], *r.notes)")
    said, _ = process.communicate()
    assert said.strip() == "7 80 of 80 tasklets are kept from an earlier run"


def test_an_interrupt_lets_what_runs_end_and_resume_does_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "x.iso"
    expected = prepared(path)
    process = child(
        path,
        """
        import signal
        def press(*_):
            open(go, "w").close()
            raise KeyboardInterrupt
        signal.signal(signal.SIGINT, press)
        try:
            executor.run()
        except KeyboardInterrupt:
            print("interrupted")
        """,
        limit=20,
    )
    while begun(path) < 20:
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signals.SIGINT)
    said, _ = process.communicate()
    assert said.strip() == "interrupted"
    assert begun(path) < 80
    done = iso.open(path)["out"].sample_count
    assert done % 500 == 0
    process = child(path, "report = executor.run(resume=True); print(sum(t.state == 'kept' for t in report.tasklets))")
    said, _ = process.communicate()
    assert int(said) >= done // 500
    np.testing.assert_array_equal(iso.open(path)["out"].values(), expected)
