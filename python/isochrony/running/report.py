"""What a run did: a row for each operator, printed as a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ..latency import Latency
from ..tuning.configuration import TuningReport, TuningRequest

__all__ = [
    "BranchReport",
    "ChangeReport",
    "LinkReport",
    "Measurement",
    "OperatorReport",
    "ProcessReport",
    "Report",
    "RunResult",
    "StageReport",
    "TaskReport",
    "ThreadReport",
    "WorkerReport",
]


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """What one operator did in a run.

    Attributes:
        name: name of the operator.
        items: number of input items: segments, or blocks of windows or rows.
        samples: number of samples in them; samples that overlapping windows share count once.
        gaps: number of gaps in its input.
        skipped: for a scan: number of samples that were not read, since stored extremes show that no window with them
            passes the next filter.
        useful_s: seconds in it, summed over all threads, estimated from the first items of bursts.
        threads: number of threads that ran it, or of replicas: ``useful_s / threads`` is at most the seconds of the
            run.

    >>> import numpy as np, isochrony as iso
    >>> report = iso.scan(np.arange(4000.0), rate=100).rewindow(100).power().run().report
    >>> [(operator.name, operator.samples, operator.gaps) for operator in report.operators]
    [('scan', 4000, 0), ('rewindow', 4000, 0), ('power', 4000, 0)]
    """

    name: str
    items: int
    samples: int
    gaps: int
    skipped: int
    useful_s: float
    threads: int


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What one worker did in a run on several cores.

    Attributes:
        tasks: number of tasks that it did; for a worker of a cluster in a run that reads a live feed, number of blocks
            of samples.
        samples: number of samples that it read for them; samples that two tasks need count twice.
        busy_s: seconds in these tasks.
        host: address of the worker in a run on a cluster, else None.
        sent_bytes: bytes of tasks sent to a worker of a cluster.
        received_bytes: bytes of results received from it.
        lost: whether a worker of a cluster was lost; others repeated its last tasks.
        local_bytes: bytes of signals that were in the cache of its host, with `isochrony.cluster.attach`; slots of one
            process count shared reads once.
        peer_bytes: bytes that came from caches of other hosts.
        storage_bytes: bytes that came from stores.
        cache_hits: reads of signals for which nothing was fetched.

    >>> import numpy as np, isochrony as iso
    >>> report = iso.scan(np.arange(200_000.0), rate=1000).rewindow(100).power().run(workers=2).report
    >>> len(report.workers), sum(worker.tasks for worker in report.workers) == len(report.tasks)
    (2, True)
    """

    tasks: int
    samples: int
    busy_s: float
    host: str | None
    sent_bytes: int
    received_bytes: int
    lost: bool
    local_bytes: int
    peer_bytes: int
    storage_bytes: int
    cache_hits: int


@dataclass(frozen=True, slots=True)
class TaskReport:
    """One task of a run on several cores.

    Attributes:
        start: index of the first sample of its part of the recording.
        end: index after the last one.
        worker: number of the worker that did it, an index into `Report.workers`.
        elapsed_s: seconds that it took.

    >>> import numpy as np, isochrony as iso
    >>> report = iso.scan(np.arange(200_000.0), rate=1000).rewindow(100).power().run(workers=2).report
    >>> report.tasks[0].start, report.tasks[-1].end
    (0, 200000)
    """

    start: int
    end: int
    worker: int
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class StageReport:
    """What one stage, or one replica of it, did: a part of the plan that ran in parallel with the other stages.

    The four times add up to at most the seconds of the run.

    Attributes:
        number: number of the stage, from 0.
        replica: number of the replica, from 0; None if the stage has none.
        operators: indices into `Report.operators`.
        items: number of input items from sources or earlier stages: segments, or blocks of windows or rows. Samples
            that blocks of two replicas share count twice. For a replica of a `group_by` whose number is 1 or higher,
            the number of parts of blocks of rows that it computed.
        bytes: number of bytes in them.
        cpu_s: CPU time in seconds, estimated from every eighth time that it computed; less than `busy_s` if other
            threads took the CPU.
        busy_s: seconds in which it computed.
        input_wait_s: seconds in which it waited for input from sources or an earlier stage.
        output_wait_s: seconds in which it waited for a later stage to take its results.
        core_wait_s: seconds in which it could have computed, but all threads were busy.

    >>> import numpy as np, isochrony as iso
    >>> plan = iso.scan(np.arange(100_000.0), rate=1000).lowpass(50).highpass(5).rewindow(512).power()
    >>> report = plan.run(workers=2).report
    >>> [(stage.number, [report.operators[k].name for k in stage.operators]) for stage in report.stages[:2]]
    [(0, ['scan', 'iir']), (1, ['iir', 'rewindow'])]
    """

    number: int
    replica: int | None
    operators: tuple[int, ...]
    items: int
    bytes: int
    cpu_s: float
    busy_s: float
    input_wait_s: float
    output_wait_s: float
    core_wait_s: float


