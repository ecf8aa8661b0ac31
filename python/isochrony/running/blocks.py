"""Iterates over the result of a plan block by block; the plan is executed in a thread, at most a few blocks ahead."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar, copy_context
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors.native import PlanError
from ..functions.operators import Block, Break, Emitter, Factory, Operator, Port
from .options import RunOptions
from .runs import run_place, run_progress

if TYPE_CHECKING:
    from .._native import NativePlan
    from ..plan.plan import Plan

__all__ = ["blocks_of"]

# Most blocks that wait for the loop; the execution pauses while there are so many.
_AHEAD = 2

# Seconds: interval at which a waiting execution checks that its reader still exists.
_POLL_INTERVAL = 0.1

# Most loops inside of one another, each in a function of the plan that the outer loop executes.
_MAX_DEPTH = 16

# Plans of the enclosing loops. Native code knows only those of the current thread.
_OUTER: ContextVar[tuple[NativePlan, ...]] = ContextVar("isochrony_blocks", default=())


class _Stopped(BaseException):
    """The loop was left. No `Exception`, so that it passes through the engine and no function catches it."""


class _Handover:
    """A bounded queue from an execution to a loop, which either side ends."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may close the loop's generator while this thread holds the lock.
        self._changed = threading.Condition(threading.RLock())
        self._blocks: deque[Block] = deque()
        self._reader = threading.current_thread()
        self._stopped = False
        self._ended = False
        self._error: BaseException | None = None

    def put(self, block: Block) -> None:
        """In the execution: wait for room and add a block."""
        with self._changed:
            while len(self._blocks) >= _AHEAD:
                self.raise_if_stopped()
                self._changed.wait(_POLL_INTERVAL)
            self.raise_if_stopped()
            self._blocks.append(block)
            self._changed.notify_all()

    def raise_if_stopped(self) -> None:
        """In the execution: end it if the loop was left, or the interpreter ends with the loop unfinished."""
        if self._stopped or not (self._reader.is_alive() or threading.main_thread().is_alive()):
            raise _Stopped

    def end(self, error: BaseException | None) -> None:
        """In the execution: it has ended."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def take(self) -> Block | None:
        """In the loop: the next block, None after the last one, or raise the error that ended the execution."""
        with self._changed:
            self._reader = threading.current_thread()
            while not self._blocks and not self._ended:
                # With a timeout: a signal that another thread gets does not end a wait.
                self._changed.wait(_POLL_INTERVAL)
            if self._blocks:
                self._changed.notify_all()
                return self._blocks.popleft()
            if self._error is not None:
                raise self._error
            return None

    def stop(self) -> None:
        """In the loop: it was left."""
        with self._changed:
            self._stopped = True
            self._blocks.clear()
            self._changed.notify_all()


class _BlockSink(Operator):
    """The last operator: puts blocks into the queue of a loop."""

    def __init__(self, to: _Handover, counts: bool) -> None:
        self._to = to
        self.counts = counts
        # Kinds alone, since any number of breaks may come before a block that passes a filter.
        self._breaks: dict[str, None] = {}

    def outputs(self, *_: Port) -> tuple[Port, ...]:
        return ()

    def process(self, block: Block, _emit: Emitter) -> None:
        self._to.put(replace(block, breaks=tuple(self._breaks)) if self._breaks else block)
        self._breaks.clear()

    def on_break(self, why: Break, _emit: Emitter) -> None:
        self._breaks[why.kind] = None


def blocks_of(plan: Plan, options: RunOptions, *, counts: bool) -> Iterator[Block]:
    """Execute a plan block by block, as `Plan.blocks` describes.

    Raises:
        PlanError: the plan ends in `count`, and has no blocks; or, raised when the iteration begins, it is inside of a
            function of the plan.
    """
    if plan.kind == "count":
        raise PlanError(
            "a plan that ends with count() gives one number and has no blocks; get that number with collect()"
        )
    return _blocks(plan._native, options, counts)


def _blocks(native: NativePlan, options: RunOptions, counts: bool) -> Iterator[Block]:
    outer = _OUTER.get()
    if any(one is native for one in outer) or len(outer) >= _MAX_DEPTH:
        raise PlanError(
            "a function called by this plan iterates over the same plan, or loops over plans are nested more than "
            f"{_MAX_DEPTH} deep; in that function iterate over another plan, or over the steps before the function, "
            "and nest fewer loops"
        )
    handover = _Handover()
    context = copy_context()
    context.run(_OUTER.set, (*outer, native))
    fed = native.operator(Factory(_BlockSink, {"to": handover, "counts": counts}), "blocks")
    # Hold no reference to the generator, or it would never be collected.
    thread = threading.Thread(target=context.run, args=(_run, fed, options, handover), name="isochrony-blocks")
    thread.start()
    try:
        while (block := handover.take()) is not None:
            yield block
    finally:
        handover.stop()
        # The garbage collector may close this generator in any thread.
        if thread is not threading.current_thread():
            thread.join()


def _run(native: NativePlan, options: RunOptions, handover: _Handover) -> None:
    error: BaseException | None = None
    try:
        with run_progress(options) as report:

            def poll(done: int, total: int) -> None:
                handover.raise_if_stopped()
                if report is not None:
                    report(done, total)

            with run_place([native], options, collects=False) as ((placed,), settled):
                placed.run([], settled, poll)
    except _Stopped:
        pass
    except BaseException as raised:
        error = raised
    handover.end(error)
