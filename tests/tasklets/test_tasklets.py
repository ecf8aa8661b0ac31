"""Tasklets: what is run, in which order, what is kept, and what is refused."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony.errors.native import OptionError, StoreError, TaskletError, TaskletValueError

PART, PARTS = 1000, 12
N = PART * PARTS


@pytest.fixture
def water(tmp_path: Path) -> Any:
    rng = np.random.default_rng(3)
    with iso.open(tmp_path / "water.iso", "x") as store:
        for name in "ab":
            store.create(name, dtype="i2", rate=100).append(rng.integers(-500, 500, N).astype("i2"))
        store.create("sum", dtype="f8", rate=100).reserve(N)
        store.commit()
        yield store


def parts() -> list[slice]:
    return [slice(start, start + PART) for start in range(0, N, PART)]


def adder(store: iso.Store, **options: Any) -> tuple[iso.Executor, list[iso.Signal]]:
    """Squares of both signals by way of scratch, added."""
    executor = iso.Executor(**options)
    room = [store.scratch(dtype="f8", rate=100) for _ in "ab"]

    def square(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        outputs[0][:] = np.square(np.asarray(inputs[0], "f8"))

    def add(inputs: list[iso.Selection], outputs: list[iso.Output]) -> float:
        np.add(*inputs, out=outputs[0].array)
        return float(outputs[0].array[0])

    for scratch, name in zip(room, "ab", strict=True):
        scratch.reserve(N)
        executor.add(
            *(iso.Tasklet(square, [store[name][at]], [scratch[at]], name=f"{name} {at.start}") for at in parts())
        )
    executor.add(
        *(iso.Tasklet(add, [one[at] for one in room], [store["sum"][at]], name=f"add {at.start}") for at in parts())
    )
    return executor, room


def sums(store: iso.Store) -> Any:
    return np.square(store["a"].values()) + np.square(store["b"].values())


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("scratch", [2 * 8 * PART, "1GiB"])
def test_any_workers_and_any_budget_give_what_numpy_gives(water: iso.Store, workers: int, scratch: int | str) -> None:
    executor, room = adder(water, workers=workers, scratch=scratch)
    report = executor.run()
    np.testing.assert_array_equal(water["sum"].values(), sums(water))
    assert {one.state for one in report.tasklets} == {"done"}
    assert sorted(one.place for one in report.tasklets if one.place is not None) == list(range(3 * PARTS))
    assert sum(one.tasklets for one in report.workers) == 3 * PARTS
    assert report.values == {f"add {at.start}": sums(water)[at.start] for at in parts()}
    assert 2 * 8 * PART <= report.peak_scratch_bytes <= (2 * 8 * PART if isinstance(scratch, int) else 1 << 30)
    assert [one.sample_count for one in room] == [0, 0]
    # Others see it: it is committed.
    np.testing.assert_array_equal(iso.open(water.path)["sum"].values(), sums(water))
    assert f"{3 * PARTS} done" in str(report)


def test_explain_says_the_order_and_why(water: iso.Store) -> None:
    executor, _ = adder(water, scratch=2 * 8 * PART)
    lines = executor.explain().splitlines()
    assert lines[0] == "36 of 36 tasklets on 1 worker(s), by place of the primary input on the disk"
    assert lines[1] == "scratch: 16000 bytes at least, 16000 at most"
    names = [line.split(":")[0].split(maxsplit=1)[1] for line in lines[2:5]]
    assert names == ["a 0", "b 0", "add 0"]
    assert 'needed by "add 0"' in lines[3]
    assert 'frees scratch of "a 0"' in lines[4]
    assert lines[-1].startswith("36 Python function(s) run in threads of this process")


def test_a_budget_that_is_too_small_is_refused(water: iso.Store) -> None:
    executor, _ = adder(water, scratch=2 * 8 * PART - 1)
    with pytest.raises(TaskletValueError, match="give scratch=16000 or more") as raised:
        executor.run()
    assert raised.value.code == "scratch_too_small"
    assert raised.value.report is None


def test_a_plan_is_a_tasklet(water: iso.Store) -> None:
    sig, power = water["a"], water.create("power", dtype="f8", rate=100)
    power.reserve(N // PART * (PART // 2 + 1))
    executor = iso.Executor(workers=2)
    for k, at in enumerate(parts()):
        plan = iso.scan(sig[at]).rewindow(PART, anchor="range").power()
        out = power[k * (PART // 2 + 1) : (k + 1) * (PART // 2 + 1)]
        executor.add(iso.Tasklet(plan, [sig[at]], [out], name=f"power {k}"))
        executor.add(iso.Tasklet(iso.scan(sig[at]).count(), [sig[at]], name=f"count {k}"))
    executor.add(iso.Tasklet(iso.scan(sig).rewindow(N // 2).stats("mean"), [sig[:]], name="stats"))
    report = executor.run()
    expected = iso.scan(sig).rewindow(PART).power().collect()
    np.testing.assert_array_equal(power.counts[:], expected.ravel())
    assert report.values["count 3"] == PART
    np.testing.assert_allclose(report.values["stats"]["mean"], sig.values().reshape(2, -1).mean(axis=1))
    assert "25 plan(s) run natively" in executor.explain(resume=True)
    wrong = iso.Executor()
    wrong.add(iso.Tasklet(iso.scan(sig[:10]), [sig[:10]], [water["sum"][:10]], name="raw"))
    with pytest.raises(TaskletError, match="gives 10 values of int16, but its output is 10 of float64"):
        wrong.run()


def test_plans_hand_over_by_scratch(water: iso.Store) -> None:
    scratch, out = water.scratch(dtype="f8", rate=100), water["sum"]
    scratch.reserve(N)
    executor = iso.Executor(workers=2, scratch=2 * 8 * PART)
    for at in parts():
        halved = iso.scan(water["a"][at]).map(lambda s: s / 2)
        raised = iso.scan(scratch[at]).map(lambda s: s + 1)
        executor.add(iso.Tasklet(raised, [scratch[at]], [out[at]], name=f"raise {at.start}"))
        executor.add(iso.Tasklet(halved, [water["a"][at]], [scratch[at]], name=f"halve {at.start}"))
    assert executor.run().peak_scratch_bytes <= 2 * 8 * PART
    np.testing.assert_array_equal(out.values(), water["a"].values() / 2 + 1)


def test_a_failure_names_whom_it_takes_along_and_resume_does_the_rest(water: iso.Store) -> None:
    out, broken, ran = water["sum"], [True], []

    def work(inputs: list[iso.Selection], outputs: list[iso.Output]) -> list[int]:
        start = inputs[0].ranges[0][0]
        ran.append(start)
        if broken[0] and start == 2 * PART:
            raise ZeroDivisionError("no luck")
        outputs[0][:] = np.asarray(inputs[0])
        return [start]

    executor = iso.Executor(workers=2)
    executor.add(*(iso.Tasklet(work, [water["a"][at]], [out[at]], name=f"copy {at.start}") for at in parts()))
    executor.add(iso.Tasklet(lambda i, o: float(np.asarray(i[0]).sum()), [out[:]], name="total"))
    with pytest.raises(
        TaskletError, match=r'"copy 2000" failed: ZeroDivisionError: no luck; 1 tasklet that depends'
    ) as raised:
        executor.run()
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    states = {one.name: one for one in raised.value.report.tasklets}
    assert states["copy 2000"].state == "failed"
    assert states["total"].why == 'it needs "copy 2000", which failed'
    assert [(gap.start, gap.length) for gap in out.gaps] == [(2 * PART, PART)]
    broken[0] = False
    ran.clear()
    report = executor.run(resume=True)
    assert ran == [2 * PART]
    assert report.notes == ("11 of 13 tasklets are kept from an earlier run",)
    assert report.values["copy 0"] == [0]
    assert report.values["total"] == water["a"].values().sum()
    np.testing.assert_array_equal(out.values(), water["a"].values())


def test_outputs_are_written_whole_and_without_loss(water: iso.Store) -> None:
    out = water["sum"][:PART]

    def refused(write: Any, match: str) -> None:
        executor = iso.Executor()
        executor.add(iso.Tasklet(lambda _, outputs: write(outputs[0]), outputs=[out], name="t"))
        with pytest.raises(TaskletError, match=match):
            executor.run()
        assert water["sum"].sample_count == 0

    def set_to(key: Any, value: Any) -> Any:
        return lambda output: output.__setitem__(key, value)

    refused(lambda output: None, "without writing samples 0..1000 of sum")
    refused(set_to(slice(0, 400), 1.0), "without writing samples 400..1000")
    refused(set_to(slice(None), np.zeros(PART, "c16")), "holds float64 samples, got complex128")
    refused(set_to(slice(None), np.zeros(3)), "takes 1000 samples, got 3")
    refused(set_to(slice(None, None, 2), 1.0), "give a slice without a step")
    refused(set_to(5, 1.0), "give a slice")
    executor = iso.Executor()

    def in_parts(_: Any, outputs: list[iso.Output]) -> None:
        assert len(outputs[0]) == PART
        outputs[0][500:] = 2
        outputs[0][:600] = np.ones(600, "f4")

    executor.add(iso.Tasklet(in_parts, outputs=[out]))
    executor.run()
    np.testing.assert_array_equal(water["sum"][:PART].values(), np.repeat([1.0, 2.0], [600, 400]))


def test_what_cannot_be_run_is_refused_with_names(water: iso.Store) -> None:
    scratch = water.scratch(dtype="f8", rate=100)
    scratch.reserve(N)

    def nothing(_: Any, __: Any) -> None:
        raise AssertionError("nothing is run")

    def refused(code: str, *tasklets: iso.Tasklet, **options: Any) -> str:
        executor = iso.Executor()
        executor.add(*tasklets)
        with pytest.raises(TaskletValueError) as raised:
            executor.run(**options)
        assert raised.value.code == code
        return str(raised.value)

    one = iso.Tasklet(nothing, [scratch[:10]], [water["sum"][:10]], name="one")
    two = iso.Tasklet(nothing, [water["sum"][5:10]], [scratch[5:20]], name="two")
    assert '"one" needs "two" needs "one"' in refused(
        "tasklet_cycle", one, two, iso.Tasklet(nothing, [], [scratch[:5]])
    )
    assert "0..10 of scratch 0" in refused("nobody_writes", one)
    both = [iso.Tasklet(nothing, [], [water["sum"][at : at + 10]], name=f"at {at}") for at in (0, 9)]
    assert "9..10 of sum" in refused("two_writers", *both)
    assert "first at index 0" in refused("output_occupied", iso.Tasklet(nothing, [], [water["a"][:10]]))
    assert "unseal" in refused("not_writable", sealed(water, nothing))
    refused("unknown_tasklet", iso.Tasklet(nothing, after=["nobody"]))
    with pytest.raises(OptionError, match="give a function"):
        iso.Tasklet(3)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="give ranges of signals"):
        iso.Tasklet(nothing, [water["a"]])  # type: ignore[list-item]
    with pytest.raises(OptionError, match="needs inputs=; give a selection of each signal"):
        iso.Tasklet(iso.scan(water["a"]))
    with pytest.raises(OptionError, match=r"scans a\[5:20\], but its inputs= leave out 12:20"):
        iso.Tasklet(iso.scan(water["a"][5:20]), [water["b"][:20], water["a"][8:12], water["a"][:9]])
    with pytest.raises(OptionError, match="state the whole range that the plan scans"):
        iso.Tasklet(iso.scan(water["a"]).count(), [water["b"][:]])
    with pytest.raises(OptionError, match="order="):
        iso.Executor(order="any")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="workers="):
        iso.Executor(workers=0)
    with pytest.raises(OptionError, match="scratch="):
        iso.Executor(scratch="much")


def sealed(store: iso.Store, work: Any) -> iso.Tasklet:
    done = store.create("sealed", dtype="f8", rate=1)
    done.append(np.zeros(10))
    store.commit()
    done.seal()
    return iso.Tasklet(work, [], [done[:5]])


def test_without_a_terminal_progress_draws_nothing(water: iso.Store, capsys: pytest.CaptureFixture[str]) -> None:
    executor, _ = adder(water, workers=2)
    assert {one.state for one in executor.run(progress=True).tasklets} == {"done"}
    assert capsys.readouterr() == ("", "")


def test_what_comes_behind_a_failure_is_not_begun_if_that_is_wanted(water: iso.Store) -> None:
    def work(inputs: list[iso.Selection], _: list[iso.Output]) -> None:
        if inputs[0].ranges[0][0] == 2 * PART:
            raise ValueError("no luck")

    executor = iso.Executor(keep_going=False)
    executor.add(*(iso.Tasklet(work, [water["a"][at]]) for at in parts()))
    with pytest.raises(TaskletError, match="no luck") as raised:
        executor.run()
    assert [one.state for one in raised.value.report.tasklets] == ["done"] * 2 + ["failed"] + ["stopped"] * (PARTS - 3)


def test_reserved_samples_are_filled_once(water: iso.Store) -> None:
    out = water["sum"]
    out.fill(10, [1, 2, 3])
    with pytest.raises(FileExistsError, match="12 already holds"):
        out.fill(12, [4.0])
    with pytest.raises(IndexError):
        out.fill(N, [1.0])
    with pytest.raises(StoreError, match="open it with mode"):
        iso.open(water.path)["sum"].fill(0, [1.0])
    assert out.sample_count == 3


def test_scratch_is_drawn_from_its_samples(water: iso.Store) -> None:
    scratch = water.scratch(dtype="f8", rate=100)
    scratch.reserve(4000)
    samples = np.random.default_rng(5).standard_normal(4000)
    for start in (2000, 0, 3000, 1000):
        scratch.fill(start, samples[start : start + 1000])
    view = scratch.view(slice(0, 4000), pixels=4)
    np.testing.assert_array_equal(view.min, samples.reshape(4, -1).min(axis=1))
    scratch.write(10, [99.0])
    assert scratch.view(slice(0, 4000), pixels=4).max[0] == 99


def test_prefetch_asks_for_samples_and_not_for_gaps(water: iso.Store) -> None:
    expected = 2 * N if sys.platform == "linux" else 0
    assert iso.prefetch(water["a"]) == iso.prefetch(water["a"][:]) == expected
    assert iso.prefetch(water["sum"]) == 0
    executor, _ = adder(water, prefetch=0)
    assert executor.run().prefetched_bytes == 0


def test_the_prefetcher_reads_ahead_and_stays_within_its_bytes(water: iso.Store) -> None:
    # Nothing is begun behind the first tasklet, so that all that is read ahead waits for somebody to use it.
    executor = iso.Executor(prefetch=3 * 2 * PART, keep_going=False)
    pause = [0.3]

    def slow(_: Any, __: Any) -> None:
        time.sleep(pause[0])
        raise ValueError("no luck")

    executor.add(*(iso.Tasklet(slow, [water["a"][at]], name=str(at.start)) for at in parts()))
    least = 2 * PART if sys.platform == "linux" else 0
    while True:
        with pytest.raises(TaskletError, match="no luck") as raised:
            executor.run()
        prefetched = raised.value.report.prefetched_bytes
        # Three behind the first, and the first itself if the prefetcher came before the worker.
        assert prefetched <= 4 * 2 * PART < 2 * N
        # On a machine that is busy its thread may come late.
        if prefetched >= least:
            break
        assert pause[0] < 20, "nothing is read ahead"
        pause[0] *= 4
