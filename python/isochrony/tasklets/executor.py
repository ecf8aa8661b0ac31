"""Tasklets: explicit units of work over ranges of signals, executed in disk order on all cores.

A tasklet states its work, its inputs and its outputs. The executor derives from that the dependencies, the order in
which the disk is read, and the scratch in use.
"""

from __future__ import annotations

import os
import pickle
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .._native import Selection, check_scans, explain_tasklets, prefetch, run_tasklets
from ..errors.native import OptionError, TaskletError
from ..functions.python import OnWorkers, shown
from ..options import byte_count, choice, flag, is_auto
from ..output.progress import ImportProgress
from ..running.options import MAX_WORKERS, RunOptions, worker_count
from ..running.status_files import PoolStatus
from ..steps.chain import Chain
from ..tuning.configuration import Configuration, cluster_machine
from ..tuning.pools import PoolTuningRequest
from .identity import NoIdentityError, forget, identity
from .output import Output
from .plans import known, writes_once
from .report import TaskletsReport
from .results import kept, never_kept, owned, report
from .selections import bounds_text, checked_selections, listed

if TYPE_CHECKING:
    from ..cluster.tasklets import TaskletSlots

__all__ = ["Executor", "Output", "Tasklet", "prefetch"]

_PLACES = ("auto", "threads", "processes", "inline")


