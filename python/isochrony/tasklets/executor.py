"""Tasklets: explicit units of work over ranges of signals, in the order of the disk, on all cores.

A tasklet says what it reads, what it writes and what it does; from that an executor derives who waits for whom, in
which order the disk is read, and how much scratch may be in use.
"""

from __future__ import annotations

import os
import pickle
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .._native import Selection, Signal, check_scans, explain_tasklets, prefetch, run_tasklets
from ..errors.native import OptionError, TaskletError
from ..functions.python import OnWorkers, shown
from ..options import byte_count, choice, flag, is_auto
from ..output.progress import ImportProgress
from ..pool_tuning import PoolTuningRequest
from ..running.options import MAX_WORKERS, RunOptions, worker_count
from ..steps.chain import Chain
from ..tuning import Configuration
from .identity import NoIdentityError, forget, identity
from .output import Output
from .plans import known, writes_once
from .report import TaskletsReport
from .results import kept, never_kept, owned, report

if TYPE_CHECKING:
    from ..cluster.tasklets import TaskletSlots

__all__ = ["Executor", "Output", "Tasklet", "prefetch"]

_PLACES = ("auto", "threads", "processes", "inline")


class Tasklet:
    """A unit of work over ranges of signals.

    Parameters:
        work: a function of `(inputs, outputs)`: a list of `Selection`, as the signals are when it runs
            (``np.asarray(inputs[0])`` gives samples), and a list of `Output`. What it returns is in the report's
            `values`, arrays that look into samples as copies, also in lists, tuples (named ones, too), dicts and
            dataclasses. Arrays that it keeps otherwise stay as they are; of a `Selection` of scratch nothing can be
            read when it has returned, since scratch is free again then. Or a plan, whose samples or windows are the
            output; without one what `collect` would give is in `values`. Of a signal that the plan scans wholly
            (``iso.scan(sig)``) a tasklet reads what its inputs state: one plan serves many tasklets, which then cost
            the least to make and to run. What a plan writes with `sink`, `sink_wav`, `sink_parquet` or `sink_ipc` one
            tasklet of an executor may write: others would overwrite or break it up; declare `outputs` instead. Events
            (`annotate`) several may add, and functions of `each` see the blocks of them all.
        inputs: selections of signals, such as ``[sig[0:4096]]``. By the place of the first on the disk tasklets are
            ordered; of a plan, those that it scans. Whoever reads what another tasklet writes waits for it.
        outputs: ranges of signals that were reserved (`Signal.reserve`), also of scratch signals (`Store.scratch`).
        after: tasklets, or their names, that have to be finished before, for other reasons.
        name: of its own; default: that of the function and what it writes or reads.
        on_workers: who calls a function: "threads", "processes" or "inline", as `Executor` has it; None: as that says.

    Raises:
        OptionError: an option without a legal value.

    >>> import isochrony as iso, numpy as np, tempfile
    >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    >>> sig = store.create("pressure", dtype="i2", rate=100)
    >>> _ = sig.append(np.arange(4000, dtype="i2"))
    >>> executor = iso.Executor()
    >>> executor.add(iso.Tasklet(lambda inputs, _: int(np.max(inputs[0])), [sig[:1000]], name="loudest"))
    >>> executor.add(iso.Tasklet(iso.scan(sig[:1000]).rewindow(100).count(), [sig[:1000]], name="windows"))
    >>> executor.run().values
    {'loudest': 999, 'windows': 10}
    """

    __slots__ = (
        "__weakref__",
        "_identity",
        "_unkept",
        "after",
        "function_name",
        "inputs",
        "name",
        "on_workers",
        "outputs",
        "work",
    )

    def __init__(
        self,
        work: Callable[[list[Selection], list[Output]], object] | Chain,
        inputs: Sequence[Selection] = (),
        outputs: Sequence[Selection] = (),
        after: Sequence[Tasklet | str] = (),
        name: str | None = None,
        on_workers: OnWorkers | None = None,
    ) -> None:
        if on_workers is not None:
            choice("on_workers", on_workers, _PLACES)
        if not callable(work) and not isinstance(work, Chain):
            raise OptionError(
                f"Tasklet({work!r}) is refused; give a function with arguments (inputs, outputs), or a plan"
            )
        self.inputs = _selections("inputs", inputs)
        self.outputs = _selections("outputs", outputs)
        self.work = work
        self.on_workers = on_workers
        self.after = _names(after)
        if isinstance(work, Chain):
            if not self.inputs:
                raise OptionError(
                    "Tasklet(plan) needs inputs=; give a selection of each signal that the plan scans, such as "
                    "inputs=[signal[:]]"
                )
            if len(self.outputs) > 1:
                raise OptionError(
                    f"Tasklet(plan) is refused with {len(self.outputs)} outputs, since a plan has one result; give one "
                    "output, or none if the plan writes its result itself"
                )
            # Or nobody would wait for who writes it.
            check_scans(work._native, self.inputs)
            self.function_name = known(work).shown
        else:
            self.function_name = shown(getattr(work, "func", work))
        self._identity: str | None = None
        self._unkept: str | None = None
        try:
            # Now, and not when it is run: what a function encloses may change with each run.
            self._identity = identity(work)
        except NoIdentityError as error:
            self._unkept = str(error)
        if name is not None and not isinstance(name, str):
            raise OptionError(f"name={name!r} is refused; give text, or leave it out")
        self.name: str = name or self._called()

    def _called(self) -> str:
        function = "plan" if isinstance(self.work, Chain) else getattr(self.work, "__name__", self.function_name)
        about = (self.outputs or self.inputs)[:1]
        return " ".join([function, *(f"{one.name}[{_bounds(one)}]" for one in about)])

    def __repr__(self) -> str:
        return f"<Tasklet {self.name!r}: {len(self.inputs)} inputs, {len(self.outputs)} outputs>"

    def _described(self, on_workers: OnWorkers, slots: TaskletSlots | None) -> tuple[Any, ...]:
        work: Any = self.work
        is_plan = isinstance(work, Chain)
        function, plan = (None, work._native) if is_plan else (work, None)
        place = "" if is_plan else self.on_workers or on_workers
        if slots is not None and not is_plan:
            function, place = slots.wrapped(work, self.name), "threads"
        # Without an identity it is another each time, and thus never kept.
        about = (self.name, self.function_name, self._identity or secrets.token_hex(16), function, plan)
        return (*about, self.inputs, self.outputs, self.after, place)


