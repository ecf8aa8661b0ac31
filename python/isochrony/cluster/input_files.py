"""What a task reads, the names that caches have for it, and how hosts cache."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .._native import NativeCache
from .storage import FileKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .peers import Address


@dataclass(frozen=True)
class CacheSettings:
    """How hosts cache, the same on all of them.

    Attributes:
        token: by which peers know each other.
        folder: of the cache; None: beside Dask's own. It may have ``{worker}``.
        quota: bytes.
        evict: which objects leave first.
        piece: bytes of a piece.
        sends, receives: transfers at a time.
        per_source: of those that are received, from one peer.
        storage_reads: reads of storage at a time.
        timeout: seconds without progress after which a transfer is given up.
    """

    token: bytes
    folder: str | None
    quota: int
    evict: str = "lru"
    piece: int = 1 << 20
    sends: int = 8
    receives: int = 8
    per_source: int = 2
    storage_reads: int = 8
    timeout: float = 10.0


@dataclass(frozen=True)
class InputFile:
    """A file that a task reads.

    Attributes:
        key: its version.
        form: name of the form that is cached instead of it, such as one that is decompressed.
        sources: peers that have it.
        fetcher: a peer that is about to fetch it.
    """

    key: FileKey
    form: str | None = None
    sources: tuple[Address, ...] = ()
    fetcher: Address | None = None

    @property
    def cached(self) -> FileKey:
        """Key in the cache; of a form, without its length, which its name does not have."""
        return self.key if self.form is None else form_key(self.key, self.form)

    @cached_property
    def name(self) -> str:
        """Name in indexes."""
        return object_name(self.cached)

    def at(self, sources: tuple[Address, ...], fetcher: Address | None) -> InputFile:
        """The same, with where it is."""
        return InputFile(self.key, self.form, sources, fetcher)

    def request(self) -> dict[str, Any]:
        """What a peer is asked for."""
        return {**self.key._asdict(), "form": self.form}


def form_key(key: FileKey, form: str) -> FileKey:
    """Key of a form of a file. It has a tag, so that it does not depend on the length, which is not known yet."""
    return FileKey(f"{key.url}#{form}", key.etag or f"{key.modified_ns}-{key.bytes}", 0, 0)


def object_name(key: FileKey) -> str:
    """Name of a file in indexes."""
    return NativeCache.file_name(*key)


class LocalFile:
    """A file that a task reads on this host; it stays until it is closed.

    Attributes:
        path: of its bytes.
        origin: "local", "peer" or "storage".
        bytes: its length.
    """

    def __init__(self, path: Path, origin: str, length: int, close: Callable[[], object]) -> None:
        self.path = path
        self.origin = origin
        self.bytes = length
        self.close = close
