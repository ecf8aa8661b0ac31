"""What `isochrony.nbuffer` reads from and writes to: descriptors where there are any, else memory and objects."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import socket
import stat
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors import UsageError, with_code
from ..errors.native import NBufferFolderError, NBufferNotFoundError, NBufferOSError, NBufferPermissionError
from ..output.files import refuse_inside_store

if TYPE_CHECKING:
    from .._native import Segment, Selection, Signal

__all__ = ["Opened", "Writer", "open_destination", "open_sources"]

# What native code takes: a name for errors, one of "memory", "descriptor" and "object", and that.
Stream = tuple[str, str, Any]


class Opened:
    """Streams for one call: what was opened for it is closed after it. Native code duplicates what it keeps."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self._held: list[int] = []
        self._replaced: list[int] = []
        self._after: list[Callable[[int], None] | None] = []

    def add(self, stream: Stream, after: Callable[[int], None] | None = None) -> None:
        """One more; `after` is told how many bytes went through it."""
        self.streams.append(stream)
        self._after.append(after)
        if stream[1] == "descriptor":
            self._held.append(stream[2])

    def replace(self, descriptor: int) -> None:
        """A file whose content is to go, once everything is open."""
        self._replaced.append(descriptor)

    def begin(self) -> list[Stream]:
        """Empties the files that are to be replaced; the streams."""
        while self._replaced:
            os.ftruncate(self._replaced.pop(), 0)
        return self.streams

    def finish(self, counts: list[int], failed: bool) -> None:
        """Leaves Python's file objects where the bytes ended. After a failure, that an output has no end is no news."""
        refused: UsageError | None = None
        for after, count in zip(self._after, counts, strict=False):
            try:
                if after is not None:
                    after(count)
            except UsageError as error:
                refused = refused or error
        if refused is not None and not failed:
            raise refused

    def close(self) -> None:
        """Closes what was opened."""
        for descriptor in self._held:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._held.clear()


def open_sources(sources: list[Any]) -> Opened:
    """Opens each source."""
    opened = Opened()
    try:
        for source in sources:
            _open_source(source, opened)
    except BaseException:
        opened.close()
        raise
    return opened


def _open_source(source: Any, opened: Opened) -> None:
    if isinstance(source, str | os.PathLike):
        opened.add((os.fspath(source), "descriptor", _open("input", source, os.O_RDONLY)))
    elif _is_number(source):
        opened.add((f"descriptor {source}", "descriptor", _duplicate("src", source)))
    elif isinstance(source, socket.socket):
        opened.add(("socket", "descriptor", _duplicate("src", source.fileno())))
    elif isinstance(source, io.TextIOBase):
        raise UsageError(
            'src gives text, but bytes are needed; open the file in binary mode ("rb"), or give src.buffer'
        )
    elif isinstance(source, io.IOBase) and not _serves("src", source):
        raise UsageError(f"src {_name(source)} is open for writing only; open it for reading")
    elif (samples := _samples(source)) is not None:
        for name, array in samples:
            opened.add((name, "memory", _memory(array)))
    elif isinstance(source, io.FileIO | io.BufferedReader | io.BufferedRandom) and source.seekable():
        # Python may have read ahead: what it gave so far ends at tell(), and seek() has it forget the rest.
        start = source.tell()
        source.seek(start)
        os.lseek(source.fileno(), start, os.SEEK_SET)
        opened.add((_name(source), "descriptor", os.dup(source.fileno())), lambda count: _seek(source, start + count))
    elif isinstance(source, io.FileIO):
        opened.add((_name(source), "descriptor", os.dup(source.fileno())))
    elif callable(getattr(source, "read", None)):
        # What has come, not all that was asked for: a pipe's writer may be slow.
        opened.add((_name(source), "object", getattr(source, "read1", source.read)))
    else:
        opened.add(("memory", "memory", _memory(source)))