# What the native half calls, instead of a closure for each tasklet: there are thousands.


def _call(
    work: Any,
    name: str,
    ranges: list[Selection],
    results: dict[str, Any],
    inputs: list[Any],
    rooms: list[Any],
    journaled: bool,
) -> tuple[bool, str | None, list[tuple[int, int, int]]]:
    """Calls a function; gives whether a journal can keep what it returned, that as JSON, and which parts of outputs it
    wrote: number, first and last sample.
    """
    outputs = [Output(one, room) for one, room in zip(ranges, rooms, strict=True)]
    value = work(inputs, outputs)
    pieces = [(k, start, stop) for k, one in enumerate(outputs) for start, stop in one._written()]
    if value is None:
        return True, None, pieces
    results[name] = value = owned(value)
    if not journaled:
        return True, None, pieces
    text = kept(value)
    return text is not None, text, pieces


def _took(name: str, results: dict[str, Any], pickled: bytes, journaled: bool) -> tuple[bool, str | None]:
    """Takes in what a function returned in a worker process."""
    # It comes from a process that this one started, to run this one's code.
    results[name] = value = pickle.loads(pickled)
    text = kept(value) if journaled else None
    return not journaled or text is not None, text


class Executor:
    """Runs tasklets: in the order of the disk, on several workers, with scratch within a budget.

    A tasklet begins when those that it needs are done. One that writes scratch has to leave enough room that all
    before it in the order could still be done one by one within the budget: so a run never blocks itself, and a
    budget that is too small is refused before it. Python functions run in threads of this process: those that let go
    of the interpreter, as NumPy does in large operations, run side by side; plans always do. Or they run in worker
    processes, side by side whatever they do.

    Parameters:
        workers: threads; "auto": as many as there are cores. Default: 1, with `tune` "auto".
        on_workers: who calls Python functions. "threads": the workers' threads, in this process. "processes": worker
            processes, one a worker, started fresh with the run and ended with it (some tenths of a second). There a
            function is a copy, as `iso.py` says: what it changes outside of its outputs changes there and not here. It
            is given samples in shared memory, with all of `Selection` that needs no store: that is no `Selection`, and
            cannot be scanned. What it returns comes back pickled, and so does what it raises, without `__cause__` and
            `__context__`, which are in the text of its note. Ctrl-C kills it at once. An array of samples that it keeps
            keeps all the memory that the tasklet's samples came in, and an open file: better keep a copy. With each
            function goes what it encloses, pickled once to see whether it can travel and, beyond 16 KiB, once more when
            its first tasklet begins, as it is then; large arrays are better an input. One that dies costs one more try
            of its tasklet on a fresh one, then the tasklet. A function that cannot travel is called in a thread, and
            `explain` and the report say so. "inline": in this process, one at a time, while other workers do what else
            there is. "auto": threads, since a function may keep what it was given or change what it encloses.
        scratch: most bytes of scratch in use at a time: a number, or text such as "256MB".
        scratch_memory: most bytes of that which stay in memory, where functions find them without a copy; the rest is
            written to files. "auto": a quarter of the memory that is free when the run begins; 0: all to files.
        order: "disk": by the place of the first input on the disk, and scratch is freed early; "given": as added.
            Either way what a tasklet needs comes before it.
        prefetch: most bytes that are read ahead of the tasklets that have begun; 0: nothing is.
        pin: whether each worker stays on a CPU of its own until the run returns, and with it the worker process that
            it calls: a physical core each while there are any, then an SMT sibling, near one another. Where the system
            refuses, nothing is pinned; the report's `pinned_cpus` says which CPU each had.
        keep_going: whether the others go on when a tasklet fails, but those that need it.
        keep_every_s: how often finished tasklets are committed and noted in the journal, in seconds: what a crash
            can cost.
        journal: where finished tasklets are noted; default: in the first output's store.
        on: Dask cluster whose workers call the functions, as of `Plan.collect`; None: this process does. A function and
            handles of its inputs travel; a worker opens the stores by itself, and gives the function selections. What
            it writes and returns comes back to this process, which alone writes stores. As many tasklets are under way
            as the cluster has threads when the run begins; `workers` and `on_workers` do not matter to functions then.
            Plans, and functions with inputs that are scratch or not committed yet, run in this process. The call of a
            lost worker is repeated, up to three times.
        paths: where these workers find stores: path prefixes here, and what they are there.
        tune: True: change how many workers take tasklets while they run, where trials show that it gains; "recommend":
            change nothing, and report what would be best; or a `Configuration` of an earlier run, or the file of one.
            Outputs are the same. It needs ``workers="auto"``, and works on this machine: not together with `on`.

    Raises:
        OptionError: an option without a legal value.

    >>> import isochrony as iso, numpy as np, tempfile
    >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    >>> sig = store.create("pressure", dtype="i2", rate=100)
    >>> _ = sig.append(np.arange(4000, dtype="i2"))
    >>> loud = store.create("doubled", dtype="f8", rate=100)
    >>> _ = loud.reserve(4000)
    >>> def double(inputs, outputs):
    ...     outputs[0][:] = np.asarray(inputs[0]) * 2.0
    >>> executor = iso.Executor(workers=2)
    >>> for start in range(3000, -1, -1000):
    ...     part = slice(start, start + 1000)
    ...     executor.add(iso.Tasklet(double, [sig[part]], [loud[part]]))
    >>> report = executor.run()
    >>> loud[3998:].values()
    array([7996., 7998.])
    >>> [one.place for one in report.tasklets]
    [3, 2, 1, 0]
    """

    def __init__(
        self,
        *,
        workers: int | Literal["auto"] | None = None,
        on_workers: OnWorkers = "auto",
        scratch: int | str = "1GiB",
        scratch_memory: int | str = "auto",
        order: Literal["disk", "given"] = "disk",
        prefetch: int | str = "32MiB",
        pin: bool = False,
        keep_going: bool = True,
        keep_every_s: float = 1.0,
        journal: str | os.PathLike[str] | None = None,
        on: Any = None,
        paths: dict[str, str] | None = None,
        tune: bool | str | os.PathLike[str] | Configuration = False,
    ) -> None:
        # Checked here; the identity of what is run is known later.
        is_tuned = PoolTuningRequest.of(tune, (), has_buffers=False, checks_identity=False) is not None
        if workers is None:
            workers = "auto" if is_tuned else 1
        if is_tuned and not is_auto(workers):
            raise OptionError(
                f"tune={tune!r} is refused with workers={workers!r}, which is all that it could change; give "
                'workers="auto", or leave out one of them'
            )
        if is_tuned and on is not None:
            raise OptionError(f"tune={tune!r} works on this machine, not on a cluster; leave out tune= or on=")
        self._tune = tune
        choice("order", order, ("disk", "given"))
        choice("on_workers", on_workers, _PLACES)
        self._on_workers: OnWorkers = on_workers
        every: Any = keep_every_s
        if isinstance(every, bool) or not isinstance(every, Real) or not 0 <= float(every) <= 1e9:
            raise OptionError(f"keep_every_s={keep_every_s!r} is refused; give a number of seconds, 0 or more")
        self._settings: dict[str, Any] = {
            "workers": worker_count("workers", workers),
            "scratch": byte_count("scratch", scratch),
            "scratch_memory": _in_memory(scratch_memory),
            "given": order == "given",
            "prefetch": byte_count("prefetch", prefetch, 0),
            "pin": flag("pin", pin),
            "keep_going": flag("keep_going", keep_going),
            "keep_every_s": float(keep_every_s),
            "journal": _journal(journal),
            "tuning": None,
        }
        self._place = RunOptions.of(on=on, paths=paths)
        self.tasklets: list[Tasklet] = []

    def add(self, *tasklets: Tasklet) -> None:
        """Add tasklets.

        Raises:
            OptionError: something else.
        """
        for one in tasklets:
            if not isinstance(one, Tasklet):
                raise OptionError(f"add({one!r}) is refused; give an isochrony.Tasklet")
        self.tasklets.extend(tasklets)

    def explain(self, *, resume: bool = False) -> str:
        """The order in which tasklets would be run, and why; runs nothing. Errors are those of `run`, beforehand."""
        text = explain_tasklets(self._described(None), self._settings, resume, (_call, _took))
        if self._place.on is None:
            return text
        return f"{text}functions are called by workers of {self._place.on.scheduler.address}\n"

    def _described(self, slots: TaskletSlots | None) -> list[tuple[Any, ...]]:
        writes_once(self.tasklets)
        return [one._described(self._on_workers, slots) for one in self.tasklets]

    def _request(self) -> PoolTuningRequest | None:
        """What is tuned: a configuration is for tasklets of the same functions."""
        functions = sorted({one.function_name for one in self.tasklets})
        return PoolTuningRequest.of(self._tune, functions, has_buffers=False)

    def _reported(
        self, done: dict[str, Any], results: dict[str, Any], resume: bool, request: PoolTuningRequest | None
    ) -> TaskletsReport:
        if resume or self._settings["journal"] is not None:
            unkept = [(one.name, one._unkept) for one in self.tasklets if one._unkept is not None]
            done["notes"] = [*done["notes"], *never_kept(unkept)]
        tuned = done.pop("tuning")
        return report(done | {"tuning": request.report(tuned) if request is not None and tuned else None}, results)

    def run(self, *, resume: bool = False, progress: bool = False) -> TaskletsReport:
        """Run them all.

        Outputs are committed with what else waits for a commit in their stores, once every `keep_every_s` and at the
        end; others never see a part of a tasklet. Ctrl-C lets running tasklets end, but those in worker
        processes, which are killed, and what was finished is kept: a Python function of this process that does not
        return can only be left by ending the process (SIGTERM, SIGKILL), which costs no more than `keep_every_s`.

        Parameters:
            resume: keep what an earlier run finished, however that ended: tasklets of the same name, inputs, outputs
                and function (its code, defaults, attributes, what it encloses and the arguments of a
                `functools.partial`, as they were when the tasklet was made) or plan. What changed is run again, with
                what needs it, and the report's `notes` say so, and so is what returned something that JSON does not
                give back as it was, such as an array or a tuple, and what encloses something that cannot be compared
                with what it was: what cannot be pickled, such as a generator or a socket, plans over arrays, values
                nested deeper than 100. Not noticed are: other samples in an input or in an enclosed signal, and which
                store that is of; other functions, classes and globals that a function uses by name, and other methods
                of a class of the same name; the order of a dict's keys; what an object's pickle leaves out; how far an
                open file was read, and what is in it; other code of Python functions in plans; arrays of 1 MiB or
                more, and tables, that change after one tasklet that encloses them was made and before another is, with
                no run between. Samples in the outputs of tasklets that were not finished are made again, by whomever
                they were written since.
            progress: draw a progress line on a terminal.

        Returns:
            A `TaskletsReport`.

        Raises:
            OptionError: before anything is run: plans of two tasklets have a sink to the same.
            TaskletValueError: before anything is run: tasklets that wait for one another, two that write one sample, an
                input that nobody writes, an output that is there already, a budget of scratch that is too small.
            TaskletError: a tasklet failed. Its `report` says which, and which were not run because of it; what a
                function raised is its `__cause__`.
            TaskletOSError: the journal cannot be written.
            StoreError: a store cannot be written.
            KeyboardInterrupt: run again with `resume` later.
        """
        forget()
        with self._slots() as slots:
            return self._run(slots, resume, progress)

    @contextmanager
    def _slots(self) -> Iterator[TaskletSlots | None]:
        if self._place.on is None:
            yield None
            return
        from ..cluster.tasklets import TaskletSlots

        slots = TaskletSlots(self._place)
        try:
            yield slots
        finally:
            slots.close()

    def _run(self, slots: TaskletSlots | None, resume: bool, progress: bool) -> TaskletsReport:
        results: dict[str, Any] = {}
        described, calls, settings = self._described(slots), (_call, _took), self._settings
        request = self._request()
        if request is not None:
            settings = settings | {"tuning": request.json()}
        if slots is not None:
            settings = settings | {"workers": min(max(slots.count(), 1), MAX_WORKERS), "prefetch": 0}
        with ImportProgress("running", enabled=None if progress else False) as line:

            def draw(done: int, total: int, _tasklets: int, _of: int) -> None:
                line(done, total, 0, 0)

            try:
                stop = None if slots is None else slots.stop
                done = run_tasklets(described, settings, resume, calls, results, (draw if progress else None, stop))
                if slots is not None:
                    done["notes"] = [*done["notes"], *slots.notes()]
                return self._reported(done, results, resume, request)
            except TaskletError as error:
                found = getattr(error, "_report", None)
                if found is not None:
                    error.report = self._reported(found, results, resume, request)
                raise
            finally:
                # What ran may have changed what it encloses.
                forget()

    def __repr__(self) -> str:
        return f"<Executor of {len(self.tasklets)} tasklets on {self._settings['workers']} workers>"


