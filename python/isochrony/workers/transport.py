"""How Python functions get into worker processes, and what they raise gets back.

A function that a fresh process can import to the same object travels as its name. Any other (a lambda, a closure, what
a script or a notebook defines) travels by value, by cloudpickle: its code, what it captures and the globals that it
uses, as they are when the run begins, or, if that is much, when it is first called. What cannot be pickled stays in
this process.
"""

from __future__ import annotations

import importlib.machinery
import os
import pickle
import subprocess
import sys
import threading
from types import ModuleType
from typing import Any

from ..functions.python import importable, shown

__all__ = ["command", "rebuilt", "travel"]

# What cloudpickle is to send by value it knows by a list of the process.
_REGISTRY = threading.Lock()

_UNKNOWN = "sys.executable names no Python interpreter that could be started"
# Nothing is imported before the path is the parent's: -c puts the current folder first.
_BOOT = "import sys; sys.path[:] = {}; from isochrony.workers.process import main; sys.exit(main())"
# Libraries that start threads of their own, as many as there are cores, in every worker process.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "BLIS_NUM_THREADS")

# The C library gives freed arrays back to the system at once, and each new one is a page fault every 4 KiB: half of the
# time of an FFT of a hundred thousand samples. A worker process keeps so much of what its functions let go of.
_MALLOC = (("MALLOC_MMAP_THRESHOLD_", str(32 << 20)), ("MALLOC_TRIM_THRESHOLD_", str(64 << 20)))


def command(workers: int) -> tuple[list[str], list[tuple[str, str]]]:
    """What starts a worker process, one of so many, and what is added to its environment.

    Raises:
        RuntimeError: nobody knows where this interpreter lies.
    """
    if not _startable():
        raise RuntimeError(_UNKNOWN)
    # As multiprocessing does: flags of this interpreter (-O, -W, -X, ...) are those of its workers.
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = str(max(1, cores // workers))
    # Paths of other types are there where somebody put them.
    path = [str(os.fsdecode(entry)) for entry in sys.path]
    added = [(name, threads) for name in _THREADS if name not in os.environ]
    if not any(name in os.environ for name, _ in _MALLOC):
        added += _MALLOC
    return [sys.executable, *flags, "-c", _BOOT.format(ascii(path))], added


def _startable() -> bool:
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def travel(function: Any, most: int | None = None) -> tuple[str, bytes | None, str]:
    """How a function travels: "name", "value", or "" if it cannot; what is sent, None if that is of more than so many
    bytes; and in words how, or why not.
    """
    if not _startable():
        return "", b"", f"cannot travel to a worker process ({_UNKNOWN})"
    name = importable(function)
    module = sys.modules.get(name.partition(":")[0]) if name else None
    if name and module and _found_again(module):
        return "name", name.encode(), f"{shown(function)} travels by name ({name}); its module is imported anew there"
    try:
        import cloudpickle
    except ImportError as error:
        return "", b"", f"cannot travel to a worker process: cloudpickle is not installed ({error})"
    # What a module holds that workers cannot import goes along by value.
    own = sys.modules.get(getattr(function, "__module__", None) or "")
    try:
        with _REGISTRY:
            listed = cloudpickle.list_registry_pickle_by_value()
            along = own is not None and own.__name__ not in {"__main__", *listed} and not _found_again(own)
            if along:
                cloudpickle.register_pickle_by_value(own)
            try:
                data = cloudpickle.dumps(function)
            finally:
                if along:
                    cloudpickle.unregister_pickle_by_value(own)
    except Exception as error:
        first = next(iter(str(error).splitlines()), "")
        return "", b"", f"cannot travel to a worker process ({type(error).__name__}: {first})"
    kept = data if most is None or len(data) <= most else None
    return "value", kept, f"{shown(function)} travels by value ({len(data):,} bytes)"


def _found_again(module: ModuleType) -> bool:
    """Whether a fresh process with the same path would find the same module by its name."""
    path = None
    parts = module.__name__.split(".")
    for place in range(len(parts)):
        name = ".".join(parts[: place + 1])
        spec = _find(name, path)
        if spec is None:
            return False
        path = spec.submodule_search_locations
    origin = getattr(module, "__file__", None)
    # Modules without a file are built in, or were made by hand and are not found.
    return (
        origin is None
        or spec is None
        or spec.origin is None
        or os.path.realpath(spec.origin) == os.path.realpath(origin)
    )


def _find(name: str, path: Any) -> importlib.machinery.ModuleSpec | None:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec: importlib.machinery.ModuleSpec | None = find(name, path) if find else None
        if spec is not None:
            return spec
    return None


def rebuilt(pid: int, loading: bool, text: str, name: str, said: str, pickled: bytes) -> BaseException:
    """What was raised in a worker process: the same exception where it could be pickled, with where it came from.

    Parameters:
        pid: of the process.
        loading: whether it was raised when the function was loaded there, and not by a call.
        text: the traceback.
        name: of its class.
        said: its message.
        pickled: itself, or nothing.
    """
    error: BaseException
    try:
        # It comes from a process that this one started, to run this one's code.
        error = pickle.loads(pickled)
        if not isinstance(error, BaseException):
            raise TypeError
    except Exception:
        error = RuntimeError(f"{name}: {said}")
    error.add_note(f"In worker process {pid}:\n{text.rstrip()}")
    if loading:
        error.add_note(
            "The function could not be loaded there: have what it needs in a module that a fresh process can import, "
            'or give on_workers="inline" to call it in this process.'
        )
    return error
