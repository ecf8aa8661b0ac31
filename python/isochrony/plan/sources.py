"""Where plans begin: signals, arrays, and samples that Python code makes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import with_code
from ..errors.native import OptionError, PlanError
from ..functions.python import importable, once, shown
from ..live.following import Followed
from ..live.listening import Listener
from ..options import flag, index, sample_dtype, whole
from .plan import Plan

if TYPE_CHECKING:
    from .._native import Selection, Signal

__all__ = ["generate", "scan"]


def scan(
    source: Signal | Selection | Listener | Followed | npt.NDArray[Any],
    segment: int | None = None,
    *,
    rate: Any = None,
    unit: str = "",
    start: Any = None,
    clock: Signal | None = None,
    counts: bool = False,
    io: str | None = None,
) -> Plan:
    """Make a plan over a stored signal or a part of it, a live feed, or an array.

    Returns:
        A plan of samples, shape (n,), of the source's dtype, with its gaps and clock steps.

    Parameters:
        source: ``store["name"]``, ``signal[a:b]``, a `Listener`, a `Followed`, or a 1-D array. An array is not copied:
            do not change it while the plan runs. A signal is read as of the start of the run.
        segment: samples per item if the plan has no windows, from 1; None: 131,072.
        rate: sample rate of an array in Hz, a number or an exact ratio as for `Store.create`; with `clock`, that of the
            signal.
        unit: unit of an array's values.
        start: civil time of an array's first sample, by which arrays of equal start and rate are combined; with
            `clock`, an index of that signal, or a time, rounded to its nearest sample. None: index 0.
        clock: another signal with the same clock, index for index, such as another channel of one converter: plans of
            both can then be combined by `zip` and `sync`, without `align`. Times are those of `clock`. A saved plan
            looks for it in the store of `source`. For an array: the signal that it was computed from.
        counts: compute with samples as stored, instead of values in the signal's unit (docs/counts.md).
        io: how samples of a stored signal are read; results are the same. None: the strategy that is predicted to be
            the fastest, if this machine was calibrated (``isochrony calibrate``), else ``"mmap"``. ``"read"``: copy
            into a buffer. ``"mmap"``: map the files. ``"readahead"``: map, and request twice the length of each piece
            ahead; ``"readahead_all"``: request everything at the start. ``"populate"``: a thread fills page tables
            ahead of the scan. ``"direct"``: bypass the page cache, ahead of the scan. ``"io_uring"``: the kernel fills
            several buffers ahead of the scan; ``"io_uring_direct"``: likewise, bypassing the page cache. Stores at URLs
            are read by ``"range_requests"``, several at a time, ahead of the scan. If a strategy cannot be used (sealed
            signal, store at a URL, file system or container that refuses it), `Plan.explain` and the report's `reads`
            state which one is used instead.

    Raises:
        StoreValueError: `io` is not one of these.
        PlanError: `source` is none of these; a parameter that does not apply to it; the times of `clock` differ by half
            a sample or more, or its rate differs.
        TimeError: `rate` is not a sample rate, or `start` not a time.
        OptionError: `segment` is not a whole number from 1, `clock` not a signal, or `io` or `unit` not a str.

    >>> import tempfile, numpy as np, isochrony as iso
    >>> iso.scan(np.array([3.0, 5.0]), rate=100, unit="kPa").map(lambda s: 2 * s).collect()
    array([ 6., 10.])
    >>> store = iso.open(tempfile.mkdtemp() + "/a.iso", "x")
    >>> signal = store.create("p", dtype="i2", rate=100, scale=0.5)
    >>> _ = signal.append(np.arange(4, dtype="i2")), store.commit()
    >>> iso.scan(signal[1:3]).collect(), iso.scan(signal[1:3], counts=True).collect()
    (array([0.5, 1. ]), array([1, 2], dtype=int16))
    """
    from .._native import NativePlan, Selection, Signal

    samples = None if segment is None else whole("scan segment=", segment, "samples")
    flag("scan counts", counts)
    is_array = isinstance(source, np.ndarray)
    if clock is not None and not (is_array or isinstance(source, Signal | Selection)):
        raise PlanError("scan takes clock= only for a signal of a store or an array; leave out clock=")
    if clock is not None and not isinstance(clock, Signal):
        raise OptionError(f'scan(clock={clock!r}) is refused; give the signal itself, as store["name"]')
    if io is not None and not isinstance(source, Signal | Selection):
        raise with_code(PlanError("scan takes io= only for a signal of a store; leave out io="), "bad_option")
    for name, given, kind, legal in (
        ("io", io, str, 'the name of a strategy, such as "mmap"'),
        ("unit", unit, str, 'text, such as "kPa"'),
    ):
        if given is not None and not isinstance(given, kind):
            raise OptionError(f"scan({name}={given!r}) is refused; give {legal}, or leave it out")
    if isinstance(source, Signal | Selection | Listener | Followed):
        if rate is not None or unit or start is not None:
            raise PlanError(
                "scan of a signal uses the signal's own rate, unit and times; leave out rate=, unit= and start="
            )
        if isinstance(source, Listener | Followed):
            plan = Plan(source._native.scan(samples))
        else:
            plan = Plan(NativePlan.scan(source, samples, clock, io))
        return plan.calibrate(unit="", counts=True) if counts else plan
    if not is_array:
        raise _bad_source(source)
    if clock is not None:
        index = 0 if start is None else _index(clock, start)
        native = NativePlan.array(source, clock.rate if rate is None else rate, unit, samples, clock=clock, index=index)
        if native.rate != clock.rate.fraction.as_integer_ratio():
            raise PlanError(f"scan got rate={rate!r} and a clock of {clock.rate} Hz; leave out rate=")
        return Plan(native)
    if rate is None:
        no_rate = PlanError(
            "scan of an array needs a sample rate; give rate= in Hz, such as rate=100, or clock=signal to take the "
            "rate and times of a stored signal"
        )
        raise with_code(no_rate, "missing_rate")
    return Plan(NativePlan.array(source, rate, unit, samples, start=start))


def _bad_source(source: object) -> PlanError:
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        text = (
            f'scan got {path!r}; give a signal, such as iso.open({path!r})["stn_10/pressure"], or an array with rate='
        )
    else:
        text = f"scan got {type(source).__name__}; give a signal, a selection of one, or an array with rate="
    return with_code(PlanError(text), "bad_source")


def _index(clock: Signal, start: Any) -> int:
    """The index of a signal that an index or a time names."""
    if isinstance(start, int | np.integer):
        return index("scan start=", start, "samples")
    found: int = clock.index_of(start, round="nearest")
    return found


def generate(
    source: Callable[[], Iterable[Any]] | Iterable[Any],
    *,
    dtype: npt.DTypeLike,
    rate: Any,
    unit: str = "",
    start: Any = None,
    segment: int | None = None,
) -> Plan:
    """Make a plan over samples that Python code generates.

    Returns:
        A plan of samples of `dtype`, shape (n,), with a gap wherever indices are missing.

    Parameters:
        source: a function without arguments that returns an iterator, called for each run; or an iterable, which serves
            a single run if it is an iterator. It yields consecutive 1-D arrays of `dtype`, or pairs (index of the first
            sample, array): missing indices become a gap. Arrays are not copied, and become read-only; a view of a
            writable array is copied.
        dtype: dtype of the arrays.
        rate: sample rate in Hz, a number or an exact ratio as for `Store.create`.
        unit: unit of the values.
        start: civil time of index 0.
        segment: as for `scan`.

    Raises:
        PlanError: the source is neither a function nor an iterable.

    >>> import numpy as np, isochrony as iso
    >>> noise = lambda: (np.full(100, k) for k in range(3))
    >>> iso.generate(noise, dtype="i8", rate=100).rewindow(50).map(lambda s: s.sum()).collect()[:, 0]
    array([  0,   0,  50,  50, 100, 100])
    """
    from .._native import NativePlan

    samples = None if segment is None else whole("generate segment=", segment, "samples")
    if not callable(source) and not isinstance(source, Iterable):
        raise PlanError(f"generate got {type(source).__name__}; give a function that makes an iterator of arrays")
    made = source if callable(source) else once(source)
    name = shown(source) if callable(source) else "iterator"
    return Plan(
        NativePlan.generate(made, name, importable(source), sample_dtype(dtype).name, rate, unit, start, samples)
    )