def _in_memory(given: int | str) -> int | None:
    if is_auto(given):
        return None
    return byte_count("scratch_memory", given, 0, ', or "auto"')


def _journal(given: object) -> Path | None:
    if given is not None and not isinstance(given, str | os.PathLike):
        raise OptionError(f"journal={given!r} is refused; give the path of a file, or leave it out")
    return None if given is None else Path(given)


def _listed(which: str, given: Any) -> list[Any]:
    try:
        return list(given)
    except TypeError:
        raise OptionError(f"{which}={given!r} is refused; give a list: {which}=[...]") from None


def _selections(which: str, given: Any) -> list[Selection]:
    # The usual type first: there are thousands.
    if type(given) is not list and isinstance(given, Selection | Signal):
        raise OptionError(f"{which}={given!r} is refused; put it in a list, such as {which}=[signal[0:4096]]")
    several = _listed(which, given)
    for one in several:
        if type(one) is not Selection:
            raise OptionError(f"{which}=[{one!r}] is refused; give ranges of signals, such as [signal[0:4096]]")
    return several


def _names(after: Any) -> tuple[str, ...]:
    if after == ():
        return ()
    if isinstance(after, str | Tasklet):
        raise OptionError(f"after={after!r} is refused; put it in a list: after=[...]")
    several = tuple(_listed("after", after))
    for one in several:
        if not isinstance(one, str | Tasklet):
            raise OptionError(f"after=[{one!r}] is refused; give tasklets or their names")
    return tuple(one.name if isinstance(one, Tasklet) else one for one in several)


def _bounds(selection: Selection) -> str:
    ranges = selection.ranges
    return f"{ranges[0][0]}:{ranges[-1][1]}" if ranges else "empty"