@dataclass(frozen=True, slots=True)
class LinkReport:
    """What passed through one link between stages.

    Attributes:
        stages: numbers of the stages that it joins.
        bytes: number of bytes that passed.
        capacity: capacity in bytes at the end; the stage before the link waits while it is full.
        gain: bytes that passed for each input byte of the stage before.
        occupancy: how often results were sent while 0 to 7 eighths of it were full, and while it was full: 9 counts.
        mean_occupancy: mean fraction that was full when results were sent, 0 to 1.

    >>> import numpy as np, isochrony as iso
    >>> plan = iso.scan(np.arange(100_000.0), rate=1000).lowpass(50).highpass(5).rewindow(512).power()
    >>> report = plan.run(workers=2).report
    >>> [link.stages for link in report.links[:2]], 0 <= report.links[0].mean_occupancy <= 1
    ([(0, 1), (1, 2)], True)
    """

    stages: tuple[int, int]
    bytes: int
    capacity: int
    gain: float
    occupancy: tuple[int, ...]
    mean_occupancy: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """State of the stages and links of a running plan; made by `Control.measurement`.

    Attributes:
        elapsed_s: seconds since the run began.
        stages: in order of the plan; the last one is in the calling thread.
        links: between stages, in order of the plan.

    >>> import numpy as np, isochrony as iso
    >>> control, measured = iso.Control(), []
    >>> def watch(values, start):
    ...     if start == 0:
    ...         measured.append(control.measurement())
    >>> plan = iso.scan(np.arange(100_000.0), rate=1000).lowpass(50).highpass(5).rewindow(512).power()
    >>> _ = plan.each(watch).run(workers=2, control=control)
    >>> sorted({stage.number for stage in measured[0].stages})
    [0, 1, 2, 3]
    """

    elapsed_s: float
    stages: tuple[StageReport, ...]
    links: tuple[LinkReport, ...]

    @classmethod
    def _of(cls, elapsed_s: float, stages: Sequence[dict[str, Any]], links: Sequence[dict[str, Any]]) -> Self:
        return cls(elapsed_s, tuple(map(_stage, stages)), tuple(map(_link, links)))


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """A change of parameters during the run.

    Attributes:
        operator: name of the operator.
        node: its number in the plan as it was built, inputs first.
        parameters: new values by name; expressions as in a saved plan.
        at: index of the operator's input from which the change took effect; earlier items were computed with the old
            values. None if no items followed, or they have no indices.

    >>> import numpy as np, isochrony as iso
    >>> loud = iso.scan(np.arange(12), rate=100).triggers(on=3)
    >>> control = iso.Control()
    >>> control.set(loud, at=6, on=8)
    >>> change = loud.run(control=control).report.changes[0]
    >>> change.operator, change.at, change.parameters
    ('triggers', 6, {'on': 8})
    """

    operator: str
    node: int
    parameters: dict[str, Any]
    at: int | None


