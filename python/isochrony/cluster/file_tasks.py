"""Tasks that read files, and the workers that do them, as the client's queue sees them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors.native import RunError
from .file_report import HostReport

if TYPE_CHECKING:
    from .input_files import InputFile
    from .peers import Address

#: A task that was lost with its worker so often is not repeated any more: it may be what kills them.
MAX_LOSSES = 3


@dataclass(eq=False)
class FileTask:
    """A task.

    Attributes:
        index: place among the items; -1: none.
        item: what the function is called with.
        inputs: files, without where they are.
        outputs: URLs.
        placed: inputs, with where they are.
        is_remote: whether the worker has to fetch some of them.
        number: in the dispatcher.
    """

    index: int
    item: Any
    inputs: list[InputFile]
    outputs: list[str] | None = None
    placed: list[InputFile] = field(default_factory=list)
    is_remote: bool = False
    number: int = -1
    worker: QueuedWorker | None = None
    is_done: bool = False
    losses: int = 0


@dataclass(eq=False)
class QueuedWorker:
    """A worker process, as the queue sees it: a host of the dispatcher.

    Attributes:
        name: address in Dask.
        address: for peers.
        cache: which one it has; workers of a host may share it.
        threads: of the worker.
        batch: tasks of a batch.
        host: in the dispatcher.
        queue: tasks that were placed, and not sent.
        running: number of tasks that were sent.
        next_batch: what `batch` becomes as soon as nothing is running; the worker gets nothing until then.
        needs_manifest: a report was lost.
    """

    name: str
    address: Address
    cache: str
    threads: int
    batch: int
    host: int = -1
    queue: deque[FileTask] = field(default_factory=deque)
    running: int = 0
    next_batch: int | None = None
    is_asked: bool = False
    needs_manifest: bool = False
    is_draining: bool = False
    mean_s: float | None = None
    measured: int = 0
    report: HostReport = field(default_factory=HostReport)


def lost_error(task: FileTask, worker: str) -> RunError:
    """A task that was lost too often."""
    return RunError(
        f"item {task.index} ({str(task.item)[:80]!r}) was lost {task.losses} times, each time with the worker that had "
        f"it (the last one: {worker}); see the workers' logs: the function may have ended their processes"
    )
