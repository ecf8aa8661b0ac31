"""Output files: the one way in which files that a user asks for are written.

A file is there as a whole or not at all. `OutputFile` writes to a hidden file beside the target and gives it the
target's name once every byte is on the disk, so that a full disk, an error or Ctrl-C leaves what was there before.
Every byte goes through `write`, whose errors are remembered: libraries that write through it report a full disk each in
its own way or not at all. Nothing is written through a memory map, since on a full disk that ends the process.

Two rules hold for every output: a file that exists is replaced only on request, and nothing is written into a store.
"""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Literal, Self

from ..errors import IsochronyError, UsageError

__all__ = ["OutputFile", "check_output", "refuse_inside_store", "writing"]

_BUFFER = 1 << 20
# Numbers of the part files of this process.
_NUMBERS = itertools.count()
# What a file system without hard links answers.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def refuse_inside_store(out: str | os.PathLike[str]) -> None:
    """Refuse a path inside a store, also by way of links.

    Raises:
        UsageError: it lies in one.
    """
    place = Path(os.path.realpath(os.fspath(out)))
    for folder in (place, *place.parents):
        if _is_folder(folder / ".isochrony"):
            raise UsageError(f"{os.fspath(out)} lies inside the store {folder}; name a file outside of it")


def check_output(out: Path, *, replace: bool = False) -> None:
    """Refuse an output before anything is computed for it.

    Parameters:
        out: file to write.
        replace: a file that exists may be replaced.

    Raises:
        UsageError: it exists, and `replace` is false, or it lies inside a store.
        OSError: the system's: no folder, or no right to write there; with `out` as its file.
    """
    _check_path(out, replace)
    if not _is_direct(out):
        OutputFile(out, replace=replace).discard()


def _check_path(out: Path, replace: bool) -> None:
    refuse_inside_store(out)
    if not replace and os.path.lexists(out) and not _is_direct(out) and not _is_folder(out):
        raise _exists(out)


def _exists(out: Path) -> UsageError:
    return UsageError(f"{out} exists; name another file, or replace it with --force")


def _is_direct(out: Path) -> bool:
    """Whether it is a device or a pipe, to which bytes go as they come."""
    with contextlib.suppress(PermissionError):
        return out.exists() and not out.is_file() and not out.is_dir()
    return False


def _is_folder(path: Path) -> bool:
    # Where it may not be looked at, opening it says so.
    with contextlib.suppress(PermissionError):
        return path.is_dir()
    return False


class _Bytes(io.FileIO):
    """A file that remembers its first error."""

    failed: OSError | None = None
    stopped: bool = False

    def write(self, data: Any) -> Any:
        if self.stopped:
            # A library caught the first one.
            raise KeyboardInterrupt
        try:
            return super().write(data)
        except OSError as error:
            self.failed = self.failed or error
            raise


