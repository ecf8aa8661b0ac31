"""What a run did: a row for each operator, printed as a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ..latency import Latency
from ..tuning import TuningReport, TuningRequest

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
        name: of the operator.
        items: segments and blocks of windows that it was given.
        samples: in them; of overlapping windows those that no other has.
        gaps: that it met.
        skipped: of a scan: samples that it did not read, since stored extremes show that no window with them passes the
            filter behind it.
        useful_s: seconds spent in it by all threads, estimated from the first items of bursts.
        threads: that executed it, or replicas: ``useful_s / threads`` is at most the seconds of the run.
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
        tasks: that it did; of a worker of a cluster in a run that reads a live feed: blocks of samples.
        samples: that it read for them; what completes windows of one task and begins the next counts twice.
        busy_s: seconds spent on them.
        host: address of the worker, in a run on a cluster; else None.
        sent_bytes: of tasks that a worker of a cluster was sent.
        received_bytes: of results that it sent.
        lost: whether a worker of a cluster was lost; others did its last tasks again.
        local_bytes: of signals that were in the cache of its host, with `isochrony.cluster.attach`; slots of one
            process count what they read together once.
        peer_bytes: that came from caches of other hosts.
        storage_bytes: that came from stores.
        cache_hits: reads of signals for which nothing was fetched.
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
        start: index of the first sample of its portion of the recording.
        end: index behind the last.
        worker: number of the worker that did it, an index into `Report.workers`.
        elapsed_s: seconds that it took.
    """

    start: int
    end: int
    worker: int
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class StageReport:
    """What one stage did, or one replica of it: a part of the plan that ran while the other stages ran.

    The four times add up to at most the seconds of the run.

    Attributes:
        number: of the stage, from 0.
        replica: which of its replicas, from 0; None if it has none.
        operators: indices into `Report.operators`.
        items: segments, blocks of windows and rows that it got from its sources or earlier stages. Replicas get what
            their blocks share twice.
        bytes: in them.
        cpu_s: seconds on a processor, estimated from every eighth time that it was at work: less than `busy_s` where
            something else took the processor.
        busy_s: seconds in which it computed.
        input_wait_s: seconds in which it waited for samples from its sources or an earlier stage.
        output_wait_s: seconds in which it waited for a later stage to take what it had computed.
        core_wait_s: seconds in which it could have computed, but all threads computed something else.
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
    """What one link between stages carried.

    Attributes:
        stages: the numbers of the stages that it joins.
        bytes: that it carried.
        capacity: bytes that it may hold before its writer waits, at the end.
        gain: bytes that it carried for each byte that the stage before it got.
        occupancy: how often results were sent when 0 to 7 eighths of it were full, and when it was full: 9 counts.
        mean_occupancy: part of it that was full when results were sent, on average, from 0 to 1.
    """

    stages: tuple[int, int]
    bytes: int
    capacity: int
    gain: float
    occupancy: tuple[int, ...]
    mean_occupancy: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the stages and links of a run did so far: `Control.measurement`.

    Attributes:
        elapsed_s: seconds since the run began.
        stages: in the order of the plan, the last in the caller's thread.
        links: between stages, in the order of the plan.
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
        operator: whose parameters changed.
        node: its number in the plan as it was built, inputs first.
        parameters: by name, expressions as in a saved plan.
        at: index of the operator's input from which the change was in effect: what begins before it was computed
            without. None if nothing came behind it, or what came has no indices.
    """

    operator: str
    node: int
    parameters: dict[str, Any]
    at: int | None


@dataclass(frozen=True, slots=True)
class BranchReport:
    """A branch that a `Control` added during the run.

    Attributes:
        operator: the last of the branch.
        tap: the operator of the plan whose results it got.
        node: that one's number in the plan as it was built, inputs first.
        at: index of these results from which on it got them. None if it got nothing, or they have no indices.
        until: it got what begins before this index; None as for `at`.
        items: segments, blocks of windows or of rows that it got.
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
    """What one thread that ran stages used, from when there were several.

    Attributes:
        cpu_s: seconds on a processor; None where the system does not tell.
        involuntary_switches: how often another thread took its processor; None where the system does not tell.
        elapsed_s: seconds from its start to its end.
    """

    cpu_s: float | None
    involuntary_switches: int | None
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """What one worker process did in a run on several cores.

    Attributes:
        worker: number of the worker that asked it, an index into `Report.workers`; None: the caller's thread.
        pid: by which the system knew it.
        blocks: of windows or samples that it did.
        busy_s: seconds spent on them, asking and answering included.
        ended: how it ended, if before the run did.
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
        operators: in the order in which they ran.
        reads: how each stored signal was read, as text: by which I/O strategy, and why not by the one asked for.
        workers: what each did; none where all was done in the caller's thread.
        tasks: theirs, scan by scan in the order of reading.
        stages: in the order of the plan, the last in the caller's thread; none where the plan was not cut into stages.
        links: between stages, in the order of the plan.
        threads: that ran stages, that of the caller first; none if it was the only one.
        changes: of parameters by a `Control`, in the order in which they were requested.
        branches: added by a `Control`, in the order in which they were.
        pinned_cpus: number of the CPU that each thread was pinned to, with ``pin=True``: that of the caller first, then
            the workers, or the other threads that ran stages, in order; None where the system refused.
        places: of functions in a run on several cores: where each was called, and why there.
        processes: worker processes, by worker.
        tuning: what tuning the run found and changed; None without ``tune=``.
        notes: why the result is empty, where nothing was read or no window fits: what `EmptyResultWarning` says.
        bursts: that the sources gave.
        elapsed_s: seconds from start to end.
        peak_bytes: most bytes in pooled blocks and queues at once.
        engine_share: the engine's share of the time in which threads worked, from 0 to 1: what was spent in no operator
            and no source. Calling an operator counts as the operator. None with ``measure=False``, and where workers
            did tasks.
        latency: seconds from when a source was asked until all operators had done with what it gave, burst by burst;
            None where several threads worked.
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
    """What `Plan.run` gives.

    Attributes:
        report: what each operator did.
    """

    report: Report

    def __repr__(self) -> str:
        return str(self.report)
