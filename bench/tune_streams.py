"""Byte streams whose tuning `tune.py` measures, with a grid of workers and sizes of buffers.

Text search by three algorithms: an automaton of several words (A. Aho and M. Corasick, Comm. ACM 18, 1975) and one word
by the two-way algorithm with a vectorised search for rare bytes (`memchr::memmem`; M. Crochemore and D. Perrin, J. ACM
38, 1991), which run without the interpreter; and Boyer-Moore with Horspool's simplification (R. Horspool, Softw. Pract.
Exp. 10, 1980) as `bytes.find` has it, which holds the interpreter's lock. Rabin-Karp as a user would write it in NumPy:
hashes of all windows of a block, then a comparison where a hash agrees (R. Karp and M. Rabin, IBM J. Res. Dev. 31,
1987).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np

import isochrony as iso
from isochrony.tuning.pools import PoolTuningRequest

__all__ = ["Stream", "streams"]

#: From the smallest that a tuned stream may have.
BUFFERS = (1 << 16, 1 << 18, 1 << 20, 1 << 22)
#: Of the text that is given again and again.
BLOCK = 8 << 20
WORDS = (
    "correlation",
    "seismograph",
    "isochronous",
    "threshold",
    "aftershock",
    "spectrogram",
    "hydrophone",
    "teleseism",
)
NEEDLE = b"seismograph"
#: A record of the stream, which Rabin-Karp is given by itself.
RECORD = 1 << 15


def text(seed: int = 1) -> bytes:
    """Words of random letters, and some of those that are searched for."""
    rng = np.random.default_rng(seed)
    letters = rng.integers(ord("a"), ord("z") + 1, BLOCK, dtype="u1")
    letters[rng.random(BLOCK) < 0.15] = ord(" ")
    for word in WORDS:
        for at in rng.integers(0, BLOCK - 64, 200):
            letters[at : at + len(word)] = np.frombuffer(word.encode(), "u1")
    return letters.tobytes()


def rabin_karp(record: memoryview) -> bytes | None:
    """The positions of the needle in a record, as text; None without any."""
    letters, size = np.frombuffer(record, "u1"), len(NEEDLE)
    # Modulo 2^64: differences of prefix sums that are weighted with the powers of an odd base.
    base = np.uint64(1_099_511_628_211)
    powers = np.cumprod(np.full(len(letters), base, "u8"))
    sums = np.concatenate([np.zeros(1, "u8"), np.cumsum(letters * powers)])
    wanted = np.sum(np.frombuffer(NEEDLE, "u1") * powers[:size])
    hashes = sums[size:] - sums[:-size]
    shifts = np.concatenate([np.ones(1, "u8"), powers[: len(hashes) - 1]])
    found = [int(at) for at in np.flatnonzero(hashes == wanted * shifts) if bytes(record[at : at + size]) == NEEDLE]
    return f"{found}\n".encode() if found else None


def horspool(record: memoryview) -> bytes | None:
    """The positions of the needle in a record, as text; None without any."""
    letters, found, at = bytes(record), [], -1
    while (at := letters.find(NEEDLE, at + 1)) >= 0:
        found.append(at)
    return f"{found}\n".encode() if found else None


@dataclass
class Stream:
    """A byte stream of any length: the same block again and again, which takes no memory."""

    name: str
    #: What it is given to, and the options that go with it.
    process: str | Callable[[memoryview], bytes | None]
    options: dict[str, Any]
    block: bytes = field(repr=False)
    #: Of one block with one worker.
    block_s: float = 0.0

    def run(self, blocks: int, tune: bool = False, request: PoolTuningRequest | None = None) -> iso.NBufferReport:
        """A run of so many blocks."""
        sources: list[Any] = [self.block] * blocks
        if request is None:
            return iso.nbuffer(sources, self.process, tune=tune, **self.options)
        # A start that is changed is for measurements only: users have none to give.
        with patch.object(PoolTuningRequest, "of", lambda *_, **__: request):
            return iso.nbuffer(sources, self.process, tune=True, **self.options)

    def blocks(self, seconds: float) -> int:
        """How many take about so long with one worker."""
        if not self.block_s:
            one = iso.Configuration(workers=1, buffer_bytes=BUFFERS[-1])
            self.run(1, request=_request("apply", one))
            start = time.perf_counter()
            self.run(4, request=_request("apply", one))
            self.block_s = (time.perf_counter() - start) / 4
        return max(round(seconds / self.block_s), 2)

    def grid(self, cores: int) -> list[iso.Configuration]:
        """All configurations; a stream may have more workers than cores, since some read while others compute."""
        return [iso.Configuration(workers=w, buffer_bytes=b) for w, b in product(range(1, 2 * cores + 1), self.buffers)]

    @property
    def buffers(self) -> tuple[int, ...]:
        """Sizes that hold a record."""
        return tuple(size for size in BUFFERS if size >= self.options.get("stride", 1))

    def default_bytes(self, cores: int) -> int:  # noqa: ARG002 - of any number of cores
        """Size of buffers in a run that is not tuned."""
        return self.run(2).buffer_bytes

    def seconds(self, configuration: iso.Configuration, seconds: float) -> float:
        """Time of a run that takes about so long with one worker."""
        start = time.perf_counter()
        self.run(self.blocks(seconds), request=_request("apply", configuration))
        return time.perf_counter() - start

    def tuned(self, start: iso.Configuration, seconds: float) -> iso.TuningReport:
        """A run that begins with a configuration and is tuned."""
        tuning = self.run(self.blocks(seconds), request=_request("change", start)).tuning
        assert tuning is not None
        return tuning

    def check(self) -> None:
        """Any configuration gives the same."""
        small = iso.Configuration(workers=2, buffer_bytes=self.buffers[0])
        large = iso.Configuration(workers=1, buffer_bytes=BUFFERS[-1])
        several = [self.run(2, request=_request("apply", one)) for one in (small, large)]
        assert several[0].results == several[1].results, self.name
        assert several[0].records == several[1].records, self.name

    def plain_run(self, seconds: float, *, tune: bool) -> None:
        """A run without a configuration, with one worker per core or more."""
        self.run(self.blocks(seconds), tune=tune)


def _request(mode: str, configuration: iso.Configuration) -> PoolTuningRequest:
    states = ("reading", "executing", "writing")
    return PoolTuningRequest(mode, configuration=configuration, has_buffers=True, states=states)


def streams() -> list[Stream]:
    """All, over the same text."""
    block = text()
    for search in (rabin_karp, horspool):
        assert search(memoryview(b"a seismograph, two seismographs" + b" " * 50)) == b"[2, 19]\n"
    assert rabin_karp(memoryview(block)) == horspool(memoryview(block))
    return [
        Stream("text search, eight words (Aho-Corasick)", f"count:{'|'.join(WORDS)}", {}, block),
        Stream("text search, one word (memmem)", f"count:{NEEDLE.decode()}", {}, block),
        Stream("text search, one word (Boyer-Moore-Horspool)", horspool, {"stride": 1 << 18, "order": "none"}, block),
        Stream("Rabin-Karp with verification", rabin_karp, {"stride": RECORD, "order": "none"}, block),
    ]
