"""What is done before a run: what it reads is dropped from the page cache, and the system has memory for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from archives_work import files
from peers_flow import Server

if TYPE_CHECKING:
    from archives_turns import Prepare


class Supply(Server):
    """Gives the system memory that was taken beforehand while something runs; see `src/supply.rs`."""

    def __init__(self, rust: Path) -> None:
        super().__init__(rust, "--supply")

    @contextmanager
    def of(self, size: int) -> Iterator[None]:
        self._say(str(size))
        try:
            yield
        finally:
            self._say("")

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        self._line()


def forget(store: Path, supply: Supply, written: int = 0, room_for: int | None = None) -> Prepare:
    """Drops a store from the page cache, which has room for so many bytes of it, or all, and for what a run writes."""

    def prepare() -> AbstractContextManager[None]:
        size = 0
        for path in files(store):
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                size += os.fstat(file.fileno()).st_size
        return supply.of((size if room_for is None else room_for) * 5 // 4 + written)

    return prepare


def ready(size: int, supply: Supply) -> Prepare:
    """The page cache has room for so many bytes."""
    return lambda: supply.of(size)


def nothing() -> AbstractContextManager[None]:
    return nullcontext()