class OutputFile(io.BufferedWriter):
    """A file that is being written, and gets its name by `commit`.

    Parameters:
        out: the file to be. A device or a pipe is written to directly.
        replace: a file that exists is replaced by `commit`.

    Attributes:
        path: the file to be.

    Raises:
        UsageError: it lies inside a store.
        OSError: the system's: no folder, no right to write there; with `out` as its file.
    """

    def __init__(self, out: Path, *, replace: bool) -> None:
        refuse_inside_store(out)
        self.path = out
        self._replace = replace
        self._part: Path | None = None
        try:
            if _is_direct(out):
                self._bytes = _Bytes(out, "wb")
            elif _is_folder(out):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            else:
                self._bytes = self._create(out)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(out)) from None
        super().__init__(self._bytes, _BUFFER)

    def _create(self, out: Path) -> _Bytes:
        while True:
            self._part = out.with_name(f".{out.stem}.{os.getpid()}-{next(_NUMBERS)}.part{out.suffix}")
            # One may be left of a process that was killed and had the same number, here or on another machine.
            with contextlib.suppress(FileExistsError):
                return _Bytes(self._part, "xb")

    @property
    def failure(self) -> OSError | None:
        """The first error of the system while it was written, with `path` as its file."""
        failed = self._bytes.failed
        return None if failed is None else OSError(failed.errno, failed.strerror, str(self.path))

    def commit(self, name: Path | None = None) -> None:
        """Make it durable and give it its name.

        Parameters:
            name: instead of `path`, such as that of a part; a file of that name is replaced.

        Raises:
            UsageError: a file of that name has appeared meanwhile.
            OSError: the system's, with `path` as its file.
        """
        try:
            self.flush()
            failed = self._bytes.failed
            if failed is not None:
                raise failed
            if self._part is not None:
                os.fsync(self.fileno())
            self.close()
            if self._part is not None:
                self._name(self._part, name or self.path, replace=self._replace or name is not None)
                self._part = None
        except OSError as error:
            self.discard()
            if isinstance(error, IsochronyError):
                raise
            raise OSError(error.errno, error.strerror, str(name or self.path)) from error
        except BaseException:
            self.discard()
            raise

    @staticmethod
    def _name(part: Path, out: Path, *, replace: bool) -> None:
        if replace:
            part.replace(out)
        else:
            try:
                # Unlike a rename, this fails where a file has appeared since.
                os.link(part, out)
                part.unlink()
            except FileExistsError:
                raise _exists(out) from None
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                if os.path.lexists(out):
                    raise _exists(out) from None
                part.replace(out)
        # The name is durable once its folder is.
        folder = os.open(out.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def discard(self) -> None:
        """Remove what was written; what was there before stays."""
        # On a full disk not even what is buffered can be written, and closing a second time would try again.
        with contextlib.suppress(OSError, ValueError, KeyboardInterrupt):
            self._bytes.close()
        with contextlib.suppress(OSError, ValueError):
            self.close()
        if self._part is not None:
            with contextlib.suppress(OSError):
                self._part.unlink(missing_ok=True)


@contextlib.contextmanager
def writing(out: Path, *, replace: bool = False) -> Iterator[OutputFile]:
    """A file to write to, which becomes `out` when the block ends; whatever fails leaves `out` as it was.

    Ctrl-C ends the block at the next write even where a library has caught the exception; SIGTERM and SIGHUP remove the
    part file before they end the process.

    Parameters:
        out: the file to be.
        replace: a file that exists is replaced.

    Raises:
        UsageError: the file exists and `replace` is false, or lies inside a store.
        OSError: the system's, always with `out` as its file.
    """
    _check_path(out, replace)
    with _Signals() as signals:
        file = OutputFile(out, replace=replace)
        signals.file = file._bytes
        try:
            yield file
            if file._bytes.stopped:
                raise KeyboardInterrupt
            file.commit()
        except BaseException as error:
            failure = file.failure
            stopped = file._bytes.stopped
            file.discard()
            if stopped and not isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            if failure is not None:
                raise failure from error
            if isinstance(error, OSError) and not isinstance(error, IsochronyError):
                raise OSError(error.errno, error.strerror or str(error), str(out)) from error
            if isinstance(error, RuntimeError):
                # Libraries that write audio and miniSEED raise their own.
                raise OSError(None, f"{error}", str(out)) from error
            raise


class _Ended(BaseException):
    """A signal that ends the process, once the part file is removed."""


class _Signals:
    """Signals while a file is written: they reach the writer even if the exception that they raise is lost."""

    file: _Bytes | None = None

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._ended: int | None = None

    def __enter__(self) -> Self:
        # Only the main thread gets signals, and may say what they do.
        if threading.current_thread() is threading.main_thread():
            if callable(signal.getsignal(signal.SIGINT)):
                self._take(signal.SIGINT, self._stop)
            for name in ("SIGTERM", "SIGHUP"):
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                    self._take(number, self._end)
        return self

    def _take(self, number: int, handler: Any) -> None:
        self._before[number] = signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        # A handler of the program's own may go on instead; then so does the writer.
        before = self._before[number]
        try:
            before(number, frame)
        except BaseException:
            if self.file is not None:
                self.file.stopped = True
            raise

    def _end(self, number: int, _: FrameType | None) -> None:
        self._ended = number
        if self.file is not None:
            self.file.stopped = True
        raise _Ended

    def __exit__(self, *_: object) -> Literal[False]:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._ended is not None:
            os.kill(os.getpid(), self._ended)
        return False
