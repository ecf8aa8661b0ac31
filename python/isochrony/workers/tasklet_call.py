"""A tasklet's function in a worker process: what it is given there for inputs and outputs.

Samples lie in memory that is shared with the parent. What the function writes to outputs goes there and nowhere else;
the parent makes samples of it when the function has returned.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, Never, NoReturn, SupportsIndex

import numpy as np
import numpy.typing as npt

from .._native import Segment, Time
from ..errors.native import GapError, StoreTypeError, TaskletValueError
from ..store.values import How, fill_gap, read_values
from ..tasklets.output import Output
from ..times import Rate

__all__ = ["Input", "packed", "run"]


class Input:
    """What stands for a `Selection` in a worker process: its samples, and what is to be known of them.

    It has `segments`, `counts`, `values`, `mask`, `ranges`, `sample_count`, `name` and `unit` as that has;
    `input[i]` is the same value and `numpy.asarray` the same array. What else that has needs its store, which is open
    elsewhere: so it is no `Selection`, and cannot be scanned.
    """

    def __init__(self, about: dict[str, Any], shared: Any) -> None:
        self.name: str = about["name"]
        self.unit: str = about["unit"]
        self.ranges: list[tuple[int, int]] = [(start, end) for start, end in about["ranges"]]
        self._dtype = np.dtype(about["dtype"])
        self._is_uncalibrated = (about["scale"], about["offset"]) == (1.0, 0.0)
        self._segments = [self._segment(about, shared, *segment) for segment in about["segments"]]

    def _segment(
        self, about: dict[str, Any], shared: Any, start: int, count: int, place: int, time: list[Any] | None
    ) -> Segment:
        samples: npt.NDArray[Any] = np.ndarray((count,), self._dtype, shared, place)
        samples.flags.writeable = False
        rate, scale, offset = Rate(*about["rate"]), about["scale"], about["offset"]
        segment = Segment(samples, start, rate=rate, name=self.name, unit=self.unit, scale=scale, offset=offset)
        if time is None:
            return segment
        ns, frac, run, in_gap, uncertainty_ns = time
        return segment._with_time(Time._rebuild(int(ns), frac, run and tuple(run), in_gap, uncertainty_ns))

    @property
    def segments(self) -> list[Segment]:
        """The gap-free segments, in the order of the selection; none spans a gap or a clock step."""
        return list(self._segments)

    @property
    def sample_count(self) -> int:
        """Samples that exist in the selection."""
        return sum(len(one) for one in self._segments)

    def _whole(self) -> Segment:
        covered = sum(end - start for start, end in self.ranges)
        if len(self._segments) > 1 or covered != self.sample_count:
            between = f"{covered - self.sample_count} samples are missing" if covered > self.sample_count else "a step"
            self._refuse_gap(between)
        if not self._segments:
            return Segment(np.empty(0, self._dtype), name=self.name, unit=self.unit)
        return self._segments[0]

    def _refuse_gap(self, between: str) -> NoReturn:
        raise GapError(
            f"the input {self.name}[{self.ranges[0][0]}:{self.ranges[-1][1]}] covers a gap or a clock step "
            f"({between}); iterate over the input's segments, or get all values with values(fill=...)"
        )

    @property
    def counts(self) -> npt.NDArray[Any]:
        """The raw samples of a gap-free selection."""
        return self._whole().counts

    def _parts(self) -> Iterator[tuple[slice, int, list[Segment]]]:
        """Of each range: its positions, its first index, and its segments."""
        offset = 0
        for start, end in self.ranges:
            within = [one for one in self._segments if start <= one.start and one.end <= end]
            yield slice(offset, offset + end - start), start, within
            offset += end - start

    def _read(self, out: npt.NDArray[Any], how: How, value: npt.NDArray[Any] | None, counts: bool) -> None:
        """As `_native.Selection._read`."""
        counts = counts or self._is_uncalibrated
        for positions, start, segments in self._parts():
            part, filled = out[positions], 0
            for one in [*segments, None]:
                begin = len(part) if one is None else one.start - start
                if one is not None:
                    part[begin : begin + len(one)] = one.counts if counts else one.values()
                if begin > filled and not fill_gap(part, slice(filled, begin), how, value):
                    self._refuse_gap(f"{begin - filled} samples are missing at index {start + filled}")
                filled = begin if one is None else begin + len(one)

    def values(
        self,
        fill: Any = math.nan,
        *,
        dtype: npt.DTypeLike | None = None,
        out: npt.NDArray[Any] | None = None,
        counts: bool = False,
    ) -> npt.NDArray[Any]:
        """One value per selected index, as `Selection.values` gives them."""
        about = (self._dtype.name, self._is_uncalibrated)
        return read_values(self, *about, fill=fill, dtype=dtype, out=out, counts=counts)

    def mask(self) -> npt.NDArray[Any]:
        """True where a selected index has a sample."""
        mask = np.zeros(len(self), bool)
        for positions, start, segments in self._parts():
            for one in segments:
                mask[positions][one.start - start : one.end - start] = True
        return mask

    def __len__(self) -> int:
        return sum(end - start for start, end in self.ranges)

    def __iter__(self) -> Never:
        raise StoreTypeError(
            "iterating over an input is refused, since it could mean values or segments: iterate over input.segments, "
            "or over input.values()"
        )

    def __getitem__(self, position: SupportsIndex) -> Any:
        """The value at a position of `values()`, as of a `Selection`."""
        at = range(len(self))[operator.index(position)]
        for start, end in self.ranges:
            if at < end - start:
                for one in self._segments:
                    if one.start <= start + at < one.end:
                        return one.values()[start + at - one.start]
                self._refuse_gap(f"there is no sample at index {start + at}")
            at -= end - start
        raise AssertionError("the ranges are as long as the input")

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        # The segment's own answer to both.
        return self._whole().__array__(dtype, copy)

    def __getattr__(self, name: str) -> Never:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"an input of a tasklet in a worker process has no {name!r}, since the process has no access to the store; "
            f'read {name!r} before the run and pass the value to the function, or give the tasklet on_workers="threads"'
        )

    def __repr__(self) -> str:
        return f"<Input of {self.name}: {self.sample_count} samples>"


class _Range:
    """What `Output` asks of the range that it writes."""

    def __init__(self, about: dict[str, Any]) -> None:
        self.name: str = about["name"]
        self.dtype = np.dtype(about["dtype"])
        self.length: int = about["length"]
        self.signal = self

    def __len__(self) -> int:
        return self.length


class _SharedOutputBuffer:
    """Shared memory for one output."""

    def __init__(self, about: dict[str, Any], shared: Any, tasklet: str) -> None:
        self._memory: npt.NDArray[Any] | None = np.ndarray(
            (about["length"],), np.dtype(about["dtype"]), shared, about["place"]
        )
        self._given: npt.NDArray[Any] | None = None
        self._is_touched = False
        self._tasklet = tasklet

    def _open(self) -> npt.NDArray[Any]:
        if self._memory is None:
            raise TaskletValueError(
                f'an output of tasklet "{self._tasklet}" is written to after its function has returned; write it before'
            )
        return self._memory

    def array(self, cleared: bool) -> npt.NDArray[Any]:
        """All of it, as `_native._OutputBuffer.array`."""
        memory = self._open()
        if self._given is not None:
            memory[...] = self._given
            self._given = None
        elif cleared and not self._is_touched:
            memory[...] = 0
        self._is_touched = True
        return memory

    def give(self, samples: npt.NDArray[Any]) -> None:
        """Takes an array, as `_native._OutputBuffer.give`."""
        self._open()
        self._given = samples

    def close(self) -> None:
        """The function has returned: what it gave is taken as it is now."""
        if self._given is not None and self._memory is not None:
            self._memory[...] = self._given
        self._given = self._memory = None


def run(
    function: Callable[[list[Any], list[Output]], Any], about: dict[str, Any], shared: Any
) -> tuple[Any, list[tuple[int, int, int]]]:
    """Calls a tasklet's function; gives what it returned, and which parts of outputs it wrote."""
    inputs = [Input(one, shared) for one in about["inputs"]]
    rooms = [_SharedOutputBuffer(one, shared, about["name"]) for one in about["outputs"]]
    ranges: list[Any] = [_Range(one) for one in about["outputs"]]
    outputs = [Output(one, room) for one, room in zip(ranges, rooms, strict=True)]
    value = function(inputs, outputs)
    written = [(number, start, stop) for number, one in enumerate(outputs) for start, stop in one._written()]
    for room in rooms:
        room.close()
    return value, written


