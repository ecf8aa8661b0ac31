"""Grows and shrinks a cluster by what a run has left to do; Dask's `adapt` does not see the calls of actors."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Sequence
from typing import Any

from .connect import workers_of

logger = logging.getLogger(__name__)

#: The cluster is as large as it must be for what is left to take about this many seconds.
TARGET_S = 5.0
#: Looks in a row at which fewer workers must suffice before one is retired.
_SHRINK_LOOKS = 3
#: Seconds for which a worker is asked to retire: another run may have slots there.
_RETIRE_S = 30.0
#: What workers that are to leave are announced by, to all runs.
DRAIN_TOPIC = "isochrony-drain"


class Scaling:
    """How many workers a run asks its cluster for.

    Parameters:
        cluster: that starts and stops workers.
        least, most: workers.
    """

    def __init__(self, cluster: Any, least: int, most: int) -> None:
        self._cluster = cluster
        self.least, self.most = least, most
        #: Asked for; None: the cluster is as it was found.
        self._asked: int | None = None
        self._small_looks = 0
        self._demand: tuple[int, float | None, int | None] = (1, None, None)

    def set_demand(self, tasks: int, slot_seconds: float | None, enough: int | None = None) -> None:
        """What is left: tasks, and seconds that they would take one slot, if that is known.

        `enough`: slots beyond which others are of no use, if tuning found that.
        """
        self._demand = (tasks, slot_seconds, enough)

    def look(self, workers: dict[str, int]) -> list[str]:
        """Grows the cluster if it should be larger; those to retire if it should be smaller.

        Parameters:
            workers: threads of each worker that is not to leave, by address.
        """
        wanted = self._wanted(workers)
        if self._asked is None:
            self._asked = len(workers)
        if wanted > self._asked:
            self._scale(wanted)
        self._small_looks = self._small_looks + 1 if wanted < len(workers) else 0
        if self._small_looks < _SHRINK_LOOKS:
            return []
        self._small_looks = 0
        # The last ones that joined.
        return list(workers)[wanted:]

    def retired(self, name: Any) -> None:
        """A worker has left; its cluster shall not start it again."""
        if self._asked is not None:
            self._asked = max(self._asked - 1, 0)
        if hasattr(self._cluster, "scale_down"):
            self._cluster.sync(self._cluster.scale_down, [name])
        else:
            self._cluster.scale(self._asked or 0)

    def end(self) -> None:
        """The run has ended: the cluster is as small as it may be."""
        if self._asked is not None and self._asked > self.least:
            self._scale(self.least)

    def _scale(self, workers: int) -> None:
        self._asked = workers
        self._cluster.scale(workers)

    def _wanted(self, workers: dict[str, int]) -> int:
        tasks, slot_seconds, enough = self._demand
        slots = sum(workers.values())
        threads = max(slots / len(workers), 1.0) if workers else 1.0
        # Until a task was timed, as many as there are.
        needed = slots if slot_seconds is None else math.ceil(slot_seconds / TARGET_S)
        needed = min(max(needed, 1), tasks)
        if enough is not None:
            needed = min(needed, enough)
        return min(max(math.ceil(needed / threads), self.least), self.most)


def retire(client: Any, worker: str, stopped: threading.Event | None = None) -> bool:
    """Retires a worker whose slots were given back. False: it still holds actors, of somebody else.

    Dask's scheduler learns a moment later that the actors were given back, and refuses until then.
    """
    until = time.monotonic() + _RETIRE_S
    while time.monotonic() < until:
        time.sleep(0.2)
        with contextlib.suppress(OSError):
            if client.retire_workers(workers=[worker]) or worker not in workers_of(client):
                return True
            _forget_released_actors(client, worker)
        if stopped is not None and stopped.is_set():
            break
    return False


def _forget_released_actors(client: Any, worker: str) -> None:
    """Has the scheduler drop actors of a worker that were released before the worker had made them.

    Dask (2026.8) leaves these in the worker's set of actors, and refuses to retire it for ever. A slot is such an actor
    where its run ends before the worker has answered.
    """

    # Within a function it is pickled by value: the scheduler's process need not have Isochrony.
    def forget(dask_scheduler: Any) -> None:
        state = dask_scheduler.workers.get(worker)
        if state is not None:
            state.actors -= {actor for actor in state.actors if actor.state == "forgotten"}

    # A scheduler may refuse functions; then the worker stays.
    with contextlib.suppress(Exception):
        client.run_on_scheduler(forget)


def drain(client: Any, workers: Sequence[str], timeout: float = 600.0) -> None:
    """Retire workers of a Dask cluster without loss: runs of all clients take their results, and send them no more
    tasks.

    Returns when the workers have left the cluster.

    Parameters:
        client: a `distributed.Client` of the cluster.
        workers: addresses of the workers, as ``client.scheduler_info()["workers"]`` lists them.
        timeout: seconds to wait for their results; then retiring takes up to 30 s per worker.

    Raises:
        RunError: runs still use the workers after that time, or the workers hold actors of other programs.

    >>> import isochrony as iso
    >>> iso.cluster.drain(client, ["tcp://10.0.0.7:40331"], timeout=60)  # doctest: +SKIP
    """
    from ..errors.native import RunError
    from .worker import slot_count

    client.log_event(DRAIN_TOPIC, list(workers))
    until = time.monotonic() + timeout
    while True:
        busy = sorted(one for one, slots in client.run(slot_count, workers=list(workers)).items() if slots)
        if not busy:
            break
        if time.monotonic() > until:
            raise RunError(
                f"runs still use {', '.join(busy)} after {timeout:g} s; wait longer by timeout=, or close the workers, "
                "whose tasks others then repeat"
            )
        time.sleep(0.1)
    kept = [worker for worker in workers if not retire(client, worker)]
    if kept:
        raise RunError(
            f"{', '.join(kept)} still hold actors that are not of Isochrony; release these, then retire the "
            "workers with client.retire_workers"
        )
