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
import errno
import faulthandler
import gc
import importlib
import json
import mmap
import os
import pickle
import resource
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
from .raised import dumps, pickled, said

# Kind of a message, and how many bytes of it follow. Kinds and fields are those of crates/workers/src/wire.rs.
HEADER = struct.Struct("=IQ")
MEMORY, FUNCTION, CALL, RUN, FORGET = 1, 2, 3, 4, 5
READY, LOADED, DONE, KEPT, SHAPE, RAISED, BROUGHT = 1, 2, 3, 4, 5, 6, 7
# Number of the function, rows, values of a row (-1: single values), values from one row to the next, where the result
# lies, bytes of the memory, values of a row of the result (-1: single values), types of both.
WORK = struct.Struct("=QQqQQQq16s16s")
# Number of the function, bytes of the memory; the tasklet as JSON follows.
REMOTE_CALL = struct.Struct("=QQ")
# Whether the function keeps what it was given (or there is no memory), lengths of a traceback, a class, a message; they
# follow, and the exception, pickled.
RAISED_WITH = struct.Struct("=?QQQ")
# Whether the function keeps what it was given, whether it returned anything, how many parts of outputs it wrote; these
# follow (output, first and last sample), and what it returned, pickled.
RETURNED = struct.Struct("=??Q")
WRITTEN = struct.Struct("=QQQ")
BY_NAME, BY_VALUE = 0, 1
# Seconds that a process may take to end in order once its parent is gone; one that is there waits for less.
GRACE = 10.0
# Functions of so many bytes are forgotten before cycles are looked for, in which they or what they enclose may be.
MUCH = 16 << 20
# Calls between two looks for cycles at most, where those before were in vain.
RARELY = 63


class _Worker:
    def __init__(self, parent: socket.socket) -> None:
        self.parent = parent
        self.functions: dict[int, Callable[..., Any]] = {}
        self.memory = -1
        # No other name is given to it, by which it would look held.
        self.mapped: Any = None
        # By the functions' numbers: bytes that they came in.
        self.sizes: dict[int, int] = {}
        self.forgotten = 0
        # Calls until cycles are looked for again, and how many that was the last time.
        self.pause = self.last_pause = 0

    def serve(self) -> Never:
        self.answer(READY)
        while True:
            kind, length = HEADER.unpack(self.exactly(HEADER.size))
            if kind == MEMORY:
                self.take_memory()
            elif kind == FUNCTION:
                self.load(self.exactly(length))
            elif kind == FORGET:
                self.forget(self.exactly(length))
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
        # None comes where this process may have no more: the next call says so.
        self.memory = descriptors[0] if descriptors else -1
        self.mapped = None

    def load(self, message: bytearray) -> None:
        number, how = struct.unpack_from("=QB", message)
        payload = memoryview(message)[9:]
        try:
            function = imported(str(payload, "utf-8")) if how == BY_NAME else pickle.loads(payload)
        except BaseException as error:
            raised = _described(error)
            self.raised(raised)
        else:
            self.functions[number] = function
            self.sizes[number] = len(payload)
            self.answer(LOADED)

    def forget(self, message: bytearray) -> None:
        for (number,) in struct.iter_unpack("=Q", message):
            self.functions.pop(number, None)
            self.forgotten += self.sizes.pop(number, 0)
        if self.forgotten >= MUCH:
            self.forgotten = 0
            gc.collect()

    def call(self, message: bytearray) -> None:
        number, rows, columns, stride, place, size, wanted, given, promised = WORK.unpack(message)
        if not self.shared(size):
            return
        before = self.held()
        try:
            result: Any = np.asarray(self.functions[number](_rows(self.mapped, _dtype(given), rows, columns, stride)))
            native = result.dtype.newbyteorder("=")
            legal = [(rows,)] if wanted < 0 else [(rows, wanted)] + [(rows,)] * (wanted == 1)
            dtype = _dtype(promised)
            if native == dtype and result.shape in legal:
                np.ndarray(result.shape, dtype, self.mapped, place)[...] = result
                reply, parts = DONE, b""
            else:
                reply, parts = SHAPE, "\n".join((native.name, *map(str, result.shape))).encode()
            # Where the result looks into the block it must not count as kept.
            result = None
        except BaseException as error:
            result, raised = None, _described(error)
        else:
            raised = ()
        if raised:
            self.raised(raised, self.keeps(before))
            return
        if reply == DONE and self.keeps(before):
            reply = KEPT
        self.answer(reply, parts)

    def shared(self, size: int) -> bool:
        """Whether there is memory of so many bytes; if not, the parent is told so."""
        if self.mapped is None or len(self.mapped) < size:
            try:
                if self.memory < 0:
                    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                # An array that somebody keeps keeps the mapping that it looks into.
                self.mapped = mmap.mmap(self.memory, size)
            except OSError as error:
                self.raised(_described(_refused(error, size)), True)
                return False
        return True

    def held(self) -> int:
        return sys.getrefcount(self.mapped)

    def keeps(self, before: int) -> bool:
        """Whether the function keeps what it was given: if so, the memory is its own from here on.

        An array that is left in a cycle is kept by nobody, but looks so: ``except ... as error: last = error`` is one.
        """
        if self.held() <= before:
            return False
        # Those that have just been made are found at once.
        gc.collect(1)
        if self.held() > before:
            if self.pause == 0:
                gc.collect()
                vain = self.held() > before
                self.last_pause = self.pause = min(2 * self.last_pause + 1, RARELY) if vain else 0
            else:
                self.pause -= 1
        if self.held() <= before:
            return False
        self.mapped = None
        return True

    def run(self, message: bytearray) -> None:
        from . import _remote_call

        number, size = REMOTE_CALL.unpack_from(message)
        about = json.loads(message[REMOTE_CALL.size :])
        if not self.shared(size):
            return
        before = self.held()
        try:
            value, written = _remote_call.run(self.functions[number], about, self.mapped)
            returned, is_any = b"", value is not None
            if is_any:
                returned = _remote_call.packed(value, dumps)
            value = None
        except BaseException as error:
            value, raised = None, _described(error)
        else:
            raised = ()
        keeps = self.keeps(before)
        if raised:
            self.raised(raised, keeps)
            return
        parts = b"".join(WRITTEN.pack(*one) for one in written)
        self.answer(BROUGHT, RETURNED.pack(keeps, is_any, len(written)), parts, returned)

    def raised(self, described: tuple[bytes, ...], keeps: bool = False) -> None:
        text, name, said, _ = described
        self.answer(RAISED, RAISED_WITH.pack(keeps, len(text), len(name), len(said)), *described)


def _described(error: BaseException) -> tuple[bytes, ...]:
    """An exception as text, its class, its message, and itself if it can be pickled."""
    # Not the frames of this file.
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    text = "".join(traceback.format_exception(type(error), error, frames)).encode(errors="replace")
    message = said(error).encode(errors="replace")
    name = type(error).__qualname__.encode(errors="replace")
    return text, name, message, pickled(error)


def _refused(error: OSError, size: int) -> OSError:
    """What is said where the memory that samples come in cannot be had."""
    if error.errno != errno.EMFILE:
        return OSError(error.errno, f"{size} bytes of shared memory cannot be mapped ({error.strerror})")
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OSError(
        error.errno,
        f"a worker process may have no more than {most} files open (RLIMIT_NOFILE), and the memory of samples "
        "is one; each array of samples that a function keeps keeps one open: keep copies (numpy.array(x)), or raise "
        "the limit (ulimit -n)",
    )


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()


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
