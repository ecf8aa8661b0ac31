"""A worker process: calls Python functions over blocks of windows, or inputs of tasklets, that lie in shared memory.

It is started fresh (``sys.executable -c``, never forked) by `isochrony._native` with one end of a Unix socket as its
standard input. Over that come messages: the shared memory, as a descriptor; functions; and calls, each of which says
where in the shared memory a block lies and where its result is to be written. Samples never go over the socket. The
parent owns the memory and waits while a call is under way, so there is nothing to lock. When the socket closes, the
process ends: so does it when the parent is killed.

Both sides are of one installation, so messages have no version: a kind and a length, then as many bytes.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import importlib
import json
import mmap
import os
import pickle
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from typing import Any, Never

import numpy as np
import numpy.typing as npt

from ._native import end_with

# Kind of a message, and how many bytes of it follow. Kinds and fields are those of crates/py/src/processes/wire.rs.
HEADER = struct.Struct("=IQ")
MEMORY, FUNCTION, CALL, RUN = 1, 2, 3, 4
READY, LOADED, DONE, KEPT, SHAPE, RAISED, BROUGHT = 1, 2, 3, 4, 5, 6, 7
# Number of the function, rows, values of a row (-1: single values), values from one row to the next, where the result
# lies, bytes of the memory, values of a row of the result (-1: single values), types of both.
WORK = struct.Struct("=QQqQQQq16s16s")
# Number of the function, bytes of the memory; the tasklet as JSON follows.
ERRAND = struct.Struct("=QQ")
# Whether the function keeps what it was given, whether it returned anything, how many parts of outputs it wrote; these
# follow (output, first and last sample), and what it returned, pickled.
RETURNED = struct.Struct("=??Q")
WRITTEN = struct.Struct("=QQQ")
BY_NAME, BY_VALUE = 0, 1
# Seconds that a process may take to end in order once its parent is gone; one that is there waits for less.
GRACE = 10.0


class _Worker:
    def __init__(self, parent: socket.socket) -> None:
        self.parent = parent
        self.functions: dict[int, Callable[..., Any]] = {}
        self.memory = -1
        self.mapped: mmap.mmap | None = None

    def serve(self) -> Never:
        self.answer(READY)
        while True:
            kind, length = HEADER.unpack(self.exactly(HEADER.size))
            if kind == MEMORY:
                self.take_memory()
            elif kind == FUNCTION:
                self.load(self.exactly(length))
            else:
                message = self.exactly(length)
                if kind == RUN:
                    self.run(message)
                else:
                    self.call(message)
                # Killed later on, it has said what it had to say.
                _flush()

    def exactly(self, length: int) -> bytearray:
        data = bytearray(length)
        view = memoryview(data)
        while view:
            got = self.parent.recv_into(view)
            if got == 0:
                raise EOFError
            view = view[got:]
        return data

    def answer(self, kind: int, *parts: bytes) -> None:
        self.parent.sendall(b"".join((HEADER.pack(kind, sum(map(len, parts))), *parts)))

    def take_memory(self) -> None:
        """A descriptor of memory comes with the next byte; what an older one shows stays with who keeps it."""
        _, descriptors, _, _ = socket.recv_fds(self.parent, 1, 1)
        if self.memory >= 0:
            os.close(self.memory)
        (self.memory,) = descriptors
        self.mapped = None

    def load(self, message: bytearray) -> None:
        number, how = struct.unpack_from("=QB", message)
        payload = bytes(message[9:])
        try:
            function = imported(payload.decode()) if how == BY_NAME else pickle.loads(payload)
        except BaseException as error:
            self.raised(error)
        else:
            self.functions[number] = function
            self.answer(LOADED)

    def call(self, message: bytearray) -> None:
        number, rows, columns, stride, place, size, wanted, given, promised = WORK.unpack(message)
        mapped = self.shared(size)
        before = sys.getrefcount(mapped)
        try:
            result: Any = np.asarray(self.functions[number](_rows(mapped, _dtype(given), rows, columns, stride)))
            native = result.dtype.newbyteorder("=")
            legal = [(rows,)] if wanted < 0 else [(rows, wanted)] + [(rows,)] * (wanted == 1)
            dtype = _dtype(promised)
            if native == dtype and result.shape in legal:
                np.ndarray(result.shape, dtype, mapped, place)[...] = result
                reply, parts = DONE, b""
            else:
                reply, parts = SHAPE, "\n".join((native.name, *map(str, result.shape))).encode()
            # Where the result looks into the block it must not count as kept.
            result = None
        except BaseException as error:
            self.raised(error)
            return
        if reply == DONE and sys.getrefcount(mapped) > before:
            # The function keeps what it was given: the memory is its own from here on.
            reply, self.mapped = KEPT, None
        self.answer(reply, parts)

    def shared(self, size: int) -> mmap.mmap:
        if self.mapped is None or len(self.mapped) < size:
            # An array that somebody keeps keeps the mapping that it looks into.
            self.mapped = mmap.mmap(self.memory, size)
        return self.mapped

    def run(self, message: bytearray) -> None:
        from . import _errand

        number, size = ERRAND.unpack_from(message)
        about = json.loads(message[ERRAND.size :])
        mapped = self.shared(size)
        before = sys.getrefcount(mapped)
        try:
            value, written = _errand.run(self.functions[number], about, mapped)
            returned, is_any = b"", value is not None
            if is_any:
                returned = _errand.packed(value, _dumps)
            value = None
        except BaseException as error:
            # The parent has other memory for the next one, since this function may have kept what it was given.
            self.raised(error)
            return
        keeps = sys.getrefcount(mapped) > before
        if keeps:
            self.mapped = None
        parts = b"".join(WRITTEN.pack(*one) for one in written)
        self.answer(BROUGHT, RETURNED.pack(keeps, is_any, len(written)), parts, returned)

    def raised(self, error: BaseException) -> None:
        """Sends an exception, as itself if it can be, and as text."""
        # Not the frames of this file.
        frames = error.__traceback__.tb_next if error.__traceback__ else None
        text = "".join(traceback.format_exception(type(error), error, frames)).encode(errors="replace")
        said = _str(error).encode(errors="replace")
        name = type(error).__qualname__.encode(errors="replace")
        self.answer(RAISED, struct.pack("=QQQ", len(text), len(name), len(said)), text, name, said, _pickled(error))


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _str(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def _pickled(error: BaseException) -> bytes:
    """An exception that survives being pickled, or nothing."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    with contextlib.suppress(Exception):
        data = _dumps(error)
        pickle.loads(data)
        return data
    return b""


