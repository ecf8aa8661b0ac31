"""`iso.nbuffer` and `iso.Executor` that are tuned: the same bytes, configurations as values, reports and refusals."""

from __future__ import annotations

import io
import os
import re
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import isochrony as iso
from isochrony import Configuration, OptionError
from isochrony.cli.top import describe
from isochrony.running.status_files import PoolStatus, running_plans, status_folder
from isochrony.tuning import TuningDecision
from isochrony.tuning.configuration import TRIAL_OUTCOMES
from isochrony.tuning.pools import PoolTuningRequest
from numbered import RECORD, numbered, numbers
from tuning_reports import check_decisions


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
    check_decisions(report)
    for decision in tuning.decisions:
        if decision.outcome != "load_changed":
            workers = decision.candidate.workers
            assert f" {workers} worker{'s' if workers > 1 else ''}, buffers of " in str(decision)
        for word in ("thread", "link", "samples/s", "replica"):
            assert word not in str(decision)


def test_every_outcome_has_words_of_its_own() -> None:
    one = Configuration(workers=1, buffer_bytes=65536)
    request = PoolTuningRequest("change", has_buffers=True, states=("reading", "executing", "writing"))
    decisions = [TuningDecision(1.0, outcome, one, one, "more work", None, None, (), "") for outcome in TRIAL_OUTCOMES]
    texts = {str(request._worded(decision)) for decision in decisions}
    assert len(texts) == len(TRIAL_OUTCOMES)
    assert all(text.startswith("at 1.00 s: ") and "more work" in text for text in texts)
    assert sum(" 1 worker, buffers of 65.5 kB" in text for text in texts) == len(TRIAL_OUTCOMES) - 1


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
    check_decisions(report)
    for decision in tuning.decisions:
        assert "buffers" not in str(decision).partition("(")[0]
    one = replace(configuration, workers=1)
    report = sleepers(20, tune=one).run()
    assert [worker.tasklets for worker in report.workers] == [20, 0, 0, 0]
    assert report.tuning is not None
    assert report.tuning.configuration == one
    assert sleepers(3).run().tuning is None


@dataclass
class SeenRuns:
    """What another process would see of the runs of this one, at each look."""

    states: list[dict[str, Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def look(self) -> None:
        (state,) = running_plans()
        if state["window"]["elapsed_s"]:
            self.states.append(state)
            self.texts.append(describe(state))


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SeenRuns:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(PoolStatus, "INTERVAL_S", 0.05)
    return SeenRuns()


@pytest.mark.parametrize("progress", [False, True])
def test_top_shows_a_tuned_stream_while_it_runs(seen: SeenRuns, progress: bool) -> None:
    calls = [0]

    def looking(record: memoryview) -> memoryview | None:
        calls[0] += 1
        if calls[0] % 500 == 0:
            seen.look()
        return third(record)

    source, drawn = numbered(10_000), []
    options: dict[str, Any] = {"progress": drawn.append, "progress_every_s": 0} if progress else {}
    iso.nbuffer(source, looking, bytearray(), stride=RECORD, memory="64kB", tune=True, **options)
    last = seen.states[-1]
    assert (last["kind"], last["unit"], last["pid"]) == ("byte stream", "bytes", os.getpid())
    assert (last["total"], bool(drawn)) == (len(source), progress)
    dones = [state["done"] for state in seen.states]
    assert dones == sorted(dones) and 0 < dones[-1] <= len(source)
    rate = last["window"]["delivered"] / last["window"]["elapsed_s"]
    head = f"process {os.getpid()}, byte stream: {last['elapsed_s']:.1f} s, {last['done']:.4g} bytes, "
    assert seen.texts[-1].startswith(head) and f" of {len(source):.4g}, {rate:.3g} bytes/s, " in seen.texts[-1]
    assert running_plans() == []


def test_top_shows_a_tuned_executor_and_its_given_configuration(seen: SeenRuns) -> None:
    done = [0]

    def work(_: Any, __: Any) -> None:
        time.sleep(0.02)
        done[0] += 1
        if done[0] > 30:
            seen.look()

    def run(tune: Any) -> iso.Executor:
        done[0] = 0
        executor = iso.Executor(tune=tune, workers="auto")
        for number in range(60):
            executor.add(iso.Tasklet(work, name=str(number), on_workers="inline"))
        tuning = executor.run().tuning
        assert tuning is not None
        return tuning.configuration

    configuration = run("recommend")
    assert {(one["kind"], one["unit"], one["total"]) for one in seen.states} == {("tasklets", "tasklets", 60)}
    assert all(0 < one["done"] <= 60 for one in seen.states)
    assert "its report will have the trials of tuning" in seen.texts[-1]
    run(replace(configuration, workers=1))
    assert seen.texts[-1].splitlines()[1] == "  1 worker"
    assert running_plans() == []


def test_top_says_for_how_long_a_run_has_made_no_progress(seen: SeenRuns) -> None:
    """As an executor whose first tasklet takes an hour."""
    with PoolStatus("tasklets", ""):
        (path,) = status_folder().iterdir()
        began = time.time() - 3600
        os.utime(path, (began, began))
        (state,) = running_plans()
        assert state["elapsed_s"] == pytest.approx(3600, abs=60)
        assert re.fullmatch(rf"process {os.getpid()}, tasklets: 36\d\d\.\d s, no progress yet", describe(state))


def test_a_run_that_fails_or_is_not_tuned_leaves_no_state(seen: SeenRuns) -> None:
    def fails(record: memoryview) -> memoryview:
        assert [state["kind"] for state in running_plans()] == ["byte stream"]
        raise ValueError("no")

    with pytest.raises(iso.NBufferError, match="no"):
        iso.nbuffer(numbered(100), fails, stride=RECORD, tune=True)
    assert running_plans() == []

    def looks(record: memoryview) -> None:
        assert running_plans() == []

    assert iso.nbuffer(numbered(100), looks, stride=RECORD).records == 100


def test_a_state_that_cannot_be_written_does_not_end_the_run(seen: SeenRuns, tmp_path: Path) -> None:
    status_folder().mkdir(mode=0o700)
    status_folder().chmod(0o777)
    assert iso.nbuffer(numbered(100), third, stride=RECORD, tune=True).records == 100
