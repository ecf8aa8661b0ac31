"""`iso.nbuffer` and `iso.Executor` that are tuned: the same bytes, configurations as values, reports and refusals."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import isochrony as iso
from isochrony import Configuration, OptionError
from numbered import RECORD, numbered, numbers


def third(record: memoryview) -> memoryview | None:
    """Takes a while in which others run."""
    time.sleep(1e-4)
    return record if int(bytes(record)) % 3 == 0 else None


def tuned(tune: Any, records: int, **options: Any) -> tuple[iso.NBufferReport, bytes]:
    out = bytearray()
    # Of a reader nobody knows how much will come, so no run is too short.
    source = io.BytesIO(numbered(records))
    options = {"stride": RECORD, "order": "output", "memory": "64kB"} | options
    return iso.nbuffer(source, third, out, tune=tune, **options), bytes(out)


def test_output_is_the_same_while_workers_and_buffers_change() -> None:
    report, out = tuned(True, 60_000)
    assert numbers(out) == list(range(0, 60_000, 3))
    tuning = report.tuning
    assert tuning is not None
    assert tuning.windows > 4
    assert tuning.configuration is not None
    assert tuning.configuration.buffer_bytes > 0
    assert tuning.rate > 0
    for decision in tuning.decisions:
        assert decision.outcome in {"kept", "rejected", "undecided", "load_changed", "too_short"}
        assert f"tuning {decision}" in str(report)
        if decision.outcome != "load_changed":
            assert f" {decision.candidate.workers} workers, buffers of " in str(decision)
        for word in ("thread", "link", "samples/s", "replica"):
            assert word not in str(decision)


def test_a_configuration_of_n_buffering_is_saved_and_applied(tmp_path: Path) -> None:
    report, expected = tuned("recommend", 6000, memory="100MB")
    assert report.tuning is not None
    found = report.tuning.configuration
    assert found is not None
    assert (found.replicas, found.link_bytes) == ((), ())
    assert report.tuning.decisions == ()
    one = replace(found, workers=1, buffer_bytes=65536)
    one.save(tmp_path / "one.json")
    assert Configuration.load(tmp_path / "one.json") == one
    for tune in (one, tmp_path / "one.json"):
        report, out = tuned(tune, 6000, memory="100MB")
        assert out == expected
        assert report.buffer_bytes == 65536
        assert [worker.buffers > 0 for worker in report.workers].count(True) == 1
        assert report.tuning is not None
        assert report.tuning.configuration == one


def test_results_that_show_the_size_of_buffers_keep_it() -> None:
    def compressed(**options: Any) -> tuple[Any, bytes]:
        out = bytearray()
        report = iso.nbuffer(io.BytesIO(numbered(400_000)), "zstd:1", out, **options)
        return report, bytes(out)

    plain, expected = compressed()
    assert plain.tuning is None
    report, out = compressed(tune=True)
    assert out == expected
    assert report.tuning.configuration.buffer_bytes == plain.buffer_bytes
    smaller = Configuration(workers=1, buffer_bytes=plain.buffer_bytes // 2)
    with pytest.raises(OptionError, match=rf"buffers of {plain.buffer_bytes} bytes, which is what this run may have"):
        compressed(tune=smaller)
    batches: list[int] = []
    for tune in (False, True):
        source = io.BytesIO(numbered(50_000))
        iso.nbuffer(source, lambda view: batches.append(len(view)), stride=RECORD, batch=True, tune=tune)
    assert batches[: len(batches) // 2] == batches[len(batches) // 2 :]


def test_what_cannot_be_tuned_is_refused() -> None:
    with pytest.raises(OptionError, match="both workers= and buffer=, which are all that it could change"):
        tuned(True, 10, workers=2, buffer=4096)
    with pytest.raises(OptionError, match="tune=3 is refused; give True"):
        tuned(3, 10)
    with pytest.raises(OptionError, match=r"is not one of iso\.nbuffer; give what the report"):
        tuned(Configuration(workers=1, link_bytes=(65536,)), 10)
    with pytest.raises(OptionError, match=r"is not one of an iso\.Executor; give what the report"):
        iso.Executor(tune=Configuration(workers=1, buffer_bytes=65536))
    with pytest.raises(OptionError, match='give workers="auto", or leave out one of them'):
        iso.Executor(workers=2, tune=True)
    with pytest.raises(OptionError, match="not on a cluster; leave out tune= or on="):
        iso.Executor(tune=True, on=object())
    report, _ = tuned("recommend", 100)
    assert report.tuning is not None
    found = report.tuning.configuration
    assert found is not None
    with pytest.raises(OptionError, match="was made for another plan"):
        tuned(found, 10, stride=2 * RECORD)
    with pytest.raises(OptionError, match="was made on another machine"):
        tuned(replace(found, machine="an abacus, 1 cores"), 10)


def sleepers(count: int, **options: Any) -> iso.Executor:
    executor = iso.Executor(**options)
    for number in range(count):
        executor.add(iso.Tasklet(lambda _, __: time.sleep(2e-3), name=str(number)))
    return executor


def test_an_executor_reports_what_it_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    # Sleeping tasklets need no cores.
    monkeypatch.setattr("isochrony.running.options.available_cores", lambda: 4)
    report = sleepers(1500, tune=True).run()
    assert {one.state for one in report.tasklets} == {"done"}
    assert len(report.workers) == 4
    tuning = report.tuning
    assert tuning is not None
    assert tuning.windows > 4
    configuration = tuning.configuration
    assert configuration is not None
    assert (configuration.replicas, configuration.link_bytes, configuration.buffer_bytes) == ((), (), 0)
    for decision in tuning.decisions:
        assert f"tuning {decision}" in str(report)
        assert "buffers" not in str(decision).partition("(")[0]
    one = replace(configuration, workers=1)
    report = sleepers(20, tune=one).run()
    assert [worker.tasklets for worker in report.workers] == [20, 0, 0, 0]
    assert report.tuning is not None
    assert report.tuning.configuration == one
    assert sleepers(3).run().tuning is None