@dataclass(frozen=True, slots=True)
class BranchReport:
    """A branch that a `Control` added during the run.

    Attributes:
        operator: name of the branch's last operator.
        tap: name of the plan's operator whose results the branch got.
        node: number of that operator in the plan as it was built, inputs first.
        at: index of the first result that the branch got. None if it got nothing, or results have no indices.
        until: the branch got results that begin before this index; None as for `at`.
        items: number of segments, or blocks of windows or rows, that it got.

    >>> import numpy as np, isochrony as iso
    >>> low = iso.scan(np.arange(8.0), rate=100).map(lambda s: s / 2)
    >>> control = iso.Control()
    >>> control.add(low.each(lambda values, start: None), at=5)
    >>> branch = low.rewindow(2).count().run(control=control).report.branches[0]
    >>> branch.operator, branch.tap, branch.at
    ('each', 'map', 5)
    """

    operator: str
    tap: str
    node: int
    at: int | None
    until: int | None
    items: int


def _stage(fields: dict[str, Any]) -> StageReport:
    return StageReport(**fields | {"operators": tuple(fields["operators"])})


def _link(fields: dict[str, Any]) -> LinkReport:
    return LinkReport(**fields | {"occupancy": tuple(fields["occupancy"])})


def _change(fields: dict[str, Any]) -> ChangeReport:
    return ChangeReport(**fields | {"parameters": json.loads(fields["parameters"])})


