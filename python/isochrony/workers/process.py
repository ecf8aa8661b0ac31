"""A worker process: calls Python functions over blocks of windows, or inputs of tasklets, that lie in shared memory.

`isochrony._native` starts it fresh (``sys.executable -c``, never forked), with one end of a Unix socket as standard
input. Messages carry the shared memory as a descriptor, functions, and calls, which say where in the shared memory
samples lie and where results go. The parent owns the memory and waits during a call, so there is nothing to lock. When
the socket closes, also because the parent was killed, the process ends.

Both sides belong to one installation, so messages have no version: a kind, a length and a body.
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

from .._native import end_with
from ..running.options import WORKER_VARIABLE
from .exceptions import dumps, pickled, said

# Kind and body length of a message. Kinds and fields are those of crates/workers/src/wire.rs.
HEADER = struct.Struct("=IQ")
MEMORY, LOAD_FUNCTION, CALL_BLOCK, CALL_TASKLET, FORGET_FUNCTIONS, CALL_RECORDS = 1, 2, 3, 4, 5, 6
READY, LOADED, BLOCK_DONE, BLOCK_DONE_KEEPING, WRONG_SHAPE, RAISED, TASKLET_DONE = 1, 2, 3, 4, 5, 6, 7
RECORDS_DONE = 8
# Function number, rows, columns (-1: single values), stride, offset of the result, memory size, columns of the result,
# dtypes of both.
BLOCK_CALL = struct.Struct("=QQqQQQq16s16s")
# Function number, memory size; then the tasklet as JSON.
TASKLET_CALL = struct.Struct("=QQ")
# Function number, memory size, bytes of all records, place of their lengths, number of records and of outputs.
RECORDS_CALL = struct.Struct("=QQQQQQ")
# Whether the function keeps its input, whether there are an accumulator and an exception, completed records, number of
# pieces, bytes of the accumulator and of the pieces; then the pieces, these two, and the exception as below from its
# lengths on.
RECORDS_RESULT = struct.Struct("=???QQQQ")
# Whether the function keeps its input (or there is no memory), lengths of traceback, class and message; then these, and
# the pickled exception.
EXCEPTION = struct.Struct("=?QQQ")
# Whether the function keeps its input, whether it returned anything, number of written ranges; then these (output,
# start, end), and what it returned, pickled.
TASKLET_RESULT = struct.Struct("=??Q")
WRITTEN_RANGE = struct.Struct("=QQQ")
BY_NAME, BY_VALUE = 0, 1
# Time to exit in order once the parent is gone. A parent that lives waits for less.
EXIT_TIMEOUT_S = 10.0
# Payload of forgotten functions after which garbage is collected, since they may be in cycles.
MAX_FORGOTTEN_BYTES = 16 << 20
# Most calls between two collections, if the last ones freed nothing.
MAX_PAUSE = 63


class _Worker:
    def __init__(self, parent: socket.socket) -> None:
        self.parent = parent
        self.functions: dict[int, Callable[..., Any]] = {}
        self.memory = -1
        # The only reference: others would count as held by the function.
        self.mapped: Any = None
        # Payload bytes by function number.
        self.sizes: dict[int, int] = {}
        self.forgotten = 0
        # Calls until the next collection, and that number the last time.
        self.pause = self.last_pause = 0

    def serve(self) -> Never:
        self.answer(READY)
        while True:
            kind, length = HEADER.unpack(self.exactly(HEADER.size))
            if kind == MEMORY:
                self.take_memory()
            elif kind == LOAD_FUNCTION:
                self.load(self.exactly(length))
            elif kind == FORGET_FUNCTIONS:
                self.forget(self.exactly(length))
            else:
                message = self.exactly(length)
                if kind == CALL_TASKLET:
                    self.run(message)
                elif kind == CALL_RECORDS:
                    self.call_records(message)
                else:
                    self.call(message)
                # It may be killed later.
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
        """Take the descriptor that comes with the next byte; arrays keep what an older one maps."""
        _, descriptors, _, _ = socket.recv_fds(self.parent, 1, 1)
        if self.memory >= 0:
            os.close(self.memory)
        # None comes if this process has too many open files; the next call reports it.
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
        if self.forgotten >= MAX_FORGOTTEN_BYTES:
            self.forgotten = 0
            gc.collect()

    def call(self, message: bytearray) -> None:
        number, rows, columns, stride, place, size, wanted, given, promised = BLOCK_CALL.unpack(message)
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
                reply, parts = BLOCK_DONE, b""
            else:
                reply, parts = WRONG_SHAPE, "\n".join((native.name, *map(str, result.shape))).encode()
            # A view of the input must not count as kept.
            result = None
        except BaseException as error:
            result, raised = None, _described(error)
        else:
            raised = ()
        if raised:
            self.raised(raised, self.keeps(before))
            return
        if reply == BLOCK_DONE and self.keeps(before):
            reply = BLOCK_DONE_KEEPING
        self.answer(reply, parts)

    def shared(self, size: int) -> bool:
        """Map that much memory; on failure tell the parent and return False."""
        if self.mapped is None or len(self.mapped) < size:
            try:
                if self.memory < 0:
                    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                # Arrays that are kept keep the old mapping.
                self.mapped = mmap.mmap(self.memory, size)
            except OSError as error:
                self.raised(_described(_refused(error, size)), True)
                return False
        return True

    def held(self) -> int:
        return sys.getrefcount(self.mapped)

    def keeps(self, before: int) -> bool:
        """Whether the function keeps its input; if so, the memory is its own from here on.

        An array that is left in a cycle is kept by nobody, but looks so: ``except ... as error: last = error`` is one.
        """
        if self.held() <= before:
            return False
        # Finds cycles that were just created.
        gc.collect(1)
        if self.held() > before:
            if self.pause == 0:
                gc.collect()
                vain = self.held() > before
                self.last_pause = self.pause = min(2 * self.last_pause + 1, MAX_PAUSE) if vain else 0
            else:
                self.pause -= 1
        if self.held() <= before:
            return False
        self.mapped = None
        return True

    def run(self, message: bytearray) -> None:
        from . import tasklet_call as _remote_call

        number, size = TASKLET_CALL.unpack_from(message)
        about = json.loads(message[TASKLET_CALL.size :])
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
        parts = b"".join(WRITTEN_RANGE.pack(*one) for one in written)
        self.answer(TASKLET_DONE, TASKLET_RESULT.pack(keeps, is_any, len(written)), parts, returned)

    def call_records(self, message: bytearray) -> None:
        from ..nbuffering import record_calls

        number, size, *call = RECORDS_CALL.unpack(message)
        if not self.shared(size):
            return
        before = self.held()
        completed, pieces, accumulator, data, raised = record_calls.call_records(
            self.functions[number], self.mapped, tuple(call), _described
        )
        keeps = self.keeps(before)
        count, length = len(pieces) // record_calls.PIECE.size, sum(map(len, data))
        numbers = (completed, count, len(accumulator or b""), length)
        head = RECORDS_RESULT.pack(keeps, accumulator is not None, bool(raised), *numbers)
        exception = [struct.pack("=QQQ", *map(len, raised[:3])), *raised] if raised else []
        self.answer(RECORDS_DONE, head, pieces, accumulator or b"", *data, *exception)

    def raised(self, described: tuple[bytes, ...], keeps: bool = False) -> None:
        text, name, said, _ = described
        self.answer(RAISED, EXCEPTION.pack(keeps, len(text), len(name), len(said)), *described)


def _described(error: BaseException) -> tuple[bytes, ...]:
    """An exception as text, its class, its message, and itself if it can be pickled."""
    # Without this file's frame.
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    text = "".join(traceback.format_exception(type(error), error, frames)).encode(errors="replace")
    message = said(error).encode(errors="replace")
    name = type(error).__qualname__.encode(errors="replace")
    return text, name, message, pickled(error)


def _refused(error: OSError, size: int) -> OSError:
    """The error where shared memory cannot be mapped."""
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
    """A block as a read-only array; overlapping rows share values."""
    size = dtype.itemsize
    shape, strides = ((rows,), (size,)) if columns < 0 else ((rows, columns), (stride * size, size))
    block: npt.NDArray[Any] = np.ndarray(shape, dtype, mapped, 0, strides)
    block.flags.writeable = False
    return block


def imported(name: str) -> Any:
    """The function of a name as ``isochrony.functions.importable`` gives it."""
    from isochrony.functions.python import imported

    module, _, _ = name.partition(":")
    importlib.import_module(module)
    return imported(name)


def _end_what_is_left(parent: int) -> None:
    """Kill what functions left behind, if the parent is gone and cannot."""
    if os.getppid() != parent and os.getpgrp() == os.getpid():
        _flush()
        os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Serves the parent at the other end of standard input."""
    os.environ[WORKER_VARIABLE] = "1"
    parent = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    with contextlib.suppress(Exception):
        # Shows where a library crashes.
        faulthandler.enable()
    # Works also during a call that never releases the interpreter.
    end_with(parent.fileno(), EXIT_TIMEOUT_S)
    # Registered first, called last.
    atexit.register(_end_what_is_left, os.getppid())
    with contextlib.suppress(EOFError, ConnectionError):
        _Worker(parent).serve()
