"""Storage that hosts read files from and write results to: one reader for each scheme of URLs.

A file has a version: its entity tag where the storage has one, else its length and time of modification. A reader gives
the bytes of one version, or raises `StorageChangedError`: a run never mixes two versions of a file.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from .._native import url_schemes
from ..errors.native import OptionError, StorageChangedError, StorageError, StorageNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

#: Bytes of a file that are copied at a time.
COPY_BYTES = 4 << 20


class FileKey(NamedTuple):
    """One version of a file.

    Attributes:
        url: address, or absolute path.
        etag: entity tag; None: the storage has none.
        modified_ns: time of modification in ns since 1970, where there is no tag; else 0.
        bytes: length.
    """

    url: str
    etag: str | None
    modified_ns: int
    bytes: int


class ByteStream(Protocol):
    """Bytes of a range, in order."""

    def readinto(self, buffer: Any, /) -> int | None:
        """Fills a buffer as far as there is something; the number of bytes, 0 at the end."""

    def close(self) -> None:
        """Ends reading."""


class Storage(Protocol):
    """Files of one scheme."""

    def stat(self, url: str) -> FileKey:
        """The version that there is now."""

    def open(self, key: FileKey, start: int, stop: int) -> ByteStream:
        """A range of a version."""

    def write(self, url: str, path: Path) -> FileKey:
        """Stores a local file as a whole, so that readers see all of it or nothing; its version."""


class LocalFiles:
    """Paths, and URLs such as ``file:///data/a.fits``, on a file system that all hosts mount."""

    def stat(self, url: str) -> FileKey:
        """The version that there is now."""
        path = self.path(url)
        try:
            status = path.stat()
        except OSError as error:
            raise _os_error(url, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise StorageError(f"{url} is not a regular file; give the path of a file that all hosts can read")
        return FileKey(str(path), None, status.st_mtime_ns, status.st_size)

    def open(self, key: FileKey, start: int, stop: int) -> ByteStream:
        """A range of a version."""
        try:
            return _LocalRange(key, self.path(key.url), start, stop)
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise _os_error(key.url, error) from error

    def write(self, url: str, path: Path) -> FileKey:
        """Copies beside the destination, then renames."""
        target = self.path(url)
        partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}.partial")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with path.open("rb") as source, partial.open("xb") as copy:
                    shutil.copyfileobj(source, copy, COPY_BYTES)
                    copy.flush()
                    os.fsync(copy.fileno())
                partial.replace(target)
            finally:
                partial.unlink(missing_ok=True)
        except OSError as error:
            raise _os_error(url, error) from error
        return self.stat(url)

    @staticmethod
    def path(url: str) -> Path:
        """The path that a URL means."""
        parts = urlsplit(url)
        if parts.scheme == "file":
            if parts.netloc not in ("", "localhost"):
                raise OptionError(f"{url!r} names the host {parts.netloc!r}; write file:///PATH")
            return Path(unquote(parts.path))
        path = Path(url)
        return path if path.is_absolute() else Path.cwd() / path


class _LocalRange:
    """A range of a file, which stays the version that it is."""

    def __init__(self, key: FileKey, path: Path, start: int, stop: int) -> None:
        self._key = key
        self._left = stop - start
        self._file = path.open("rb", buffering=0)
        try:
            self._check()
            self._file.seek(start)
        except BaseException:
            self._file.close()
            raise

    def readinto(self, buffer: Any, /) -> int:
        """Fills a buffer as far as there is something."""
        try:
            read = self._file.readinto(memoryview(buffer)[: self._left])
            self._check()
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise _os_error(self._key.url, error) from error
        self._left -= read
        return read

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _check(self) -> None:
        status = os.fstat(self._file.fileno())
        if (status.st_mtime_ns, status.st_size) != (self._key.modified_ns, self._key.bytes):
            raise changed(self._key, f"{status.st_size} bytes, modified {status.st_mtime_ns} ns")


def shown(url: str) -> str:
    """A URL as messages have it: without what may be a secret, a query, such as a signature, and names of users."""
    parts = urlsplit(url) if "://" in url else None
    if parts is None or not (parts.query or "@" in parts.netloc):
        return url
    host = parts.netloc.rpartition("@")[2] if parts.scheme in ("http", "https") else parts.netloc
    return f"{parts.scheme}://{host}{parts.path}" + ("?..." if parts.query else "")


def changed(key: FileKey, found: str) -> StorageChangedError:
    """A file is not the version any more that the run began with."""
    was = f"{key.bytes} bytes, modified {key.modified_ns} ns" if key.etag is None else f"ETag {key.etag}"
    return StorageChangedError(
        f"{shown(key.url)} changed while it was read (was: {was}; is: {found}); run again when no program writes to it"
    )


def _os_error(url: str, error: OSError) -> StorageError:
    kind = StorageNotFoundError if isinstance(error, FileNotFoundError) else StorageError
    raised = kind(
        f"{url}: {error.strerror or error}; see that the path exists and may be read or written on every host"
    )
    raised.errno = error.errno
    return raised


def _http() -> Storage:
    from .http_storage import HttpFiles

    return HttpFiles()


def _cloud() -> Storage:
    from .cloud_storage import CloudFiles

    return CloudFiles()


#: What makes the storage of each scheme; "" is a path. Web servers are asked by URLs with queries, too.
SCHEMES: dict[str, Callable[[], Storage]] = {
    **dict.fromkeys(("", "file"), LocalFiles),
    **dict.fromkeys(url_schemes(), _cloud),
    **dict.fromkeys(("http", "https"), _http),
}
_OPENED: dict[str, Storage] = {}


def storage_of(url: str) -> Storage:
    """The storage of a URL.

    Raises:
        OptionError: no storage has its scheme.
    """
    scheme, separator, _ = url.partition("://")
    scheme = scheme.lower() if separator else ""
    opened = _OPENED.get(scheme)
    if opened is None:
        make = SCHEMES.get(scheme)
        if make is None:
            listed = ", ".join(f"{one}://" for one in SCHEMES if one)
            raise OptionError(f"{shown(url)!r}: no storage has the scheme {scheme}://; give a path, or one of {listed}")
        opened = _OPENED.setdefault(scheme, make())
    return opened


def absolute_url(url: str) -> str:
    """A path made absolute, which means the same in each process; other URLs as they are."""
    return url if "://" in url else str(LocalFiles.path(url))


def read_fully(stream: ByteStream, buffer: memoryview) -> int:
    """Fills a buffer, as far as the stream goes; the number of bytes."""
    filled = 0
    while filled < len(buffer):
        read = stream.readinto(buffer[filled:])
        if not read:
            break
        filled += read
    return filled


def copy_to(key: FileKey, path: Path) -> None:
    """Copies a version to a local file, past any cache.

    Raises:
        StorageError: it cannot be read.
    """
    buffer = memoryview(bytearray(min(COPY_BYTES, max(key.bytes, 1))))
    with contextlib.closing(storage_of(key.url).open(key, 0, key.bytes)) as stream, path.open("wb") as copy:
        copied = 0
        while read := read_fully(stream, buffer):
            copy.write(buffer[:read])
            copied += read
    if copied != key.bytes:
        raise StorageError(f"{shown(key.url)} ended after {copied} of {key.bytes} bytes; run again")