def called(
    function: Callable[[list[Any], list[Output]], Any], name: str, inputs: list[Any], about: list[dict[str, Any]]
) -> tuple[Any, list[tuple[int, int, npt.NDArray[Any]]]]:
    """Calls a tasklet's function on another host; gives what it returned, and wrote: output, first sample, samples."""
    buffers = [np.zeros(one["length"], one["dtype"]) for one in about]
    rooms = [
        _SharedOutputBuffer(one | {"place": 0}, buffer.data, name) for one, buffer in zip(about, buffers, strict=True)
    ]
    outputs = [Output(_Range(one), room) for one, room in zip(about, rooms, strict=True)]  # type: ignore[arg-type]
    value = function(inputs, outputs)
    written = [(number, start, stop) for number, one in enumerate(outputs) for start, stop in one._written()]
    for room in rooms:
        room.close()
    return value, [(number, start, buffers[number][start:stop]) for number, start, stop in written]


def packed(value: Any, dumps: Callable[[Any], bytes]) -> bytes:
    """What a function returned, pickled."""
    try:
        return dumps(value)
    except Exception as error:
        raise TypeError(
            f"the function's result cannot be pickled, so it cannot be sent back from the worker process "
            f"({type(error).__name__}: {error}); return numbers, text, arrays or lists of them, or give the tasklet "
            'on_workers="threads"'
        ) from None
