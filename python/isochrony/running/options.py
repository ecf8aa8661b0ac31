"""Run options: the keyword arguments of `isochrony.collect`, `Plan.collect` and their like, each declared once.

An option is an entry of `RunKeywords`, with its default, its check and its help text. Signatures, docstrings and flags
of ``isochrony run`` are made from the entries. A value acts where flow's ``RunOptions`` has a field of the same name
(``crates/flow``); `RunOptions.settings` carries it there.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, ParamSpec, Self, TypedDict, TypeVar, Unpack

import numpy as np

from .._native import NativeControl, available_cores
from ..errors.native import OptionError
from ..options import byte_count, flag, is_auto
from ..options.keywords import Option, declared_options, listing_options
from ..tuning import Configuration, TuningRequest, checked_tune, parsed_tune
from .control import Control
from .status_files import status_path

if TYPE_CHECKING:
    from ..cluster import ClusterRun

__all__ = ["OPTIONS", "Option", "RunKeywords", "RunOptions", "takes_run_options", "worker_count"]

# Threads beyond this only cost memory.
MAX_WORKERS = 1024

#: Set in our worker processes.
WORKER_VARIABLE = "ISOCHRONY_WORKER"

P = ParamSpec("P")
R = TypeVar("R")


def worker_count(name: str, workers: object) -> int:
    """How many workers are asked for; "auto": `auto_workers`.

    Raises:
        OptionError: neither "auto" nor a whole number from 1 to 1024.
    """
    if is_auto(workers):
        return auto_workers()
    if isinstance(workers, int | np.integer) and not isinstance(workers, bool) and 1 <= workers <= MAX_WORKERS:
        return int(workers)
    legal = f'a whole number from 1 to {MAX_WORKERS}, or "auto" for a worker a core'
    raise OptionError(f"{name}={workers!r} is refused; give {legal}")


def auto_workers() -> int:
    """As many as there are cores that this process may use, by its affinity and its control group; 1 inside a worker
    process of ours, of `multiprocessing`, of Dask or of PyTorch, whose siblings use the other cores.
    """
    is_worker = bool(os.environ.get(WORKER_VARIABLE)) or multiprocessing.parent_process() is not None
    if is_worker or _in_dask_worker() or _in_torch_worker():
        return 1
    return min(available_cores(), MAX_WORKERS)


def _in_dask_worker() -> bool:
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return False
    try:
        distributed.get_worker()
    except (AttributeError, ValueError):
        return False
    return True


def _in_torch_worker() -> bool:
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def _tolerance(name: str, tolerance: Any) -> float:
    number = isinstance(tolerance, int | float | np.integer | np.floating) and not isinstance(tolerance, bool)
    if number and 0.0 <= float(tolerance) < 1.0:
        return float(tolerance)
    raise OptionError(f"{name}={tolerance!r} is refused; give a number from 0 to below 1, such as 1e-9")


def _latency(name: str, latency: object) -> float | None:
    if latency is None:
        return None
    number = isinstance(latency, int | float | np.integer | np.floating) and not isinstance(latency, bool)
    if number and 0 < float(latency) < float("inf"):  # type: ignore[arg-type]
        return float(latency)  # type: ignore[arg-type]
    raise OptionError(f"{name}={latency!r} is refused; give seconds above 0, such as 0.01, or None")


def _memory(name: str, memory: object) -> int | None:
    return None if memory is None else byte_count(name, memory)


def _control(name: str, control: object) -> NativeControl | None:
    if control is not None and not isinstance(control, Control):
        raise OptionError(f"{name}={control!r} is refused; give an isochrony.Control, or leave it out")
    return None if control is None else control._native


def _on(name: str, client: object) -> Any:
    if client is None:
        return None
    from ..cluster import checked_client

    return checked_client(name, client)


def _scale(name: str, scale: object) -> tuple[int, int] | None:
    if scale is None:
        return None
    if isinstance(scale, tuple | list) and len(scale) == 2:
        least, most = scale
        whole = all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in scale)
        if whole and 0 <= least <= most and 1 <= most <= MAX_WORKERS:
            return int(least), int(most)
    raise OptionError(
        f"{name}={scale!r} is refused; give the least and the most workers, such as (1, 8), at most {MAX_WORKERS}"
    )


def _absolute(path: str) -> str:
    """A path as stores have it: a URL is absolute as it is."""
    return path if "://" in path else str(Path(path).absolute())


def _paths(name: str, paths: object) -> dict[str, str]:
    if paths is None:
        return {}
    if isinstance(paths, dict) and all(isinstance(one, str | os.PathLike) for pair in paths.items() for one in pair):
        return {_absolute(os.fspath(old)): os.fspath(new) for old, new in paths.items()}
    raise OptionError(f'{name}={paths!r} is refused; give path prefixes, such as {{"/home/me/data": "/mnt/data"}}')


class RunKeywords(TypedDict, total=False):
    """The options, by name."""

    workers: Annotated[
        int | Literal["auto"],
        Option(
            default="auto",
            check=worker_count,
            help='threads that share the work; "auto": one for each core that the process may use',
            details="""Each takes a portion of the recording at a time and computes what depends on it alone, or on a
                stated number of samples around it: stateless operators, `fir` of few taps, `resample`, `decimate`, also
                where plans branch and are combined, and the part of `count` and `group_by` for a portion. Python
                functions are called in a worker process for each (see `isochrony.py`). A plan of which no part can be
                done in portions, as one that filters recursively or reads a live feed, is cut into stages, which work
                at the same time, each in order. Sinks, and sequential operators beside portions, run in this thread,
                in order along each branch; branches alternate portion by portion, in the plan's order, instead of
                block by block. Results are the same bits for any number; `explain` says what is done where. "auto" is
                1 where the plan is short, may end early, calls Python functions or reads what is made
                or received while it runs (`explain` says why), and inside a worker process of this package,
                `multiprocessing`, Dask or PyTorch. 1: all in this thread, except sums and means of `group_by`, which
                one thread beside it computes of the same
                portions.""",
            metavar="N",
            parse=lambda text: text if text == "auto" else int(text),
        ),
    ]
    tolerance: Annotated[
        float,
        Option(
            default=0.0,
            check=_tolerance,
            help="largest relative error allowed, from 0 to below 1, such as 1e-9, so that recursive and long filters "
            "can run on several cores; 0: exact results, such filters run on one core",
            details="""It is relative to the largest values that go into a result, and beside a rounding of their type.
                Operators that settle with time (`iir`, `zero_phase`, `fir` of many taps, running means) run on workers
                where the error that `explain` states, as 1e-9, is allowed: on portions of a recording, and on live and
                generated samples in cells of a fixed length. NaN and infinities then reach to the end of their portion
                or cell; in one pass they reach to the end of the gap-free range. Bits are the same for any number of
                workers, one included, and however samples arrive. The results of a portion need about 4 MiB of memory.
                0: such operators run in order, in one thread.""",
            metavar="E",
            parse=float,
        ),
    ]
    pin: Annotated[
        bool,
        Option(
            default=False,
            check=flag,
            help="keep each thread on a CPU of its own, the calling one too, until the run returns",
            details="""Each gets a physical core of its own while there are any, then an SMT sibling; threads are near
                one another: on one last-level cache, then one NUMA node, while these have cores. This thread keeps the
                CPU that it runs on, and its affinity is restored at the end, also by an error. CPUs are those that it
                may use; with more threads than CPUs some share one. Stages that pass each other much are preferred by
                threads that share a cache. Threads and processes that Python functions start meanwhile inherit the
                CPU. Where the system refuses, nothing is pinned; `report.pinned_cpus` says which CPU each thread had.
                Results are the same.""",
        ),
    ]
    measure: Annotated[
        bool,
        Option(
            default=True,
            check=flag,
            help="measure where time is spent, for the report",
            details="""It costs at most 1 % of the throughput. Without it the times of operators and stages are 0;
                counts stay.""",
        ),
    ]
    latency: Annotated[
        float | None,
        Option(
            default=None,
            check=_latency,
            help="most seconds that operators hold complete results back to pass on more at once, such as 0.01 "
            "(default: as long as samples keep coming)",
            details="""It is for live plans that have more to do than pauses to do it in: where a source has nothing for
                a moment, all is passed on anyway. The time of computing, of waiting for a core and of `reorder=` comes
                on top. Results are the same; blocks, and so throughput, become smaller.""",
            metavar="S",
            parse=float,
        ),
    ]
    progress: Annotated[
        bool,
        Option(
            default=False,
            check=flag,
            help="draw a progress line on a terminal",
            is_setting=False,
        ),
    ]
    memory: Annotated[
        int | str | None,
        Option(
            default=None,
            check=_memory,
            help='limit on the memory of queues and blocks, such as "256MB" (default: 1GiB); the process as a '
            "whole takes more",
            details="""It holds for all threads together. Not counted are the result (with `as_=`, index and time of
                each sample too), samples that are mapped, which are the page cache's, buffers that others are read into
                (of each worker and signal up to 8 pieces: of 512 KiB by `io="read"` and `"io_uring"`, of 2 MiB by
                `"direct"` and `"io_uring_direct"`, or of `segment=` if that is longer), and what Python functions make:
                one block's arrays at a time in each thread or worker process, and all that they keep. Where it is short
                fewer workers are at work at once, and what one gave up for lack of it is done again, so a Python
                function may be called twice for the same windows. It changes no bit of the results.""",
            metavar="BYTES",
        ),
    ]
    on: Annotated[
        Any,
        Option(
            default=None,
            check=_on,
            help="Dask cluster whose workers execute the tasks: a client, a cluster, the address of a scheduler, or "
            '"local" for worker processes of this machine',
            details="""None: this process does. What runs on workers with `workers=2` runs there, in each thread of
                each worker; results are the same bits, in the same order. Each worker opens the stores of the plan
                under the same path. Sinks, Python functions that stay in the caller's thread, and operators that work
                in order run here, and a plan without anything else runs here as a whole. A live feed is received
                here, and workers are sent blocks of its samples. Workers may join and leave meanwhile.""",
            metavar="ADDRESS",
            is_setting=False,
        ),
    ]
    paths: Annotated[
        dict[str, str] | None,
        Option(
            default=None,
            check=_paths,
            help="where the workers of a cluster find stores: path prefixes here, and what these are there",
            details="""Such as ``paths={"/home/me/data": "/mnt/data"}``. The first one that fits is used.""",
            metavar="HERE=THERE",
            parse=lambda text: dict(one.split("=", 1) for one in text.split(",")),
            is_setting=False,
        ),
    ]
    scale: Annotated[
        tuple[int, int] | None,
        Option(
            default=None,
            check=_scale,
            help="least and most workers that the cluster is scaled to while the plan runs, such as (1, 8)",
            details="""None: the cluster stays as it is. It needs `on=` a cluster that starts workers itself, such as
                `SLURMCluster` or `LocalCluster`, or its client. The cluster grows where what is left would take its
                workers longer than 5 s, and shrinks where fewer suffice, at the end to the least. A worker is retired
                once it has finished what it had: nothing is repeated. Give it to one run of a cluster at a time.""",
            metavar="LEAST,MOST",
            parse=lambda text: tuple(int(one) for one in text.split(",")),
            is_setting=False,
        ),
    ]
    optimise: Annotated[
        bool, Option(default=True, check=flag, help="rewrite the plan before it runs; results are the same")
    ]
    tune: Annotated[
        bool | str | os.PathLike[str] | Configuration,
        Option(
            default=False,
            check=checked_tune,
            help="change threads, replicas and links while the plan runs, where trials show that it gains: yes, "
            '"recommend" to change nothing and report what would be best, or a saved configuration',
            details="""The results stay the same bits. `report.tuning` has the configuration at the end, the bottleneck,
                and every decision with its reason, what was predicted, what was measured and what else could have been
                tried. A run that is too short for a trial to pay is left as it is. A number given as `workers=` is not
                changed. With a `Configuration`, or in the shell the file of one, the run has that one from the start;
                one of another plan or machine is an `OptionError`. It works on this machine: not together with
                `on=`.""",
            metavar="yes|recommend|FILE",
            parse=parsed_tune,
            is_setting=False,
        ),
    ]
    control: Annotated[
        Control | None,
        Option(
            default=None,
            check=_control,
            help="what changes parameters, replicas and links while the plan runs",
            is_setting=False,
        ),
    ]


#: The declarations, by name.
OPTIONS: dict[str, Option] = declared_options(RunKeywords)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of one run, checked; passed whole to Rust.

    Attributes:
        settings: plain values by name; Rust has the defaults of those that are not there.
        control: what changes parameters.
        progress: whether a progress line is drawn.
        on: client of the cluster that executes tasks.
        paths: path prefixes of stores here, and what they are on its workers.
        scale: least and most workers of it.
        cluster: the slots of this run there; `running` sets it.
        request: what is tuned.
        tuning: the same as Rust reads it; `running` sets it.
    """

    settings: dict[str, Any]
    control: NativeControl | None = None
    progress: bool = False
    on: Any = None
    paths: dict[str, str] = field(default_factory=dict)
    scale: tuple[int, int] | None = None
    cluster: ClusterRun | None = None
    request: TuningRequest | None = None
    tuning: str | None = None

    @classmethod
    def of(cls, **given: Unpack[RunKeywords]) -> Self:
        """Check options.

        Raises:
            OptionError: one has no legal value.
            TypeError: there is none of that name.
        """
        settings: dict[str, Any] = {}
        others: dict[str, Any] = {}
        has_fixed_workers = not is_auto(given.get("workers", "auto"))
        given.setdefault("workers", "auto")
        settings["auto_workers"] = is_auto(given["workers"])
        for name, value in given.items():
            if name not in OPTIONS:
                raise TypeError(f"{name!r} is no run option; give {', '.join(OPTIONS)}")
            option = OPTIONS[name]
            checked = option.check(name, value)
            if not option.is_setting:
                others[name] = checked
            elif checked is not None:
                settings[name] = checked
        if others.get("paths") and others.get("on") is None:
            raise OptionError("paths= says where workers of a cluster find stores; give on=, too, or leave it out")
        if others.get("scale") and not hasattr(getattr(others.get("on"), "cluster", None), "scale"):
            raise OptionError(
                f"scale={others['scale']!r} needs on= a cluster that can scale, such as LocalCluster or SLURMCluster, "
                "or a client of one; a client that was connected by an address cannot start workers"
            )
        tune = others.pop("tune", False)
        others["request"] = _tuning_request(tune, settings, others, has_fixed_workers=has_fixed_workers)
        return cls(settings, **others)


def _tuning_request(
    tune: Any, settings: dict[str, Any], others: dict[str, Any], *, has_fixed_workers: bool
) -> TuningRequest | None:
    """What is tuned or measured; None if nobody asks for it."""
    if others.get("on") is not None:
        if tune is not False:
            raise OptionError(f"tune={tune!r} works on this machine, not on a cluster; leave out tune= or on=")
        return None
    if tune is False and not others.get("progress"):
        return None
    if isinstance(tune, Configuration):
        if not has_fixed_workers:
            settings.update(workers=tune.threads or settings["workers"], auto_workers=False)
        return TuningRequest("apply", configuration=tune, status=status_path(), threads=settings["workers"])
    mode = {True: "change", False: "measure"}.get(tune, "recommend")
    return TuningRequest(mode, has_fixed_workers, status=status_path(), threads=settings["workers"])


def takes_run_options(function: Callable[P, R]) -> Callable[P, R]:
    """Give a function with ``**options: Unpack[RunKeywords]`` a signature that lists them.

    A line ``{run_options}`` of its docstring becomes the list with their help.
    """
    return listing_options(function, RunKeywords, OPTIONS, "{run_options}")