def _open(end: Literal["input", "output"], path: str | os.PathLike[str], flags: int) -> int:
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except OSError as error:
        raise _refused(end, os.fspath(path), error) from error
    except ValueError as error:
        raise UsageError(f"{end} {os.fspath(path)!r} is not a path ({error}); give the path of a file") from error
    return descriptor


def _refused(end: Literal["input", "output"], path: str, cause: OSError) -> NBufferOSError:
    """The error for a path that the system does not open."""
    code = "nbuf_read" if end == "input" else "nbuf_write"
    kind: type[NBufferOSError] = NBufferOSError
    text, remedy = f"cannot open {end} {path!r}: {cause.strerror}", "check the path"
    if isinstance(cause, FileNotFoundError):
        kind = NBufferNotFoundError
        if end == "input":
            text, remedy, code = f"input {path!r} does not exist", "check the path", kind.code
        else:
            remedy = "create its folder, or give another dst"
    elif isinstance(cause, IsADirectoryError):
        kind = NBufferFolderError
        text, remedy = f"{end} {path!r} is a folder", "give the path of a file"
    elif isinstance(cause, PermissionError):
        kind = NBufferPermissionError
        remedy = "change its permissions, or give another path"
    refused = with_code(kind(f"{text}; {remedy}"), code)
    refused.errno = cause.errno
    return refused


def _duplicate(what: str, descriptor: int) -> int:
    try:
        return os.dup(descriptor)
    except (OSError, OverflowError):
        raise UsageError(f"{what}: descriptor {descriptor} is not open; give an open descriptor or a path") from None


def _serves(what: str, stream: io.IOBase) -> bool:
    """Whether a file is open for what it is given for; streams of other kinds need not know."""
    if stream.closed:
        raise UsageError(f"{what} {_name(stream)} is closed; open it again, and close it only after the run")
    if isinstance(stream, io.FileIO | io.BufferedReader | io.BufferedWriter | io.BufferedRandom):
        return stream.readable() if what == "src" else stream.writable()
    return True


def _seek(file: Any, to: int) -> None:
    with contextlib.suppress(OSError, ValueError):
        file.seek(to)


def _is_number(thing: Any) -> bool:
    return isinstance(thing, int) and not isinstance(thing, bool)


def _name(stream: Any) -> str:
    name = getattr(stream, "name", None)
    return name if isinstance(name, str) else type(stream).__name__


