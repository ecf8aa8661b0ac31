"""To and from xarray and ObsPy.

Nothing here decides about time or gaps; it asks the native layer and lays the
answer out as the other library wants it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors.native import OptionError, StoreValueError
from ..extras import require

if TYPE_CHECKING:
    from .._native import Segment, Selection, Signal, Store, Time
    from ..times import Rate

__all__ = ["from_obspy", "gathered_to_xarray", "to_obspy", "to_xarray"]

# Samples a Dask chunk: 32 MiB of float64.
_DASK_CHUNK = 1 << 22


# --- xarray -------------------------------------------------------------------


def to_xarray(
    source: Signal | Selection,
    *,
    gaps: Literal["nan", "drop"] = "nan",
    chunks: int | None = None,
) -> Any:
    """A signal or a selection as a lazy `xarray.DataArray`.

    Parameters:
        source: what to convert.
        gaps: "nan": an element for every index, NaN in gaps; "drop": no elements for gaps.
        chunks: samples a Dask chunk; None: chunks of 32 MiB if Dask is installed, else without Dask; 0: without.

    Returns:
        Dimension "time", shape (n,), float64 (complex128 for complex samples), named after the signal, the unit in
        ``attrs["units"]``. Values and the coordinates "time" (datetime64[ns]) and "index" (int64) are read when they
        are used. "time" has no index yet, since that would read all of it: call ``set_xindex("time")`` before
        selecting by label.

    Raises:
        MissingExtraError: xarray is not installed.
        OptionError: `gaps` without a legal value.
    """
    xarray = require("xarray", "an xarray DataArray")
    if gaps not in ("nan", "drop"):
        raise OptionError(f"gaps={gaps!r} is refused; give 'nan' or 'drop'")
    selection = _whole(source)
    signal = selection.signal
    ranges = selection.ranges if gaps == "nan" else [(s.start, s.end) for s in selection.segments]
    complex_samples = signal.dtype.kind == "c"
    axis = _Axis(signal, ranges)
    attrs = {"units": signal.unit, "rate_hz": float(signal.rate), **dict(signal.attrs)}
    coordinates = {"index": ("time", _lazy(xarray, axis, "index", np.dtype("i8")))}
    if signal._times_of(np.empty(0, "i8")) is not None:
        coordinates["time"] = ("time", _lazy(xarray, axis, "times", np.dtype("datetime64[ns]")))
    out = xarray.DataArray(
        _lazy(xarray, axis, "values", np.dtype("c16" if complex_samples else "f8")),
        coords=xarray.Coordinates(coordinates, indexes={}),
        dims=("time",),
        name=selection.name,
        attrs=attrs,
    )
    if chunks == 0 or (chunks is None and not _has_dask()):
        return out
    return out.chunk({"time": chunks or _DASK_CHUNK})


def _whole(source: Signal | Selection) -> Selection:
    from .._native import Signal

    return source.select() if isinstance(source, Signal) else source


def _has_dask() -> bool:
    try:
        import dask.array  # noqa: F401
    except ImportError:
        return False
    return True


class _Axis:
    """Positions 0..n of an array that index ranges of a signal lie behind, one after the other."""

    def __init__(self, signal: Signal, ranges: Iterable[tuple[int, int]]) -> None:
        self.signal = signal
        self.ranges = list(ranges)
        self.ends = list(accumulate(end - start for start, end in self.ranges))

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def parts(self, start: int, stop: int) -> list[slice]:
        """Index slices of the signal for positions `start` to `stop`."""
        first = int(np.searchsorted(self.ends, start, side="right"))
        out = []
        for (low, high), end in zip(self.ranges[first:], self.ends[first:], strict=True):
            base = end - (high - low)
            if base >= stop:
                break
            out.append(slice(low + max(start - base, 0), low + min(stop - base, high - low)))
        return out

    def values(self, start: int, stop: int) -> list[npt.NDArray[Any]]:
        return [self.signal.select(part).values() for part in self.parts(start, stop)]

    def times(self, start: int, stop: int) -> list[npt.NDArray[Any]]:
        return [self.signal.select(part).times() for part in self.parts(start, stop)]

    def index(self, start: int, stop: int) -> list[npt.NDArray[Any]]:
        return [np.arange(part.start, part.stop) for part in self.parts(start, stop)]


def _lazy(xarray: Any, axis: _Axis, what: str, dtype: np.dtype[Any]) -> Any:
    """An array that xarray reads piece by piece, as it does those of files."""
    from xarray.backends import BackendArray
    from xarray.core import indexing

    class Lazy(BackendArray):
        shape = (len(axis),)

        def __init__(self) -> None:
            self.dtype = dtype

        def __getitem__(self, key: Any) -> Any:
            return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

        def _read(self, key: tuple[Any, ...]) -> Any:
            (wanted,) = key
            if not isinstance(wanted, slice):
                return self._slice(int(wanted), int(wanted) + 1)[0]
            start, stop, step = wanted.indices(len(axis))
            if step < 0:
                return self._slice(stop + 1, start + 1)[::-1][::-step]
            return self._slice(start, stop)[::step]

        def _slice(self, start: int, stop: int) -> npt.NDArray[Any]:
            pieces = getattr(axis, what)(start, stop) if start < stop else []
            return np.concatenate(pieces) if pieces else np.empty(0, dtype)

    return xarray.Variable(("time",), indexing.LazilyIndexedArray(Lazy()))


def gathered_to_xarray(
    values: npt.NDArray[np.float64], names: list[str], units: list[str], start: Time, rate: Rate
) -> Any:
    """What `Store.gather` found, as a `DataArray` of dimensions "channel" and "time"."""
    xarray = require("xarray", "an xarray DataArray")
    points = np.arange(values.shape[1])
    # Whole nanoseconds of k / rate, exactly: float64 would be off after days.
    ratio = rate.fraction
    offsets = np.array([int(k) * 1_000_000_000 * ratio.denominator // ratio.numerator for k in points], "m8[ns]")
    return xarray.DataArray(
        values,
        dims=("channel", "time"),
        coords={
            "channel": names,
            "time": start.to_datetime64() + offsets,
            "units": ("channel", units),
        },
        attrs={"rate_hz": float(rate)},
    )


# --- ObsPy --------------------------------------------------------------------

_CODES = ("network", "station", "location", "channel")


def to_obspy(
    source: Signal | Selection,
    *,
    masked: bool = False,
    counts: bool = False,
) -> Any:
    """A signal or a selection as an ObsPy `Stream`.

    Parameters:
        source: what to convert; it must know civil time.
        masked: one trace a run with its gaps masked, instead of one a gap-free segment.
        counts: samples as stored, instead of values in the unit (docs/counts.md).

    Returns:
        Traces that start exactly when their first sample was taken (to ObsPy's nanosecond), at the nominal sampling
        rate. Codes come from the attributes network, station, location and channel, else from the name's components.
        The samples are copies, which ObsPy may change in place.

    Raises:
        MissingExtraError: ObsPy is not installed (extra `seismic`).
        StoreValueError: the signal knows no civil time.
    """
    obspy = require("obspy", "an ObsPy Stream")
    selection = _whole(source)
    signal = selection.signal
    header = {"sampling_rate": float(signal.rate), **_codes(selection.name, dict(signal.attrs))}
    if signal.unit:
        header["isochrony"] = {"unit": signal.unit}
    pieces = _by_run(selection, counts) if masked else _by_segment(selection, counts)
    stream = obspy.Stream()
    for start, data in pieces:
        stream.append(obspy.Trace(data, {**header, "starttime": obspy.UTCDateTime(ns=start.ns)}))
    return stream


def _by_segment(selection: Selection, counts: bool) -> Iterable[tuple[Time, npt.NDArray[Any]]]:
    for segment in selection.segments:
        yield _start(selection, segment), np.array(segment.counts if counts else segment)


def _by_run(selection: Selection, counts: bool) -> Iterable[tuple[Time, npt.NDArray[Any]]]:
    signal = selection.signal
    for first, last in selection.ranges:
        part = signal.select(slice(first, last))
        segments = part.segments
        if not segments:
            continue
        whole = part.values(fill=0, counts=counts)
        begin, end = segments[0].start - first, segments[-1].end - first
        data = np.ma.MaskedArray(whole[begin:end], mask=~part.mask()[begin:end])
        yield _start(selection, segments[0]), data if np.ma.is_masked(data) else data.data


def _start(selection: Selection, segment: Segment) -> Time:
    if segment.time is None:
        raise StoreValueError(
            f"signal {selection.name!r} has no civil time, which an ObsPy trace needs; create the signal with start=, "
            "or append its samples with at="
        )
    return segment.time


def _codes(name: str, attrs: dict[str, Any]) -> dict[str, str]:
    """SEED codes of a signal."""
    if any(code in attrs for code in _CODES):
        return {code: str(attrs.get(code, "")) for code in _CODES}
    parts = name.split("/")
    if len(parts) == 4:
        return dict(zip(_CODES, ("" if part == "--" else part for part in parts), strict=True))
    # Fewer or other components have no place among the codes but the last two.
    return {"station": parts[-2] if len(parts) > 1 else "", "channel": parts[-1]}


def from_obspy(
    stream: Any,
    store: Store,
    *,
    name: str = "{network}/{station}/{location}/{channel}",
    unit: str | None = None,
    resolution_ns: int = 1_000,
) -> dict[str, Any]:
    """Store the traces of an ObsPy `Stream` (or one `Trace`) and commit.

    Parameters:
        stream: traces in any order; masked samples become gaps. Overlaps and backward steps keep every sample.
        store: open for writing.
        name: template of signal names from the SEED codes; an empty code becomes ``--``.
        unit: unit of the samples.
        resolution_ns: resolution of the start times in nanoseconds; that of miniSEED is a microsecond.

    Returns:
        The summary of the import, a dict: "signals" has name, number of samples, gaps and times of each.

    Raises:
        IsochronyError: samples of a dtype that signals cannot have, or a store that cannot be written.

    >>> import isochrony as iso, numpy as np, obspy, tempfile
    >>> header = {"network": "GE", "station": "APE", "channel": "BHZ", "sampling_rate": 20}
    >>> stream = obspy.Stream([obspy.Trace(np.arange(100, dtype="i4"), header)])
    >>> store = iso.open(tempfile.mkdtemp() + "/quakes.iso", "x")
    >>> summary = iso.from_obspy(stream, store)
    >>> store["GE/APE/--/BHZ"].sample_count
    100
    """
    traces = [stream] if hasattr(stream, "stats") else list(stream)
    session = store.ingest()
    # A stable sort, so that traces of equal start keep their order.
    for trace in sorted(traces, key=lambda trace: int(trace.stats.starttime.ns)):
        codes = {code: getattr(trace.stats, code) for code in _CODES}
        signal = name.format(**{code: value or "--" for code, value in codes.items()})
        for part in trace.split() if np.ma.isMaskedArray(trace.data) else [trace]:
            if len(part.data) == 0:
                continue
            session.block(
                signal,
                part.data,
                rate=float(part.stats.sampling_rate),
                start=(int(part.stats.starttime.ns), 0),
                resolution=(resolution_ns, 0),
                unit=unit,
                source=f"obspy:{trace.id}@{trace.stats.starttime}",
                attrs=codes,
            )
    return session.finish()
