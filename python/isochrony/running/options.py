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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, ParamSpec, Self, TypedDict, TypeVar, Unpack

import numpy as np

from .._native import NativeControl, available_cores
from ..errors.native import OptionError
from ..options import byte_count, flag, is_auto
from ..options.keywords import Option, declared_options, did_you_mean, listing_options
from ..tuning.configuration import Configuration, TuningRequest, checked_tune, parsed_tune
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
    legal = f'a whole number from 1 to {MAX_WORKERS}, or "auto" for one per core'
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
        f"{name}={scale!r} is refused; give the fewest and the most workers, such as (1, 8), at most {MAX_WORKERS}"
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
            help='number of threads that compute; "auto": one per core that the process may use (default: auto)',
            details="""1 to 1024. Results are the same to the bit for any number; `explain` states what runs where, and
                why "auto" is 1 for some plans. 1: everything runs in the calling thread, except sums and means of
                `group_by`, which a second thread computes for the same parts. docs/how_a_plan_runs.md says what is
                divided among threads, and what stays in the calling one.""",
            metavar="N",
            parse=lambda text: text if text == "auto" else int(text),
        ),
    ]
    tolerance: Annotated[
        float,
        Option(
            default=0.0,
            check=_tolerance,
            help="largest allowed relative error, from 0 to below 1, such as 1e-9, so that recursive and long filters "
            "can run on several cores; 0: exact results, such filters run on one core",
            details="""Relative to the largest values that enter a result, in addition to rounding. Operators whose
                transient decays (`iir`, `zero_phase`, `fir` with many taps, running means) run on several workers if
                this allows their error, which `explain` states: on parts of a recording, and on live and generated
                samples in cells of a fixed length. NaN and infinities then spread to the end of their part or cell; in
                one pass they spread to the end of the gap-free range. Results are the same to the bit for any number of
                workers, also for 1, and for stored and live samples, however they arrive. The results of a part need
                about 1 MiB of memory. 0: such operators run in order, in one thread.""",
            metavar="E",
            parse=float,
        ),
    ]
    pin: Annotated[
        bool,
        Option(
            default=False,
            check=flag,
            help="pin each thread, including the calling one, to its own CPU during the run",
            details="""Physical cores are used first, then SMT siblings, near one another: within a last-level cache,
                then within a NUMA node. The calling thread keeps its current CPU; its affinity is restored at the end,
                after an error too. Only CPUs that the process may use are taken; if there are more threads than CPUs,
                some share one. Stages with much data between them preferably run in threads that share a cache.
                Threads and processes that Python functions start during the run inherit the CPU. If the system refuses,
                nothing is pinned; `report.pinned_cpus` has the CPU of each thread. Results are the same.""",
        ),
    ]
    measure: Annotated[
        bool,
        Option(
            default=True,
            check=flag,
            help="measure the time in each operator for the report",
            details="""Costs at most 1 % of the throughput. Without it, times of operators and stages are 0 in the
                report, `engine_share` and `latency` None; counts are not affected.""",
        ),
    ]
    latency: Annotated[
        float | None,
        Option(
            default=None,
            check=_latency,
            help="longest time in seconds that a result may wait in a buffer, such as 0.01, for live feeds (default: "
            "results are passed on in full buffers while samples keep arriving)",
            details="""Above 0. For live plans under full load: whenever a source has no samples for a moment, all
                results are passed on anyway. Time for computing, for waiting for a core, and of `reorder=` adds to it.
                Results are the same; blocks become smaller, and so does the throughput.""",
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
            help='limit on the memory of queues and buffers, such as "256MB" (default: 1GiB); the process as a whole '
            "uses more",
            details="""For all threads together. Not included: the result (with `as_=` also index and time of each
                sample); mapped samples, which are in the page cache; read buffers (per worker and signal up to 8: of
                512 KiB for `io="read"` and `"io_uring"`, of 2 MiB for `"direct"` and `"io_uring_direct"`, or of
                `segment=` if that is longer); and arrays of Python functions: those of one block in each thread or
                worker process, and all that they store. If memory is short, fewer workers compute at a time, and work
                that was abandoned is repeated, so a Python function may be called twice for the same windows. Results
                are the same to the bit.""",
            metavar="BYTES",
        ),
    ]
    on: Annotated[
        Any,
        Option(
            default=None,
            check=_on,
            help="Dask cluster that computes the plan: the address of its scheduler, or "
            '"local" for worker processes on this machine',
            details="""Also a Dask client or cluster object; None: this process computes. The operators that run on
                threads with `workers=2` run there, in each thread of each worker; results are the same to the bit, in
                the same order. Each worker opens the stores of the plan by the same path. Sinks, sequential operators,
                and Python functions that stay in the calling thread run in this process, as does a plan that has
                nothing else. A live feed is received here, and blocks of its samples are sent to workers. Workers may
                join and leave during the run.""",
            metavar="ADDRESS",
            is_setting=False,
        ),
    ]
    paths: Annotated[
        dict[str, str] | None,
        Option(
            default=None,
            check=_paths,
            help="path prefixes of stores on this machine, and what they are on the workers of a cluster, such as "
            '{"/home/me/data": "/mnt/data"}',
            flag_help="path prefixes of stores on this machine, and what they are on the workers of a cluster, such as "
            "/home/me/data=/mnt/data",
            details="The first prefix that matches is used.",
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
            help="fewest and most workers that the cluster is scaled to during the run, such as (1, 8)",
            flag_help="fewest and most workers that the cluster is scaled to during the run, such as 1,8",
            details="""None: the cluster is not scaled. Needs `on=` with a cluster that can start workers, such as
                `SLURMCluster` or `LocalCluster`, or a client of one. It grows while the rest of the run would take its
                workers more than 5 s, and shrinks while fewer suffice. Use it in only one run of a cluster at a time.
                docs/cluster.md has the details.""",
            metavar="FEWEST,MOST",
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
            help='True: adapt the number of threads during the run if trials show a gain; "recommend": change nothing, '
            "and report the best setting; or a `Configuration` or the path of its file, to start with it",
            flag_help="yes: adapt the number of threads during the run if trials show a gain; recommend: change "
            "nothing, and report the best setting; or the file of a saved configuration, to start with it",
            details="""Results are the same to the bit. `report.tuning` has the configuration at the end, the
                bottleneck, and each decision with its reason, the predicted and the measured gain, and the
                alternatives. A run that is too short for a trial to pay is not changed, nor is a stated number of
                `workers=`. A `Configuration` of another plan or machine is an `OptionError`. With `on=` batches of
                tasks and the number of slots in use are adapted. docs/tuning.md says what is adapted during a run and
                what is chosen before it.""",
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
            help="a `Control` that changes parameters, replicas and links during the run",
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
        scale: fewest and most workers of it.
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
                meant = did_you_mean(name, OPTIONS)
                raise TypeError(f"{name!r} is not a run option{meant}; give one of {', '.join(OPTIONS)}")
            option = OPTIONS[name]
            checked = option.check(name, value)
            if not option.is_setting:
                others[name] = checked
            elif checked is not None:
                settings[name] = checked
        if others.get("paths") and others.get("on") is None:
            raise OptionError(
                "paths= states where workers of a cluster find stores, but there is no on=; give on= too, or "
                "leave out paths="
            )
        if others.get("scale") and not hasattr(getattr(others.get("on"), "cluster", None), "scale"):
            raise OptionError(
                f"scale={others['scale']!r} needs on= a cluster that can scale, such as LocalCluster or SLURMCluster, "
                "or a client of one; a client that was connected by an address cannot start workers"
            )
        tune = others.pop("tune", False)
        pin = settings["pin"] if "pin" in given else None
        others["request"] = _tuning_request(tune, settings, others, has_fixed_workers=has_fixed_workers, pin=pin)
        return cls(settings, **others)


def _tuning_request(
    tune: Any, settings: dict[str, Any], others: dict[str, Any], *, has_fixed_workers: bool, pin: bool | None
) -> TuningRequest | None:
    """What is tuned or measured; None if nobody asks for it."""
    if tune is False and not others.get("progress"):
        return None
    configuration = tune if isinstance(tune, Configuration) else None
    mode = "apply" if configuration is not None else {True: "change", False: "measure"}.get(tune, "recommend")
    request = TuningRequest(mode, configuration=configuration, status=status_path())
    if others.get("on") is not None:
        # `workers` are threads of this process, and those of the cluster are not pinned.
        return request
    if configuration is not None:
        if not has_fixed_workers:
            settings.update(workers=configuration.threads or settings["workers"], auto_workers=False)
        pin = configuration.pin if pin is None else pin
        has_fixed_workers = False
    return replace(request, has_fixed_workers=has_fixed_workers, pin=pin, threads=settings["workers"])


def takes_run_options(function: Callable[P, R]) -> Callable[P, R]:
    """Give a function with ``**options: Unpack[RunKeywords]`` a signature that lists them.

    A line ``{run_options}`` of its docstring becomes the list with their help.
    """
    return listing_options(function, RunKeywords, OPTIONS, "{run_options}")
