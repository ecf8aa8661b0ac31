"""Tuned runs over a feed that arrives at its own pace."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: no stages, and nothing to tune")

RATE = 40_000


def filtered(source: Any) -> Any:
    plan = iso.scan(source, rate=RATE) if isinstance(source, np.ndarray) else iso.scan(source, segment=500)
    for cutoff_hz in (9000.0, 6000.0, 3000.0):
        plan = plan.iir("butter", band="lowpass", cutoff_hz=cutoff_hz, order=8)
    return plan


@pytest.mark.parametrize("latency", [None, 0.02])
def test_a_tuned_feed_keeps_up_with_no_more_threads_or_links(latency: float | None, tmp_path: Path) -> None:
    """The recording is sent in eight seconds, in segments of 12.5 ms: windows of a tenth of a second."""
    recording = np.random.default_rng(3).normal(0, 100, 8 * RATE).astype("i2")
    listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=RATE, silence=10)
    sending = iso.scan(recording, rate=RATE, segment=500).send(listener.address, speed=1)
    thread = threading.Thread(target=sending.run, daemon=True)
    thread.start()
    with iso.open(tmp_path / "got.iso", "a") as got:
        options: Any = {} if latency is None else {"latency": latency}
        report = filtered(listener).sink(got, "filtered").run(tune=True, **options).report
        thread.join()
        np.testing.assert_array_equal(got["filtered"][:].values(), filtered(recording).collect())
    tuning = report.tuning
    assert tuning is not None
    assert tuning.configuration is not None
    assert tuning.windows > 20
    # Something may have kept the machine busy for a moment; a feed that is kept up with has no reason for more.
    if any(decision.outcome in {"load_changed", "applied"} for decision in tuning.decisions):
        return
    assert tuning.bottleneck == "the sources give no more: the plan keeps up"
    for decision in tuning.decisions:
        assert decision.at_s > 16 * 0.04, decision
        assert decision.candidate.workers <= decision.before.workers
        assert decision.candidate.link_bytes == decision.before.link_bytes
        assert decision.predicted_gain is None


def decisions_of_a_light_feed(folder: Path) -> tuple[Any, ...]:
    recording = np.random.default_rng(3).normal(0, 100, 10 * RATE).astype("i2")
    listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=RATE, silence=10)
    thread = threading.Thread(
        target=iso.scan(recording, rate=RATE, segment=250).send(listener.address, speed=1).run, daemon=True
    )
    thread.start()
    with iso.open(folder / "got.iso", "a") as got:
        report = filtered(listener).sink(got, "filtered").run(tune=True).report
    thread.join()
    assert report.tuning is not None
    return report.tuning.decisions


@pytest.mark.alone
def test_a_tuned_feed_that_has_little_to_do_loses_threads(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Two threads that wait for a feed cost more processor time than one: the tuner finds out, late.

    A feed that is not kept up with for a moment, since something else keeps the machine busy, is sent once more.
    """
    for _ in range(2):
        decisions = decisions_of_a_light_feed(tmp_path_factory.mktemp("fed"))
        if not any(decision.outcome in {"load_changed", "applied"} for decision in decisions):
            break
    trials = [decision for decision in decisions if decision.gain is not None]
    assert trials
    assert trials[0].at_s > 16 * 0.04
    assert trials[0].candidate.workers < trials[0].before.workers
