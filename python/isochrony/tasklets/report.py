"""What a run of tasklets did: who did which when, and what did not happen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..output.progress import bytes_text, duration_text
from ..running.report import ProcessReport
from ..tuning.configuration import TuningReport

__all__ = ["TaskletReport", "TaskletWorkerReport", "TaskletsReport"]


@dataclass(frozen=True, slots=True)
class TaskletReport:
    """What happened to one tasklet.

    Attributes:
        name: name of the tasklet.
        state: "done"; "kept" from an earlier run; "failed"; "not_run", since one that it depends on failed; "stopped"
            with the run.
        why: reason for a failure or for not running; None otherwise.
        place: position in the order, from 0; None if it was kept.
        placed: reason for this position.
        worker: worker that ran it, an index into `TaskletsReport.workers`; None if it did not run.
        start_s: seconds from the start of the run to its start; None if it did not run.
        end_s: seconds from the start of the run to its end; None if it did not run.

    >>> import isochrony as iso
    >>> executor = iso.Executor()
    >>> executor.add(iso.Tasklet(lambda inputs, outputs: 42, name="answer"))
    >>> report = executor.run()
    >>> [(tasklet.name, tasklet.state, tasklet.worker) for tasklet in report.tasklets]
    [('answer', 'done', 0)]
    """

    name: str
    state: str
    why: str | None
    place: int | None
    placed: str
    worker: int | None
    start_s: float | None
    end_s: float | None


@dataclass(frozen=True, slots=True)
class TaskletWorkerReport:
    """What one worker did.

    Attributes:
        tasklets: number of tasklets that it ran.
        busy_s: seconds in which it ran tasklets.
        waited_s: seconds in which no tasklet could start.

    >>> import isochrony as iso
    >>> executor = iso.Executor()
    >>> executor.add(iso.Tasklet(lambda inputs, outputs: 42, name="answer"))
    >>> report = executor.run()
    >>> [worker.tasklets for worker in report.workers]
    [1]
    """

    tasklets: int
    busy_s: float
    waited_s: float


@dataclass(frozen=True)
class TaskletsReport:
    """What a run of tasklets did; prints as a few lines.

    Attributes:
        workers: a `TaskletWorkerReport` per worker.
        values: what functions returned, and results of plans without output, by name of tasklet. For tasklets kept from
            an earlier run, as JSON preserved it.
        peak_scratch_bytes: largest number of bytes of scratch at a time.
        prefetched_bytes: bytes that were read ahead.
        pinned_cpus: number of the CPU that each worker was pinned to, with ``pin=True``; None where the system refused.
        elapsed_s: seconds from start to end.
        notes: which tasklets were kept from an earlier run, and which ran again.
        places: where functions were called, with the reasons.
        processes: a `ProcessReport` per worker process, in order of workers; its blocks are tasklets.
        tuning: what tuning found and changed; None without ``tune=`` or with a single worker.

    >>> import isochrony as iso
    >>> executor = iso.Executor()
    >>> executor.add(iso.Tasklet(lambda inputs, outputs: 42, name="answer"))
    >>> report = executor.run()
    >>> report.values, report.peak_scratch_bytes
    ({'answer': 42}, 0)
    """

    _rows: list[tuple[Any, ...]] = field(repr=False)
    workers: tuple[TaskletWorkerReport, ...]
    values: Mapping[str, Any] = field(repr=False)
    peak_scratch_bytes: int
    prefetched_bytes: int
    pinned_cpus: tuple[int | None, ...]
    elapsed_s: float
    notes: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    processes: tuple[ProcessReport, ...] = ()
    tuning: TuningReport | None = None

    @cached_property
    def tasklets(self) -> tuple[TaskletReport, ...]:
        """A `TaskletReport` per tasklet, in the order in which they were added; made on first use.

        >>> import isochrony as iso
        >>> executor = iso.Executor()
        >>> executor.add(iso.Tasklet(lambda inputs, outputs: 42, name="answer"))
        >>> report = executor.run()
        >>> report.tasklets[0].state
        'done'
        """
        # There are thousands, and who runs them seldom asks.
        reports = []
        for name, state, why, place, placed, visit, _ in self._rows:
            worker, start, end = visit or (None, None, None)
            reports.append(TaskletReport(name, state, why, place, placed, worker, start, end))
        return tuple(reports)

    def __str__(self) -> str:
        states = Counter(one.state for one in self.tasklets)
        lines = [
            ", ".join(f"{count} {state}" for state, count in states.items()) + f" in {duration_text(self.elapsed_s)}"
        ]
        lines += [f"note: {note}" for note in self.notes]
        lines.append(
            f"scratch: {bytes_text(self.peak_scratch_bytes)} at most; read ahead: {bytes_text(self.prefetched_bytes)}"
        )
        for number, one in enumerate(self.workers):
            busy, waited = duration_text(one.busy_s), duration_text(one.waited_s)
            lines.append(f"worker {number}: {one.tasklets} tasklets, busy {busy}, waited {waited}")
        lines += self.places
        for process in self.processes:
            ended = f", {process.ended}" if process.ended else ""
            busy = duration_text(process.busy_s)
            lines.append(
                f"worker {process.worker or 0}, process {process.pid}: {process.blocks} tasklets, busy {busy}{ended}"
            )
        if self.tuning is not None:
            lines += [f"tuning {decision}" for decision in self.tuning.decisions]
        lines += [f"{one.state}: {one.name}: {one.why}" for one in self.tasklets if one.why]
        return "\n".join(lines)