class Tasklet:
    """A unit of work over ranges of signals: a function or a plan, with its inputs and outputs.

    A tasklet with a plan (``iso.scan(signal)...``) that scans a whole signal reads only its inputs of that signal. So
    one plan serves many tasklets, which are then the cheapest to make and to run. The plan's samples or windows go to
    the output; without an output, the result of `Plan.collect` is in the report's `values`. Only one tasklet of an
    executor may have a plan that writes to a given signal or file (`sink`, `sink_wav`, `sink_parquet`, `sink_ipc`):
    others would overwrite it; use `outputs` instead. Several tasklets may add events (`annotate`) or call the same
    function (`each`).

    Parameters:
        work: a function of `(inputs, outputs)`, or a plan. `inputs` is a list of `Selection` (``np.asarray(inputs[0])``
            gives the samples), `outputs` a list of `Output`. What the function returns is in the report's `values`;
            arrays that share memory with samples are copied, also inside lists, tuples, dicts and dataclasses. Arrays
            that the function stores elsewhere stay valid. A `Selection` of scratch cannot be read after the function
            has returned.
        inputs: selections of signals, such as ``[signal[0:4096]]``; for a plan, those of the signals that it scans. The
            position of the first one on disk determines the order. A tasklet that reads what another one writes waits
            for it.
        outputs: selections of signals with reserved samples (`Signal.reserve`), or of scratch signals
            (`Store.scratch`).
        after: other tasklets, or their names, that must finish first.
        name: name of the tasklet, unique in the executor; None: made of the function and its first output or input.
        on_workers: where the function is called: "threads", "processes" or "inline", as for `Executor`; None: as the
            executor states.

    Raises:
        OptionError: a parameter out of range.

    >>> import isochrony as iso, numpy as np, tempfile
    >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    >>> signal = store.create("pressure", dtype="i2", rate=100)
    >>> _ = signal.append(np.arange(4000, dtype="i2"))
    >>> executor = iso.Executor()
    >>> executor.add(iso.Tasklet(lambda inputs, _: int(np.max(inputs[0])), [signal[:1000]], name="loudest"))
    >>> executor.add(iso.Tasklet(iso.scan(signal[:1000]).rewindow(100).count(), [signal[:1000]], name="windows"))
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
        self.inputs = checked_selections("inputs", inputs)
        self.outputs = checked_selections("outputs", outputs)
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
            # Now, and not when it is run: what a function captures may change with each run.
            self._identity = identity(work)
        except NoIdentityError as error:
            self._unkept = str(error)
        if name is not None and not isinstance(name, str):
            raise OptionError(f"name={name!r} is refused; give text, or leave it out")
        self.name: str = name or self._called()

    def _called(self) -> str:
        function = "plan" if isinstance(self.work, Chain) else getattr(self.work, "__name__", self.function_name)
        about = (self.outputs or self.inputs)[:1]
        return " ".join([function, *(f"{one.name}[{bounds_text(one)}]" for one in about)])

    def __repr__(self) -> str:
        return f"<Tasklet {self.name!r}: {len(self.inputs)} inputs, {len(self.outputs)} outputs>"

    def _described(self, on_workers: OnWorkers | Literal["cluster"], slots: TaskletSlots | None) -> tuple[Any, ...]:
        work: Any = self.work
        is_plan = isinstance(work, Chain)
        function, plan = (None, work._native) if is_plan else (work, None)
        place = "" if is_plan else on_workers if on_workers == "cluster" else self.on_workers or on_workers
        if slots is not None and not is_plan:
            function = slots.wrapped(work, self.name)
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
    """Runs tasklets on several workers: in disk order, and with a limit on scratch.

    A tasklet starts when all tasklets that it depends on have finished. One that writes scratch starts only if the
    remaining scratch suffices to run all earlier tasklets one by one. So a run cannot deadlock, and a limit that is too
    small is refused before the run.

    Plans run in parallel. Python functions are called in threads of this process, in parallel only while they release
    the interpreter's lock (GIL), as NumPy does in large operations; or in worker processes, always in parallel.

    In a worker process the function is a copy, as `isochrony.py` states: apart from its outputs, its changes do not
    reach this process. Samples are in shared memory; the function gets objects with the methods of `Selection` that
    need no store, and cannot scan them. Return values and exceptions come back pickled; `__cause__` and `__context__`
    of an exception are in the text of its note. Ctrl-C kills the process at once. An array of samples that the function
    stores holds all memory of the tasklet's samples and an open file: store a copy instead. The variables that a
    function captures (its closure) are pickled once to test it and, if larger than 16 KiB, again when its first tasklet
    starts; pass large arrays as inputs. If a process dies, its tasklet is tried once more in a new process. A function
    that cannot be pickled is called in a thread; `explain` and the report say so.

    On a Dask cluster (`on`), the function and references to its inputs are sent; workers open the stores themselves.
    Outputs and return values come back to this process, the only one that writes to stores. The number of tasklets at a
    time is the number of the cluster's threads at the start of the run; `workers` and `on_workers` do not apply to
    functions then. Plans, and functions with scratch or uncommitted inputs, run in this process. If a worker is lost,
    its call is repeated up to three times.

    Parameters:
        workers: number of threads, from 1; "auto": one per core. None: 1, with `tune` "auto".
        on_workers: where Python functions are called. "threads": in the threads of the workers. "processes": in worker
            processes, one per worker, started with the run, in some tenths of a second. "inline": in this process one
            at a time, while other workers run plans. "auto": "threads", since a function may store its arguments or
            change variables that it captures.
        scratch: largest number of bytes of scratch at a time, or text such as "256MB".
        scratch_memory: largest number of bytes of scratch in memory, which functions use without a copy; the rest is in
            files. "auto": a quarter of the free memory at the start of the run; 0: all in files.
        order: "disk": by position of the first input on disk, freeing scratch early; "given": as added. In both,
            dependencies come first.
        prefetch: largest number of bytes to read ahead of running tasklets; 0: no read-ahead.
        pin: pin each worker, and its worker process, to a CPU until the run returns: to physical cores first, then to
            SMT siblings, near one another. If the system refuses, nothing is pinned; the report's `pinned_cpus` has the
            CPUs.
        keep_going: after a failure, run all tasklets that do not depend on the failed one; False: stop.
        keep_every_s: seconds between commits of finished tasklets, 0 to 1e9; a crash loses at most the work of this
            time.
        journal: path of the file that records finished tasklets; None: in the store of the first output.
        on: Dask client or cluster whose workers call the functions, as for `Plan.collect`; None: this process.
        paths: path prefixes of stores on these workers, by path prefix here.
        tune: True: change the number of workers during the run when trials show a gain; "recommend": change nothing,
            and report the best number; or a `Configuration` of an earlier run, or the path of its file. Outputs stay
            the same. Needs ``workers="auto"``. With `on`: the number of the cluster's slots (threads of its workers)
            that are given tasklets, the first that joined; a configuration that used all slots of another cluster uses
            all of this one, and one that used fewer at most as many. A cluster with one slot has no tuning report.

    Raises:
        OptionError: a parameter out of range, or a combination that is refused.

    >>> import isochrony as iso, numpy as np, tempfile
    >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    >>> signal = store.create("pressure", dtype="i2", rate=100)
    >>> _ = signal.append(np.arange(4000, dtype="i2"))
    >>> doubled = store.create("doubled", dtype="f8", rate=100)
    >>> _ = doubled.reserve(4000)
    >>> def double(inputs, outputs):
    ...     outputs[0][:] = np.asarray(inputs[0]) * 2.0
    >>> executor = iso.Executor(workers=2)
    >>> for start in range(3000, -1, -1000):
    ...     part = slice(start, start + 1000)
    ...     executor.add(iso.Tasklet(double, [signal[part]], [doubled[part]]))
    >>> report = executor.run()
    >>> doubled[3998:].values()
    array([7996., 7998.])
    >>> [tasklet.place for tasklet in report.tasklets]
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
        if is_tuned and on is not None and not is_auto(workers):
            raise OptionError(
                f"tune={tune!r} is refused with workers={workers!r}: on a cluster it changes how many of the cluster's "
                "slots are given tasklets, and workers= has no effect on them; leave out workers="
            )
        if is_tuned and not is_auto(workers):
            raise OptionError(
                f"tune={tune!r} is refused with workers={workers!r}, which is all that it could change; give "
                'workers="auto", or leave out one of them'
            )
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
        """Add tasklets to those that the next run executes.

        Parameters:
            tasklets: any number of `Tasklet`.

        Raises:
            OptionError: an argument is not a `Tasklet`.

        >>> import isochrony as iso
        >>> executor = iso.Executor()
        >>> executor.add(iso.Tasklet(lambda inputs, outputs: 3, name="three"))
        >>> len(executor.tasklets)
        1
        """
        for one in tasklets:
            if not isinstance(one, Tasklet):
                raise OptionError(f"add({one!r}) is refused; give an isochrony.Tasklet")
        self.tasklets.extend(tasklets)

    def explain(self, *, resume: bool = False) -> str:
        """Show the order in which tasklets would run, with the reasons, without running them.

        Parameters:
            resume: as for `run`.

        Returns:
            A str with a line per tasklet.

        Raises:
            TaskletValueError: as `run`, before it starts.

        >>> import isochrony as iso
        >>> executor = iso.Executor()
        >>> executor.add(iso.Tasklet(lambda inputs, outputs: 3, name="three"))
        >>> "three" in executor.explain()
        True
        """
        text = explain_tasklets(self._described(None), self._settings, resume, (_call, _took))
        if self._place.on is None:
            return text
        return f"{text}functions are called by workers of {self._place.on.scheduler.address}\n"

    def _described(self, slots: TaskletSlots | None) -> list[tuple[Any, ...]]:
        writes_once(self.tasklets)
        place: OnWorkers | Literal["cluster"] = self._on_workers if self._place.on is None else "cluster"
        return [one._described(place, slots) for one in self.tasklets]

    def _request(self) -> PoolTuningRequest | None:
        """What is tuned: a configuration is for tasklets of the same functions."""
        functions = sorted({one.function_name for one in self.tasklets})
        machine = ""
        if self._tune is not False and self._place.on is not None:
            from ..cluster.connect import processors_of

            machine = cluster_machine(processors_of(self._place.on))
        return PoolTuningRequest.of(self._tune, functions, has_buffers=False, machine=machine)

    def _reported(
        self, done: dict[str, Any], results: dict[str, Any], resume: bool, request: PoolTuningRequest | None
    ) -> TaskletsReport:
        if resume or self._settings["journal"] is not None:
            unkept = [(one.name, one._unkept) for one in self.tasklets if one._unkept is not None]
            done["notes"] = [*done["notes"], *never_kept(unkept)]
        tuned = done.pop("tuning")
        return report(done | {"tuning": request.report(tuned) if request is not None and tuned else None}, results)

    def run(self, *, resume: bool = False, progress: bool = False) -> TaskletsReport:
        """Run all tasklets.

        Outputs are committed, together with other pending changes of their stores, every `keep_every_s` and at the end.
        Readers never see a part of a tasklet's output. After Ctrl-C, running tasklets finish, those in worker processes
        are killed, and finished ones are kept. A Python function in this process that never returns can only be stopped
        by ending the process (SIGTERM, SIGKILL), which costs at most the work of `keep_every_s`.

        **Resuming.** A tasklet that an earlier run finished is kept if its name, inputs, outputs and plan or function
        are the same. For a function that covers its code, defaults, attributes, captured variables, and arguments of a
        `functools.partial`, as they were when the tasklet was made. Other tasklets run again, and so do those that
        depend on them. The report's `notes` list them, with tasklets whose return values JSON does not preserve (such
        as arrays and tuples) and functions whose captured variables cannot be compared: objects that cannot be pickled,
        such as generators and sockets, plans over arrays, and values nested deeper than 100. Not noticed are: changed
        samples of an input or a captured signal, or another store; changes of functions, classes and globals that a
        function uses by name, or of methods of a class; the order of a dict's keys; state that an object's pickle
        leaves out; the position in an open file and its content; changed code of Python functions in plans; and changes
        of arrays of 1 MiB or more, and of tables, between the making of two tasklets that enclose them, without a run
        in between. Outputs of unfinished tasklets are computed again, whatever was written to them since.

        Parameters:
            resume: keep tasklets that an earlier run finished, also one that failed or was stopped.
            progress: draw a progress line on a terminal.

        Returns:
            A `TaskletsReport`: prints as a few lines; `values` has what functions returned, by name of tasklet.

        Raises:
            OptionError: before the run: plans of two tasklets write to the same sink.
            TaskletValueError: before the run: tasklets that wait for one another, two that write the same samples, an
                input that nothing writes, an output with samples already, or too little scratch.
            TaskletError: a tasklet failed. `report` states which one, and which were not run for that reason;
                `__cause__` is the exception of the function.
            TaskletOSError: the journal cannot be written.
            StoreError: a store cannot be written.
            KeyboardInterrupt: run again with `resume`.

        >>> import isochrony as iso
        >>> executor = iso.Executor()
        >>> executor.add(iso.Tasklet(lambda inputs, outputs: 3, name="three"))
        >>> report = executor.run()
        >>> report.values, report.tasklets[0].state
        ({'three': 3}, 'done')
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

        slots = TaskletSlots(self._place, uses_first=self._tune is not False)
        try:
            yield slots
        finally:
            slots.close()

    def _run(self, slots: TaskletSlots | None, resume: bool, progress: bool) -> TaskletsReport:
        results: dict[str, Any] = {}
        described, calls, settings = self._described(slots), (_call, _took), self._settings
        request = self._request()
        if slots is not None:
            count = min(max(slots.count(), 1), MAX_WORKERS)
            settings = settings | {"workers": count, "prefetch": 0}
            request = None if request is None else request.of_slots(count)
        if request is not None:
            settings = settings | {"tuning": request.json()}
        shown = nullcontext() if request is None else PoolStatus("tasklets", request.shown())
        with ImportProgress("running", enabled=None if progress else False) as line, shown as status:

            def watch(done: int, total: int, tasklets: int, of: int) -> None:
                if status is not None and total:
                    status.show(done, total, "bytes")
                elif status is not None:
                    status.show(tasklets, of, "tasklets")
                if progress:
                    line(done, total, 0, 0)

            try:
                stop = None if slots is None else slots.stop
                is_joining = None if slots is None or request is None else slots.are_joining
                watchers = (watch if progress or status is not None else None, stop, is_joining)
                done = run_tasklets(described, settings, resume, calls, results, watchers)
                if slots is not None:
                    done["notes"] = [*done["notes"], *slots.notes()]
                return self._reported(done, results, resume, request)
            except TaskletError as error:
                found = getattr(error, "_report", None)
                if found is not None:
                    error.report = self._reported(found, results, resume, request)
                raise
            finally:
                # What ran may have changed what it captures.
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


def _names(after: Any) -> tuple[str, ...]:
    if after == ():
        return ()
    if isinstance(after, str | Tasklet):
        raise OptionError(f"after={after!r} is refused; put it in a list: after=[...]")
    several = tuple(listed("after", after))
    for one in several:
        if not isinstance(one, str | Tasklet):
            raise OptionError(f"after=[{one!r}] is refused; give tasklets or their names")
    return tuple(one.name if isinstance(one, Tasklet) else one for one in several)
