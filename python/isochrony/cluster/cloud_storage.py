"""Files in object storage: with the client that stores there are read with, and this host's own credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._native import NativeCloudReader, put_cloud_file, stat_cloud_file
from .storage import FileKey

if TYPE_CHECKING:
    from pathlib import Path

    from .storage import ByteStream


class CloudFiles:
    """Objects of ``s3://``, ``gs://`` and ``az://``."""

    def stat(self, url: str) -> FileKey:
        """The version that there is now."""
        return _key(url, *stat_cloud_file(url))

    def open(self, key: FileKey, start: int, stop: int) -> ByteStream:
        """A range of a version."""
        version = (key.etag, key.modified_ns // 10**9, key.bytes)
        return _CloudRange(NativeCloudReader(key.url, version, start, stop))

    def write(self, url: str, path: Path) -> FileKey:
        """Puts a file once, as a whole; the version is what the service answers."""
        return _key(url, *put_cloud_file(url, path))


class _CloudRange:
    """A range of an object."""

    def __init__(self, reader: NativeCloudReader) -> None:
        self._reader = reader

    def readinto(self, buffer: Any, /) -> int:
        """Fills a buffer as far as there is something."""
        return self._reader.readinto(np.frombuffer(buffer, "u1"))

    def close(self) -> None:
        """Ends reading."""
        self._reader.close()


def _key(url: str, etag: str | None, modified: int, length: int) -> FileKey:
    return FileKey(url, etag, 0 if etag else modified * 10**9, length)