@dataclass(frozen=True, slots=True)
class ThreadReport:
    """What one thread that ran stages used, in a run with several such threads.

    Attributes:
        cpu_s: CPU time in seconds; None if the system does not report it.
        involuntary_switches: how often another thread took its CPU; None if the system does not report it.
        elapsed_s: seconds from its start to its end.

    >>> import numpy as np, isochrony as iso
    >>> plan = iso.scan(np.arange(100_000.0), rate=1000).lowpass(50).highpass(5).rewindow(512).power()
    >>> report = plan.run(workers=2).report
    >>> len(report.threads), report.threads[0].elapsed_s <= report.elapsed_s
    (2, True)
    """

    cpu_s: float | None
    involuntary_switches: int | None
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """What one worker process did in a run on several cores.

    Attributes:
        worker: number of the worker that called it, an index into `Report.workers`; None: the calling thread.
        pid: its process ID.
        blocks: number of blocks of windows or samples that it processed.
        busy_s: seconds spent on them, with communication.
        ended: how it ended, if before the run did.

    >>> import numpy as np, isochrony as iso
    >>> windows = iso.scan(np.arange(200_000.0), rate=1000).rewindow(100)
    >>> peaks = windows.map(iso.py(lambda rows: rows.max(axis=1), on_workers="processes"))
    >>> report = peaks.run(workers=2).report
    >>> [process.worker for process in report.processes], report.processes[0].ended
    ([0, 1], None)
    """

    worker: int | None
    pid: int
    blocks: int
    busy_s: float
    ended: str | None


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did; prints as a table.

    Attributes:
        operators: an `OperatorReport` each, in the order in which they ran.
        reads: how each stored signal was read, as text: the I/O strategy, and why a requested one was not used.
        workers: a `WorkerReport` each; empty if the calling thread did everything.
        tasks: a `TaskReport` per task of the workers, scan by scan in read order.
        stages: a `StageReport` each, in order of the plan, the last one in the calling thread; empty if the plan did
            not run in stages.
        links: a `LinkReport` per link between stages, in order of the plan.
        threads: a `ThreadReport` per thread that ran stages, the calling one first; empty if it was the only one.
        changes: changes of parameters by a `Control`, in the order of their requests.
        branches: branches added by a `Control`, in the order of their requests.
        pinned_cpus: number of the CPU that each thread was pinned to, with ``pin=True``: the calling thread first, then
            the workers, or the other threads that ran stages, in order; None where the system refused.
        places: where each Python function was called in a run on several cores, with the reason.
        processes: a `ProcessReport` per worker process, in order of workers.
        tuning: what tuning found and changed; None without ``tune=``.
        notes: reasons for an empty result, if nothing was read or no window fits: the text of `EmptyResultWarning`.
        bursts: number of bursts of the sources.
        elapsed_s: seconds from start to end.
        peak_bytes: largest number of bytes in pooled blocks and queues at a time.
        engine_share: share of the working time of all threads, of workers of a cluster, too, that was spent outside
            operators and sources, 0 to 1; calling an operator counts as the operator, and preparing and merging tasks
            as the engine. An estimate from the time of some items: too low for items of a few samples, which take less
            time than reading the clock. What `Plan.on` runs on a host does not count. None with ``measure=False``.
        latency: how long bursts of items took until all operators had processed them and passed on their results: a
            `Latency`, in seconds. It begins when the first item of the burst arrived at a listener (for other sources:
            when it was requested; in tasks: when the task began, or was sent to a worker of a cluster) and ends in the
            last operator of the last stage. It includes what links and reorder buffers hold back; not the time in which
            an operator waits for further samples, as for the rest of a window. Samples of which nothing reaches the
            last stage, or the calling thread, do not count. What `Plan.on` runs on a host is a source that is asked for
            its results. None with ``measure=False``.

    >>> import numpy as np, isochrony as iso
    >>> report = iso.scan(np.arange(4000.0), rate=100).rewindow(100).power().run().report
    >>> report.operators[0].samples, report.operators[0].name, report.workers
    (4000, 'scan', ())
    >>> print(report)  # doctest: +ELLIPSIS
    operator               items         samples    gaps      time
    scan                       1            4000       0 ...
    """

    operators: tuple[OperatorReport, ...]
    reads: tuple[str, ...]
    workers: tuple[WorkerReport, ...]
    tasks: tuple[TaskReport, ...]
    stages: tuple[StageReport, ...]
    links: tuple[LinkReport, ...]
    threads: tuple[ThreadReport, ...]
    changes: tuple[ChangeReport, ...]
    branches: tuple[BranchReport, ...]
    pinned_cpus: tuple[int | None, ...]
    places: tuple[str, ...]
    processes: tuple[ProcessReport, ...]
    tuning: TuningReport | None
    notes: tuple[str, ...]
    bursts: int
    elapsed_s: float
    peak_bytes: int
    engine_share: float | None
    latency: Latency | None
    _text: str = field(repr=False)

    @classmethod
    def _of(cls, fields: dict[str, Any], request: TuningRequest | None = None) -> Self:
        rows: dict[str, Callable[[dict[str, Any]], Any]] = {
            "operators": lambda one: OperatorReport(**one),
            "workers": lambda one: WorkerReport(**one),
            "tasks": lambda one: TaskReport(**one),
            "stages": _stage,
            "links": _link,
            "threads": lambda one: ThreadReport(**one),
            "changes": _change,
            "branches": lambda one: BranchReport(**one),
            "processes": lambda one: ProcessReport(**one),
        }
        tuples = {name: tuple(map(row, fields[name])) for name, row in rows.items()}
        tuples |= {name: tuple(fields[name]) for name in ("reads", "pinned_cpus", "places", "notes")}
        is_tuned = request is not None and request.mode != "measure" and fields["tuning"] is not None
        tuning = TuningReport._of(fields["tuning"], request) if is_tuned else None  # type: ignore[arg-type]
        latency = None if fields["latency"] is None else Latency(*fields["latency"])
        return cls(**fields | tuples | {"tuning": tuning, "latency": latency})

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of `Plan.run` and `isochrony.run`; prints as its report.

    Attributes:
        report: a `Report`: what each operator did, with times and bytes.

    >>> import numpy as np, isochrony as iso
    >>> result = iso.scan(np.arange(4000.0), rate=100).rewindow(100).count().run()
    >>> result.report.operators[-1].name
    'count'
    """

    report: Report

    def __repr__(self) -> str:
        return str(self.report)
