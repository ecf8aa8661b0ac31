"""Runs by turns, each asserted to find the same, and what is said of their times."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from peers_flow import Server

# Behind it: it sets the number of threads before NumPy is loaded.
from peers import quartiles  # isort: skip

import isochrony as iso

RESULTS: list[dict[str, Any]] = []

#: Prepares a run, which is done within.
Prepare = Callable[[], AbstractContextManager[None]]

#: Runs once; gives seconds and a number that the result determines.
Run = Callable[[], tuple[float, int]]


def compare(
    name: str,
    runs: dict[str, Run],
    goals: dict[tuple[str, str], float],
    size: int,
    rounds: int,
    prepare: Prepare,
) -> dict[str, list[float]]:
    """Times all by turns after a round that does not count; over the rounds each follows each other as often."""
    names = list(runs)
    times: dict[str, list[float]] = {which: [] for which in names}
    expected = None
    for turn in range(rounds + 1):
        for which in (names[k] for k in order(len(names), turn)):
            with prepare():
                spent, found = runs[which]()
            expected = found if expected is None else expected
            assert found == expected, f"{name}: {which} gives {found} instead of {expected}"
            if turn:
                times[which].append(spent)
    pairs = [(ours, names[0]) for ours in names[1:]] + [pair for pair in goals if pair[1] != names[0]]
    for ours, other in pairs:
        tell(f"archives/{name}/{ours}", times[ours], other, times[other], goals.get((ours, other)), size)
    return times


def order(count: int, turn: int) -> list[int]:
    """A round in which each of so many follows another than in the rounds before (Williams 1949)."""
    steps = [(k + 1) // 2 if k % 2 else count - k // 2 for k in range(count)]
    if count % 2 and turn // count % 2:
        steps.reverse()
    return [(step + turn) % count for step in steps]


def tell(name: str, ours: list[float], other: str, others: list[float], goal: float | None, size: int) -> None:
    """One line of the report."""
    ratio = quartiles([b / a for a, b in zip(ours, others, strict=True)])
    met = None if goal is None else ratio[0] >= goal
    RESULTS.append(
        {
            "name": name,
            "other": other,
            "bytes": size,
            "seconds": quartiles(ours),
            "other_seconds": quartiles(others),
            "ratio": ratio,
            "goal": None if goal is None else f">= {goal}",
            "met": met,
        }
    )
    print(
        f"{name}: {quartiles(ours)[0]:.3f} s, {other} {quartiles(others)[0]:.3f} s, "
        f"ratio {ratio[0]:.3f} ({ratio[1]:.3f} to {ratio[2]:.3f})"
        + ("" if met is None else f"; goal >= {goal}: {met}"),
        flush=True,
    )


def timed(run: Callable[[], int]) -> Run:
    def turn() -> tuple[float, int]:
        start = time.perf_counter()
        found = run()
        return time.perf_counter() - start, int(found)

    return turn


def ask(server: Server, request: str) -> None:
    assert server.process.stdin is not None
    server.process.stdin.write(f"bare {request}\n")
    server.process.stdin.flush()


def answer(server: Server) -> tuple[float, int]:
    seconds, found = server._line().split()
    return float(seconds), int(found)


def opened(path: Path, make: Callable[[iso.Store], Callable[[], int]]) -> Run:
    """Over a store of its own: pages that are mapped stay in the page cache, whoever drops them."""

    def turn() -> tuple[float, int]:
        with iso.open(path) as store:
            return timed(make(store))()

    return turn


def bare(server: Server, request: str) -> Run:
    def turn() -> tuple[float, int]:
        ask(server, request)
        return answer(server)

    return turn


def side_by_side(servers: list[Server], request: str, whole: int) -> Run:
    """Independent processes, which share nothing but the machine, each with its part of the work."""

    def turn() -> tuple[float, int]:
        for server in servers:
            ask(server, request)
        told = [answer(server) for server in servers]
        # All read the same part.
        assert len({found for _, found in told}) == 1, told
        return max(seconds for seconds, _ in told), whole

    return turn
