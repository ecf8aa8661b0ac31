"""Tasklets' memory: scratch that stays in it, blocks that are used again, functions that keep what they were given."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import isochrony as iso
from isochrony.errors.native import OptionError, RunError, StoreValueError, TaskletError, TaskletValueError

PART, PARTS = 4096, 8
N = PART * PARTS


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with iso.open(tmp_path / "ramp.iso", "x") as store:
        store.create("ramp", dtype="f4", rate=100).append(np.arange(N, dtype="f4"))
        store.create("out", dtype="f4", rate=100).reserve(N)
        store.commit()
        yield store


def parts() -> list[slice]:
    return [slice(start, start + PART) for start in range(0, N, PART)]


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def handed_over(store: iso.Store, **options: Any) -> tuple[list[int], list[int], iso.TaskletsReport]:
    """Twice each part, by way of scratch; addresses at which it was written and read."""
    written, read = {}, {}
    room = store.scratch(dtype="f4", rate=100)
    room.reserve(N)

    def twice(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        written[inputs[0].ranges[0][0]] = address(outputs[0].array)
        np.multiply(np.asarray(inputs[0]), 2, out=outputs[0].array)

    def copied(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        samples = np.asarray(inputs[0])
        assert not samples.flags.writeable
        read[inputs[0].ranges[0][0]] = address(samples)
        outputs[0][:] = samples

    executor = iso.Executor(**options)
    for at in parts():
        executor.add(iso.Tasklet(twice, [store["ramp"][at]], [room[at]]))
        executor.add(iso.Tasklet(copied, [room[at]], [store["out"][at]]))
    report = executor.run()
    np.testing.assert_array_equal(store["out"].values(), 2 * np.arange(N))
    starts = [at.start for at in parts()]
    return [written[start] for start in starts], [read[start] for start in starts], report


def test_scratch_in_memory_is_read_where_it_was_written_and_blocks_are_used_again(store: iso.Store) -> None:
    written, read, report = handed_over(store, scratch=2 * 4 * PART)
    assert written == read
    assert len(set(written)) < PARTS
    assert 4 * PART <= report.peak_scratch_bytes <= 2 * 4 * PART


@pytest.mark.parametrize("memory", [0, 4 * PART, "64kB"])
def test_beyond_its_memory_scratch_is_read_from_files_into_blocks_that_are_used_again(
    store: iso.Store, memory: int | str
) -> None:
    _, read, _ = handed_over(store, scratch="1MB", scratch_memory=memory, workers=2)
    assert len(set(read)) < PARTS


def test_memory_for_scratch_is_bytes_or_auto() -> None:
    for wrong in ("much", -1, True, None):
        with pytest.raises(OptionError, match=f'scratch_memory={wrong!r} is refused; .* from 0.*, or "auto"'):
            iso.Executor(scratch_memory=wrong)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="prefetch=-1 is refused; give a whole number of bytes, from 0"):
        iso.Executor(prefetch=-1)
    for none in (0, "0B"):
        iso.Executor(scratch_memory=none, prefetch=none)
    with pytest.raises(OptionError, match="scratch=0 is refused; give a whole number of bytes, from 1"):
        iso.Executor(scratch=0)


def test_who_keeps_an_output_changes_nothing_that_was_written(store: iso.Store) -> None:
    kept: list[Any] = []
    room = store.scratch(dtype="f4", rate=100)
    room.reserve(N)

    def fill(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        outputs[0][:] = np.asarray(inputs[0])
        kept.append(outputs[0].array[:10])

    def copied(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        for array in kept:
            array[:] = -1
        outputs[0][:] = np.asarray(inputs[0])

    executor = iso.Executor()
    for at in parts():
        executor.add(iso.Tasklet(fill, [store["ramp"][at]], [room[at]]))
        executor.add(iso.Tasklet(copied, [room[at]], [store["out"][at]]))
    executor.run()
    np.testing.assert_array_equal(store["out"].values(), np.arange(N))


@pytest.mark.parametrize("memory", ["auto", 0, "40kB"])
@pytest.mark.parametrize("workers", [1, 3])
def test_what_was_read_of_scratch_is_right_for_ever_in_memory_and_in_files(
    store: iso.Store, memory: int | str, workers: int
) -> None:
    room, kept = store.scratch(dtype="f4", rate=100), {}
    room.reserve(N)

    def fill(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        outputs[0][:] = np.asarray(inputs[0]) + 1

    def keep(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        (chosen,) = inputs
        (segment,) = chosen.segments
        whole = chosen.signal[chosen.ranges[0][0] : chosen.ranges[0][1]]
        scanned = iso.scan(whole).collect()
        kept[chosen.ranges[0][0]] = [np.asarray(chosen), chosen.counts, np.asarray(segment), np.asarray(whole), scanned]

    executor = iso.Executor(workers=workers, scratch=4 * 4 * PART, scratch_memory=memory)
    for at in parts():
        executor.add(iso.Tasklet(fill, [store["ramp"][at]], [room[at]]))
        executor.add(iso.Tasklet(keep, [room[at]], name=str(at.start)))
    executor.run()
    assert room.sample_count == 0
    for way in range(5):
        np.testing.assert_array_equal(np.concatenate([kept[start][way] for start in sorted(kept)]), np.arange(N) + 1)


@pytest.mark.parametrize("memory", ["auto", 0])
def test_scratch_that_is_free_again_says_so_and_gives_nobody_elses_samples(store: iso.Store, memory: int | str) -> None:
    room, kept = store.scratch(dtype="f4", rate=100), []
    room.reserve(N)
    everything = []

    def fill(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        outputs[0][:] = np.asarray(inputs[0])

    def keep(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        kept.extend([inputs[0], inputs[0].signal])
        # Not declared, and so not waited for: as it is while the function runs.
        everything.append(room[:PART])

    for run in range(2):
        executor = iso.Executor(scratch_memory=memory)
        for at in parts():
            executor.add(iso.Tasklet(fill, [store["ramp"][at]], [room[at]], name=f"fill {at.start}"))
        executor.add(iso.Tasklet(keep, [room[:PART]], [], name=f"keep {run}"))
        executor.add(iso.Tasklet(lambda *_: None, [room[PART:]], [], name="others"))
        # Of the first run's inputs nothing is read while others have taken their place, either.
        executor.add(iso.Tasklet(lambda *_: refused(kept), [room[:]], [], after=[f"keep {run}"], name="look"))
        executor.run()
    refused(kept)
    for late in everything:
        with pytest.raises(StoreValueError, match=r"samples 0:\d+ of scratch are gone, since scratch is freed"):
            np.asarray(late)


def refused(kept: list[Any]) -> None:
    assert kept
    for late in kept:
        chosen = late if isinstance(late, iso.Selection) else late[:PART]
        for read in (np.asarray, lambda one: one.values(), lambda one: one.segments):
            with pytest.raises(StoreValueError, match=r'of tasklet "keep \d" that is over, are gone.*copy'):
                read(chosen)
        # A plan does not take it for a signal without samples.
        with pytest.raises(RunError, match=r'of tasklet "keep \d" that is over, are gone'):
            iso.scan(late).count().collect()


def test_an_array_that_nobody_else_holds_becomes_the_output_and_any_other_is_copied(store: iso.Store) -> None:
    room, reused, moved = store.scratch(dtype="f4", rate=100), np.empty(PART, "f4"), {}
    room.reserve(N)

    def give(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        start = inputs[0].ranges[0][0]
        if start == 0:
            reused[:] = np.asarray(inputs[0])
            outputs[0].array = reused
        elif start == PART:
            outputs[0].array = np.asarray(inputs[0], "f4").tolist()
        elif start == 2 * PART:
            outputs[0].array = np.asarray(inputs[0])
        else:
            samples = np.asarray(inputs[0]) + 0
            moved[start] = address(samples)
            outputs[0].array = samples
            samples[0] = -start

    def take(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        start = inputs[0].ranges[0][0]
        if start == 0:
            # After `give` of the same part has returned; others run beside it.
            reused[:] = -1
        samples = np.asarray(inputs[0])
        assert moved.get(start, address(samples)) == address(samples)
        outputs[0].array = samples + 1

    executor = iso.Executor(workers=2)
    for at in parts():
        executor.add(iso.Tasklet(give, [store["ramp"][at]], [room[at]]))
        executor.add(iso.Tasklet(take, [room[at]], [store["out"][at]]))
    executor.run()
    expected = np.arange(N, dtype="f8") + 1
    expected[3 * PART :: PART] = 1 - np.arange(3 * PART, N, PART)
    np.testing.assert_array_equal(store["out"].values(), expected)
    assert reused.flags.writeable


def test_an_array_of_another_length_or_type_is_refused(store: iso.Store) -> None:
    for wrong, message in ((np.zeros(PART - 1, "f4"), "takes 4096 samples, got 4095"), (["a"] * PART, "out")):

        def give(_: list[iso.Selection], outputs: list[iso.Output], wrong: Any = wrong) -> None:
            outputs[0].array = wrong

        executor = iso.Executor()
        executor.add(iso.Tasklet(give, outputs=[store["out"][:PART]], name="give"))
        with pytest.raises(TaskletError, match=message):
            executor.run()


def test_an_output_is_written_before_its_function_returns(store: iso.Store) -> None:
    late: list[iso.Output] = []

    def fill(_: list[iso.Selection], outputs: list[iso.Output]) -> None:
        outputs[0][:] = 1
        late.extend(outputs)

    executor = iso.Executor()
    executor.add(iso.Tasklet(fill, outputs=[store["out"][:PART]], name="late"))
    executor.run()
    with pytest.raises(TaskletValueError, match='"late" was written after its function') as raised:
        late[0][:] = 2
    assert raised.value.code == "output_over"
    assert set(store["out"][:PART].values()) == {1}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_function_that_is_interrupted_ends_the_run_and_no_other_begins(store: iso.Store, workers: int) -> None:
    ran = []

    def work(inputs: list[iso.Selection], _: list[iso.Output]) -> None:
        start = inputs[0].ranges[0][0]
        ran.append(start)
        if start == 0:
            raise KeyboardInterrupt
        for _turn in range(200):
            # The others are at it still when the first has ended, but do not begin all.
            threading.Event().wait(0.001)

    executor = iso.Executor(workers=workers)
    executor.add(*(iso.Tasklet(work, [store["ramp"][at]], name=str(at.start)) for at in parts()))
    with pytest.raises(KeyboardInterrupt):
        executor.run()
    assert len(ran) < PARTS


def test_ctrl_c_reaches_the_function_of_one_worker_in_its_own_thread(store: iso.Store) -> None:
    seen = []

    def work(inputs: list[iso.Selection], _: list[iso.Output]) -> None:
        seen.append(threading.current_thread() is threading.main_thread())
        if inputs[0].ranges[0][0] == PART:
            signal.raise_signal(signal.SIGINT)
        sum(range(100))

    executor = iso.Executor()
    executor.add(*(iso.Tasklet(work, [store["ramp"][at]], name=str(at.start)) for at in parts()))
    with pytest.raises(KeyboardInterrupt):
        executor.run()
    assert seen == [True, True]


def test_a_failing_function_gives_its_memory_back(store: iso.Store) -> None:
    def fill(_: list[iso.Selection], outputs: list[iso.Output]) -> None:
        outputs[0].array[:] = 1
        raise ValueError("no luck")

    executor = iso.Executor()
    executor.add(*(iso.Tasklet(fill, outputs=[store["out"][at]]) for at in parts()))
    with pytest.raises(TaskletError, match="no luck"):
        executor.run()
    assert store["out"].sample_count == 0


def test_an_array_that_was_given_is_not_changed_by_what_is_written_afterwards(store: iso.Store) -> None:
    window = np.full(PART, 2, "f4")

    def weigh(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        outputs[0].array = window
        outputs[0].array *= np.asarray(inputs[0])
        outputs[0][:4] = -1
        assert set(outputs[0].array[:4]) == {-1}

    executor = iso.Executor()
    for at in parts():
        executor.add(iso.Tasklet(weigh, [store["ramp"][at]], [store["out"][at]]))
    executor.run()
    expected = 2 * np.arange(N, dtype="f4").reshape(PARTS, PART)
    expected[:, :4] = -1
    np.testing.assert_array_equal(store["out"].values(), expected.ravel())
    assert set(window) == {2}


def test_an_output_holds_zeros_where_nothing_was_written(store: iso.Store) -> None:
    def add(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        if inputs[0].ranges[0][0] >= 4 * PART:
            outputs[0][10:20] = 5
            outputs[0][15:30] = 5
        outputs[0].array[:] += np.asarray(inputs[0])

    executor = iso.Executor()
    for at in parts():
        executor.add(iso.Tasklet(add, [store["ramp"][at]], [store["out"][at]]))
    executor.run()
    expected = np.arange(N, dtype="f4").reshape(PARTS, PART)
    expected[4:, 10:30] += 5
    np.testing.assert_array_equal(store["out"].values(), expected.ravel())


class Named(NamedTuple):
    samples: Any


@dataclass(frozen=True)
class Held:
    samples: Any


@pytest.mark.parametrize("memory", ["auto", 0])
@pytest.mark.parametrize("kind", [Named, Held])
def test_what_is_returned_in_a_record_is_a_copy_wherever_scratch_lay(store: iso.Store, memory: Any, kind: Any) -> None:
    room = store.scratch(dtype="f4", rate=100)
    room.reserve(N)

    def fill(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
        outputs[0][:] = np.asarray(inputs[0])

    executor = iso.Executor(scratch=4 * PART, scratch_memory=memory)
    for k, at in enumerate(parts()):
        executor.add(iso.Tasklet(fill, [store["ramp"][at]], [room[at]]))
        executor.add(iso.Tasklet(lambda i, _: kind(np.asarray(i[0])), [room[at]], name=f"look {k}"))
    values = executor.run().values
    found = [values[f"look {k}"] for k in range(PARTS)]
    assert all(type(one) is kind for one in found)
    np.testing.assert_array_equal(np.concatenate([one.samples for one in found]), np.arange(N))


MANY = """
import sys, numpy as np, isochrony as iso
P, K = 1 << 17, 600
reused, kept = np.ones(P), []
def reuses(_, outputs): outputs[0].array = reused
def views(_, outputs): outputs[0].array = np.ones(P + 5)[5:]
def keeps(_, outputs):
    array = outputs[0].array
    array[:] = 1
    kept[:] = [array]
def resident(): return int(next(l for l in open("/proc/self/status") if l.startswith("VmRSS")).split()[1]) >> 10
with iso.open(sys.argv[1], "x") as store:
    room = store.scratch(dtype="f8", rate=100)
    room.reserve(P * K)
    executor = iso.Executor(scratch="16MB", scratch_memory="16MB")
    for k in range(K):
        part = room[P * k : P * k + P]
        executor.add(iso.Tasklet(globals()[sys.argv[2]], [], [part], name=f"w{k}"))
        executor.add(iso.Tasklet(lambda i, _: float(np.asarray(i[0])[5]), [part], name=f"r{k}"))
    before = resident()
    assert set(executor.run().values.values()) == {1.0}
    print(resident() - before)
"""


@pytest.mark.parametrize("way", ["reuses", "views", "keeps"])
def test_memory_does_not_grow_with_the_number_of_tasklets(tmp_path: Path, way: str) -> None:
    # 600 MiB go through it; 64 MiB of blocks may wait idle.
    asked = [sys.executable, "-c", MANY, str(tmp_path / "a.iso"), way]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 160, f"{done.stdout} MiB more"