def _dumps(error: BaseException) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(error)
    # A class that travelled here by value goes back as the one that it was.
    data: bytes = cloudpickle.dumps(error)
    return data


def _dtype(name: bytes) -> np.dtype[Any]:
    return np.dtype(name.rstrip(b"\0").decode())


def _rows(mapped: mmap.mmap, dtype: np.dtype[Any], rows: int, columns: int, stride: int) -> npt.NDArray[Any]:
    """A block as the function sees it: read-only, rows that overlap share their values."""
    size = dtype.itemsize
    shape, strides = ((rows,), (size,)) if columns < 0 else ((rows, columns), (stride * size, size))
    block: npt.NDArray[Any] = np.ndarray(shape, dtype, mapped, 0, strides)
    block.flags.writeable = False
    return block


def imported(name: str) -> Any:
    """The function of a name as ``isochrony.functions.importable`` gives it."""
    from isochrony.functions import imported

    module, _, _ = name.partition(":")
    importlib.import_module(module)
    return imported(name)


def _end_what_is_left(parent: int) -> None:
    """Ends what functions started and left behind; a parent that is there does that itself."""
    if os.getppid() != parent and os.getpgrp() == os.getpid():
        _flush()
        os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Serves the parent at the other end of standard input."""
    parent = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    with contextlib.suppress(Exception):
        # A crash of a library says where.
        faulthandler.enable()
    # Also in the midst of a call that never lets go of the interpreter.
    end_with(parent.fileno(), GRACE)
    # The first that is registered comes last.
    atexit.register(_end_what_is_left, os.getppid())
    with contextlib.suppress(EOFError, ConnectionError):
        _Worker(parent).serve()
