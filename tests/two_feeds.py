"""Two listeners in one plan, and their senders, which may fall silent, for tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import isochrony as iso

__all__ = ["LATENESS", "SLACK", "START", "Feeds", "delays", "made", "rows"]

START = "2026-01-01"
# Samples are sent in parts of a twentieth of a second.
PARTS_PER_SECOND = 20
LATENESS = 0.3
# A loaded machine may hold a thread up for so long.
SLACK = 1.0


def made(rate: int, seconds: float, silent: tuple[float, float] = (0, 0), began: float | None = None) -> iso.Plan:
    """Samples that count from 0, of a clock that goes on in the silence; from `began` on as they are taken."""
    each = rate // PARTS_PER_SECOND

    def parts() -> Iterator[tuple[int, np.ndarray]]:
        for part in range(int(seconds * PARTS_PER_SECOND)):
            at = part / PARTS_PER_SECOND
            if began is not None:
                time.sleep(max(0.0, began + at + 1 / PARTS_PER_SECOND - time.monotonic()))
            if silent[0] <= at < silent[1]:
                continue
            yield part * each, np.arange(part * each, (part + 1) * each, dtype="i4")

    return iso.generate(parts, dtype="i4", rate=rate, start=START)


class Feeds:
    """Two feeds and their senders, at their pace."""

    def __init__(self, rates: tuple[int, int], one_clock: bool = False, **options: Any) -> None:
        options = {"dtype": "i4", "silence": 10, "lateness": LATENESS} | options
        # Rows of feeds that share a clock can be merged if they also have one name.
        names = ("feed", "feed") if one_clock else ("first", "second")
        first = iso.listen("udp://127.0.0.1:0", rate=rates[0], name=names[0], **options)
        clock = {"clock": first} if one_clock else {}
        second = iso.listen("udp://127.0.0.1:0", rate=rates[1], name=names[1], **options, **clock)
        self.rates, self.listeners = rates, (first, second)
        self.threads: list[threading.Thread] = []
        self.began = time.monotonic() + 0.3

    def send(self, nth: int, seconds: float, silent: tuple[float, float] = (0, 0)) -> None:
        plan = made(self.rates[nth], seconds, silent, self.began).send(self.listeners[nth].address)
        self.threads.append(threading.Thread(target=plan.run))
        self.threads[-1].start()

    def join(self) -> None:
        for thread in self.threads:
            thread.join(30)

    def counts(self, name: str) -> tuple[int, int]:
        return (self.listeners[0].counts[name], self.listeners[1].counts[name])


def rows(plan: iso.Plan) -> iso.Plan:
    """Windows of a tenth of a second."""
    return plan.rewindow("100ms").stats("min", "max")


def delays(feeds: Feeds, plan: iso.Plan, end: Callable[[dict[str, Any]], float]) -> dict[float, float]:
    """When each row came out, in seconds after its window had been sent; by the end of the window, in seconds."""
    came: dict[float, float] = {}

    def take(table: Any, start: int) -> None:
        now = time.monotonic() - feeds.began
        for row in range(len(next(iter(table.values())))):
            at = end({name: column[row] for name, column in table.items()})
            came.setdefault(at, now - at)

    plan.each(take).run()
    feeds.join()
    return came
