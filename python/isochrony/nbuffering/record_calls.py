"""Python functions of records in worker processes: calls them there, and packs what they return.

The parent sends the records of a buffer in shared memory, and writes what comes back in stream order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ..workers.exceptions import dumps

__all__ = ["AccumulatingFunction", "call_records"]

#: Number of a record, output, and bytes for it.
PIECE = struct.Struct("=QQQ")
#: Bytes of a piece that is the record as it was given.
RECORD_ITSELF = (1 << 64) - 1


class AccumulatingFunction:
    """A function of a record and an accumulator, with the function that makes the accumulator."""

    def __init__(self, function: Callable[..., Any], initial: Callable[[], Any]) -> None:
        self.function = function
        self.initial = initial
        # By these it travels, and is named, as the function itself.
        self.__module__ = getattr(function, "__module__", None) or __name__
        self.__qualname__ = getattr(function, "__qualname__", None) or type(function).__name__


class _Calls:
    """Calls of a function with the records of one buffer."""

    def __init__(self, function: Any, outputs: int) -> None:
        accumulates = isinstance(function, AccumulatingFunction)
        self.function: Callable[..., Any] = function.function if accumulates else function
        self.outputs = outputs
        self.completed = 0
        self.pieces = bytearray()
        self.data: list[bytes] = []
        self.accumulator: tuple[Any, ...] = (function.initial(),) if accumulates else ()

    def call(self, record: memoryview) -> None:
        returned = self.function(record, *self.accumulator)
        if isinstance(returned, tuple | list):
            count = len(returned)
            if self.outputs > 0 and count != self.outputs:
                raise TypeError(
                    f"the function returned {count} values for {self.outputs} outputs; return bytes or None for each"
                )
            for output, one in enumerate(returned):
                self.put(output, one, record)
        elif returned is not None:
            if self.outputs > 1:
                raise TypeError(
                    f"the function returned {type(returned).__name__} for {self.outputs} outputs; return a tuple with "
                    "bytes or None for each"
                )
            self.put(0, returned, record)
        self.completed += 1

    def put(self, output: int, returned: Any, record: memoryview) -> None:
        if returned is None:
            return
        data = b"" if returned is record else _bytes(returned)
        # Without outputs, output is dropped.
        if self.outputs > 0:
            length = RECORD_ITSELF if returned is record else len(data)
            self.pieces += PIECE.pack(self.completed, output, length)
            self.data.append(data)

    def take_back(self) -> None:
        """Forgets what the record that failed has put."""
        while self.pieces and PIECE.unpack_from(self.pieces, len(self.pieces) - PIECE.size)[0] == self.completed:
            del self.pieces[-PIECE.size :]
            self.data.pop()


def _bytes(returned: Any) -> bytes:
    if isinstance(returned, bytes):
        return returned
    try:
        return memoryview(returned).tobytes()
    except TypeError:
        raise TypeError(f"the function returned {type(returned)}; return something bytes-like, or None") from None


def call_records(
    function: Any,
    shared: Any,
    call: tuple[int, int, int, int],
    describe: Callable[[BaseException], tuple[bytes, ...]],
) -> tuple[int, bytes, bytes | None, list[bytes], tuple[bytes, ...]]:
    """Calls a function with each record in turn, up to the first that fails.

    Parameters:
        function: of a record, or an `AccumulatingFunction`.
        shared: memory with the records and, behind them, their lengths.
        call: bytes of all records, place of the lengths, number of records, number of outputs.
        describe: makes an exception portable.

    Returns the number of records that were completed, the pieces, the accumulator, the pieces' bytes, and the
    exception, or nothing.
    """
    size, lengths_at, count, outputs = call
    pieces, accumulator = b"", None
    failure: tuple[bytes, ...] = ()
    data: list[bytes] = []
    calls = None
    try:
        calls = _Calls(function, outputs)
        whole = memoryview(shared)[:size].toreadonly()
        at = 0
        for (length,) in struct.iter_unpack("=Q", bytes(memoryview(shared)[lengths_at : lengths_at + 8 * count])):
            calls.call(whole[at : at + length])
            at += length
        if calls.accumulator:
            accumulator = _packed(calls.accumulator[0])
    except BaseException as error:
        failure = describe(error)
    completed = 0
    if calls is not None:
        if failure:
            calls.take_back()
        completed, pieces, data = calls.completed, bytes(calls.pieces), calls.data
    return completed, pieces, accumulator, data, failure


def _packed(accumulator: Any) -> bytes:
    try:
        return dumps(accumulator)
    except Exception as error:
        raise TypeError(
            f"the accumulator cannot be pickled, so it cannot be sent back from the worker process "
            f'({type(error).__name__}: {error}); give one that can, or on_workers="inline"'
        ) from None