def _memory(source: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    if isinstance(source, np.ndarray):
        # Also of types that other libraries have no name for: of the other byte order, times, several fields.
        if source.dtype.hasobject:
            raise UsageError(f"src of dtype {source.dtype} is refused; give an array of numbers")
        source = source.reshape(-1).view("u1") if source.flags.c_contiguous and source.size else source
    try:
        view = memoryview(source)
    except (TypeError, ValueError):
        raise UsageError(
            f"src={type(source).__name__} is refused; give a path, something bytes-like, an open file, a descriptor, "
            "a socket, a signal, an object with read, or a list of those"
        ) from None
    if not view.c_contiguous:
        raise UsageError(
            "src is not contiguous in memory; give a contiguous array, for instance numpy.ascontiguousarray(src)"
        )
    return np.frombuffer(view.cast("B") if view.nbytes else b"", dtype=np.uint8)


def _samples(source: Any) -> Iterator[tuple[str, Any]] | None:
    """The stored samples of a signal, a selection or a segment, stretch by stretch; None if it is something else."""
    from .._native import Segment, Selection, Signal

    if isinstance(source, Signal):
        return _stretches(source.name, source[:])
    if isinstance(source, Selection):
        return _stretches("selection", source)
    if isinstance(source, Segment):
        return iter([("segment", np.asarray(source))])
    return None


def _stretches(name: str, selection: Selection) -> Iterator[tuple[str, Any]]:
    for number, segment in enumerate(selection.segments):
        yield f"{name}, stretch {number}", np.asarray(_counts(segment))


def _counts(segment: Segment) -> Any:
    return segment.counts


class Writer:
    """Appends bytes to a signal as its samples, whole ones; the beginning of one waits for its end."""

    def __init__(self, signal: Signal) -> None:
        self._signal = signal
        self._dtype = np.dtype(signal.dtype)
        self._rest = b""

    def write(self, data: bytes) -> int:
        """Takes all of it."""
        data = self._rest + data
        whole = len(data) - len(data) % self._dtype.itemsize
        self._rest = data[whole:]
        if whole:
            self._signal.append(np.frombuffer(data[:whole], dtype=self._dtype))
        return len(data)

    def end(self) -> None:
        """Says so if the beginning of a sample is left."""
        if self._rest:
            raise UsageError(
                f"the output ends within a sample: of the last sample only {len(self._rest)} of {self._dtype.itemsize} "
                "bytes were written; return whole samples from process=, or give a file as dst"
            )


def open_destination(destination: Any, opened: Opened, sources: Opened) -> None:
    """Opens a destination; a file of its name is replaced, when the first byte could be written and not before."""
    from .._native import Signal

    if isinstance(destination, str | os.PathLike):
        refuse_inside_store(destination)
        descriptor = _open("output", destination, os.O_WRONLY | os.O_CREAT)
        opened.add((os.fspath(destination), "descriptor", descriptor))
        _refuse_the_same(descriptor, os.fspath(destination), sources)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            opened.replace(descriptor)
    elif _is_number(destination):
        opened.add((f"descriptor {destination}", "descriptor", _duplicate("dst", destination)))
    elif isinstance(destination, socket.socket):
        opened.add(("socket", "descriptor", _duplicate("dst", destination.fileno())))
    elif isinstance(destination, io.TextIOBase):
        raise UsageError("dst takes text, but the output is bytes; open the file in binary mode, or give dst.buffer")
    elif isinstance(destination, io.IOBase) and not _serves("dst", destination):
        raise UsageError(f"dst {_name(destination)} is open for reading only; open it for writing")
    elif isinstance(destination, Signal):
        writer = Writer(destination)
        opened.add((destination.name, "object", writer.write), lambda _: writer.end())
    elif isinstance(destination, bytearray):
        opened.add(("bytearray", "object", _extend(destination)))
    elif isinstance(destination, io.FileIO | io.BufferedWriter | io.BufferedRandom):
        destination.flush()
        start = destination.tell() if destination.seekable() else None
        after = None if start is None else (lambda count: _seek(destination, start + count))
        opened.add((_name(destination), "descriptor", os.dup(destination.fileno())), after)
    elif isinstance(destination, io.RawIOBase):
        opened.add((_name(destination), "object", _raw(destination)))
    elif callable(getattr(destination, "write", None)):
        opened.add((_name(destination), "object", destination.write))
    else:
        raise UsageError(
            f"dst={type(destination).__name__} is refused; give a path, an open file, the number of an open file "
            "descriptor, a socket, a bytearray, a signal open for writing, an object with write(), a list of those, "
            "or None"
        )


def _extend(destination: bytearray) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        destination.extend(data)

    return write


def _raw(destination: io.RawIOBase) -> Callable[[bytes], int]:
    def write(data: bytes) -> int:
        count = destination.write(data)
        if count is None:  # of other writers it means all
            raise BlockingIOError(11, "dst is non-blocking and takes nothing now; give a blocking destination")
        return count

    return write


def _refuse_the_same(descriptor: int, path: str, sources: Opened) -> None:
    about = os.fstat(descriptor)
    for name, kind, source in sources.streams:
        if kind == "descriptor" and stat.S_ISREG(about.st_mode) and os.path.samestat(about, os.fstat(source)):
            raise UsageError(
                f"dst {path} is the same file as src {name}; write to another file, and rename that file afterwards"
            )
