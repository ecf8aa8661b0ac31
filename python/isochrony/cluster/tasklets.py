"""Functions of tasklets on the slots of a cluster: the client's side, and that of a worker.

A function and handles of its inputs travel to a worker, which reads the samples from their stores by itself. What the
function writes to its outputs, and what it returns, come back. The client alone writes stores.
"""

from __future__ import annotations

import functools
import itertools
import pickle
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from ..errors.native import RunError
from .client import ClusterRun, pickled
from .exceptions import error_as_text, pickled_exception, unpickled_exception
from .worker import FUNCTIONS, this_process

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._native import Selection
    from ..running.options import RunOptions
    from ..tasklets.output import Output
    from .slot import Slot

#: A call whose worker is lost so often is not repeated any more: it may be what kills them.
MAX_LOSSES = 3
#: Seconds for which a call waits for a slot before it looks whether the run has ended.
_SLOT_WAIT_S = 0.25
#: Seconds for which slots of the workers that there are at the start may take to join.
_JOIN_S = 5.0


class TaskletSlots:
    """Slots that call functions of tasklets.

    Parameters:
        options: of the run; its `on` and `paths`.
        uses_first: whether a call gets the free slot that joined first, so that n calls at a time use n slots.
    """

    def __init__(self, options: RunOptions, *, uses_first: bool = False) -> None:
        payload = pickled((FUNCTIONS, list(options.paths.items()), this_process()))
        self._run = ClusterRun(options.on, payload, options)
        self._lock = threading.Lock()
        self._calls: Counter[str] = Counter()
        self._here = 0
        self._uses_first = uses_first
        #: Taken while the free slots are looked through.
        self._choosing = threading.Lock()
        #: In the order in which they joined.
        self._numbers: dict[Slot, int] = {}
        self._joining = itertools.count()
        self._expected, self._begun = 0, time.monotonic()

    def count(self) -> int:
        """Slots of the current workers. Call it once, before the first function."""
        self._expected = self._run.slot_counts()[0]
        return self._expected

    def are_joining(self) -> bool:
        """Whether slots of the start are still to join, unless they are too late."""
        return self._run.joined_count() < self._expected and time.monotonic() - self._begun < _JOIN_S

    def wrapped(self, work: Callable[..., object], tasklet: str) -> Callable[..., object]:
        """A function of inputs and outputs that calls `work` on a slot."""
        return functools.partial(self._call, work, tasklet)

    def stop(self) -> None:
        """Ends the calls: Ctrl-C."""
        self._run.stop()

    def close(self) -> None:
        """Gives the slots back."""
        self._run.close()

    def notes(self) -> list[str]:
        """Who called how many functions, for the report."""
        notes = [f"{count} functions were called by {worker}" for worker, count in sorted(self._calls.items())]
        if self._here:
            notes.append(
                f"{self._here} functions were called in this process, since they read scratch or what was not committed"
            )
        return notes

    def _call(
        self, work: Callable[..., object], tasklet: str, inputs: list[Selection], outputs: list[Output]
    ) -> object:
        if not all(one._is_committed() for one in inputs):
            with self._lock:
                self._here += 1
            return work(inputs, outputs)
        about = [{"name": one.name, "dtype": one.dtype.name, "length": len(one)} for one in outputs]
        call = pickled((work, tasklet, [one.__reduce__()[1] for one in inputs], about))
        error, value, written = pickle.loads(self._answer(call, tasklet))
        if error is not None:
            raise unpickled_exception(error)
        for number, start, samples in written:
            outputs[number][start : start + len(samples)] = samples
        return value

    def _answer(self, call: bytes, tasklet: str) -> bytes:
        lost: Counter[tuple[str, int]] = Counter()
        while (losses := _deaths(lost)) < MAX_LOSSES:
            slot = self._slot()
            slot.send(call)
            answer = slot.receive()
            if answer is False:
                raise KeyboardInterrupt
            if answer is True:
                lost[slot.name, slot.number] += 1
                with self._choosing:
                    self._numbers.pop(slot, None)
                continue
            with self._lock:
                self._calls[slot.name] += 1
            self._run.give_back(slot)
            return bytes(answer)
        raise RunError(
            f"tasklet {tasklet!r} was lost {losses} times, each time with the worker that called it (the last one: "
            f"{slot.name}); see the workers' logs: the function may have ended their processes"
        )

    def _slot(self) -> Slot:
        while (slot := self._run.next_slot(_SLOT_WAIT_S, True)) is None:
            if self._run.is_stopped():
                raise KeyboardInterrupt
        return self._first_free(slot) if self._uses_first else slot

    def _first_free(self, slot: Slot) -> Slot:
        """The one that joined first of a slot and all that are free."""
        with self._choosing:
            try:
                free = [slot, *self._run.free_slots()]
            except BaseException:
                self._run.give_back(slot)
                raise
            for one in free:
                if one not in self._numbers:
                    self._numbers[one] = next(self._joining)
            first = min(free, key=self._numbers.__getitem__)
            for one in free:
                if one is not first:
                    self._run.give_back(one)
            return first


def _deaths(lost: Counter[tuple[str, int]]) -> int:
    """How often a worker was lost with a call, by its slots that were: with a worker, its free slots are lost, too."""
    return max(len({worker for worker, _ in lost}), max(lost.values(), default=0))


class FunctionCalls:
    """Calls functions of tasklets in a worker.

    Parameters:
        paths: path prefixes of stores on the client, and what they are here.
        client: its process.
    """

    def __init__(self, paths: list[tuple[str, str]], client: tuple[str, int]) -> None:
        self._paths = paths
        self._is_client = client == this_process()

    def runner(self, _: int) -> FunctionCalls:
        """What calls the functions of one slot."""
        return self

    def stop(self) -> None:
        """A function that was begun is not ended: what it returns is not read."""

    def run(self, call: bytes) -> bytes:
        """Calls one; its exception, or what it returned and what it wrote."""
        from ..workers.exceptions import dumps
        from ..workers.tasklet_call import called

        work, tasklet, inputs, about = pickle.loads(call)
        try:
            value, written = called(work, tasklet, [self._selection(*one) for one in inputs], about)
            return dumps((None, value, written))
        # `sys.exit` of a function must not end the worker.
        except (Exception, SystemExit) as error:
            return pickle.dumps((pickled_exception(error) or error_as_text(error), None, []))

    def _selection(self, snapshot: bytes, opening: tuple[int, int], *others: Any) -> Selection:
        from .._native import _snapshot_at, _unpickled_selection

        opening = opening if self._is_client else (0, 0)
        return _unpickled_selection(_snapshot_at(snapshot, self._paths), opening, *others)
