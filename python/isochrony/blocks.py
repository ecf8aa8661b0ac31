"""Iteration over what a plan gives: the plan runs in a thread that is at most a few blocks ahead of the loop."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING

from .failures import expected
from .native_errors import PlanError
from .operators import Block, Emitter, Factory, Operator, Port
from .run_options import RunOptions

if TYPE_CHECKING:
    from ._native import NativePlan
    from .plan import Plan

__all__ = ["blocks_of"]

# Blocks that wait for the loop; the run waits while there are so many.
_AHEAD = 2

# Seconds after which a run that waits looks whether anybody is left to wait for.
_LOOK = 0.1


# Loops inside of one another, each in a function of the plan that the one before runs.
_MAX_DEPTH = 16

# Plans that loops run, in whose functions this is. Native code knows this of one thread only.
_OUTER: ContextVar[tuple[NativePlan, ...]] = ContextVar("isochrony_blocks", default=())


class _Stopped(BaseException):
    """The loop was left. No `Exception`, so that it leaves the run as itself and no function swallows it."""


class _Handover:
    """A queue of one run and one loop, which either side ends."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may close the loop's generator while this thread holds the lock.
        self._changed = threading.Condition(threading.RLock())
        self._blocks: deque[Block] = deque()
        self._reader = threading.current_thread()
        self._stopped = False
        self._ended = False
        self._error: BaseException | None = None

    def put(self, block: Block) -> None:
        """In the run: wait for room, and leave a block."""
        with self._changed:
            while len(self._blocks) >= _AHEAD:
                self.look()
                self._changed.wait(_LOOK)
            self.look()
            self._blocks.append(block)
            self._changed.notify_all()

    def look(self) -> None:
        """In the run: leave it if nobody reads any more, also when the interpreter ends with the loop unfinished."""
        if self._stopped or not (self._reader.is_alive() or threading.main_thread().is_alive()):
            raise _Stopped

    def end(self, error: BaseException | None) -> None:
        """In the run: it has ended."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def take(self) -> Block | None:
        """In the loop: the next block; None behind the last one; or the error that ended the run."""
        with self._changed:
            self._reader = threading.current_thread()
            while not self._blocks and not self._ended:
                # Not for ever: a signal that another thread gets does not end a wait.
                self._changed.wait(_LOOK)
            if self._blocks:
                self._changed.notify_all()
                return self._blocks.popleft()
            if self._error is not None:
                raise self._error
            return None

    def stop(self) -> None:
        """In the loop: nothing more is wanted."""
        with self._changed:
            self._stopped = True
            self._blocks.clear()
            self._changed.notify_all()


class _Feed(Operator):
    """Leaves blocks for a loop."""

    counts = True

    def __init__(self, to: _Handover) -> None:
        self._to = to

    def outputs(self, *_: Port) -> tuple[Port, ...]:
        return ()

    def process(self, block: Block, _emit: Emitter) -> None:
        self._to.put(block)


def blocks_of(plan: Plan) -> Iterator[Block]:
    """Run a plan block by block; `Plan.__iter__` says what comes.

    Raises:
        PlanError: the plan gives a count; when the iteration begins, that it is inside of a function of the plan.
    """
    if plan.kind == "count":
        raise PlanError("the result of count() is one number and has no blocks; call collect()")
    return _blocks(plan._native)


def _blocks(native: NativePlan) -> Iterator[Block]:
    outer = _OUTER.get()
    if any(one is native for one in outer) or len(outer) >= _MAX_DEPTH:
        raise PlanError(
            "a function of the plan iterates over the plan itself, which would never end; iterate over another plan "
            f"there, or the part before the function (at most {_MAX_DEPTH} such loops are inside of one another)"
        )
    handover = _Handover()
    context = copy_context()
    context.run(_OUTER.set, (*outer, native))
    fed = native.operator(Factory(_Feed, {"to": handover}), "blocks")
    # It has no part of this generator, which would live on otherwise when nobody has it any more.
    thread = threading.Thread(target=context.run, args=(_run, fed, handover), name="isochrony-blocks")
    thread.start()
    try:
        while (block := handover.take()) is not None:
            yield block
    finally:
        handover.stop()
        # The garbage collector may close this generator in any thread.
        if thread is not threading.current_thread():
            thread.join()


def _run(native: NativePlan, handover: _Handover) -> None:
    error: BaseException | None = None
    try:
        with expected() as failures:

            def look(_done: int, _total: int) -> None:
                handover.look()
                if failures is not None:
                    failures.look()

            native.run([], RunOptions.of(), look)
    except _Stopped:
        pass
    except BaseException as raised:
        error = raised
    handover.end(error)
