"""The client's side of a run: which slots there are, and their calls."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from .. import __version__
from .._native import _instruction_set, _snapshot_path
from ..errors.native import OptionError, PlanError, RunError
from ..extras import require
from .connect import CONNECT_S, result_within, workers_of
from .host import HostActor, HostLink, HostServer
from .scaling import DRAIN_TOPIC, Scaling, retire
from .shards import placement_of
from .slot import Slot, StoppedError, WorkerError, worker_error
from .worker import PLANS, this_process

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from .._native import NativeHostInbox, NativePlan
    from ..running.options import RunOptions

#: Seconds for which a run without any slot waits for a worker.
WORKER_TIMEOUT_S = 60.0
#: Bytes of plans, with their samples in memory and functions, that are sent to each worker.
MAX_PAYLOAD = 256 << 20
#: Seconds between two requests for the list of workers.
_DISCOVERY_INTERVAL_S = 0.5
#: Seconds within which a part of a plan begins on its host, which may import the package first.
_PART_START_S = 60.0
#: Seconds within which a slot that is stopped answers.
_STOP_S = 1.0


class ClusterRun:
    """The slots of one run on a cluster: threads of workers that execute tasks. A context manager: leaving it closes
    the run.

    The scheduler of a plan, `map` and `isochrony.Executor` take slots from it, send them batches of tasks, and give
    them back.

    Parameters:
        client: a `distributed.Client` of the cluster, as `checked_client` gives it.
        payload: pickled plans or functions that each slot prepares, at most 256 MiB; None: the run has no slots.
        options: run options, with `on`, `scale` and `paths`.

    Attributes:
        attachment: name of the caches through which workers read signals; None: they read stores directly.
        placement: for a run that places tasks by data: policy, seconds after which the oldest task goes to any free
            slot, and largest number of copies of a shard; else None.
        retire_order: function that sorts addresses of workers by how long they are to stay, longest first; None: in the
            order in which they joined.

    Raises:
        RunError: the scheduler cannot be reached.
        MissingExtraError: Dask is not installed (extra `cluster`).

    >>> with ClusterRun(client, payload, RunOptions.of(on=client)) as run:  # doctest: +SKIP
    ...     most, present = run.slot_counts()
    ...     slot = run.next_slot(1.0, True)
    ...     slot.send(batch)
    ...     results = slot.receive()
    ...     run.give_back(slot)
    """

    attachment: str | None = None
    placement: tuple[str, float, int] | None = None

    @classmethod
    def of_plans(cls, client: Any, plans: Sequence[NativePlan], collects: bool, options: RunOptions) -> Self:
        """Begin a run of plans.

        Parameters:
            client: a `distributed.Client` of the cluster.
            plans: native plans, as `isochrony.Plan` holds them.
            collects: whether their results are gathered.
            options: run options.

        Returns:
            A `ClusterRun`. It has no slots if a plan has parts on hosts (`Plan.on`) and `options.control` is set, since
            parameters cannot change in other processes.

        Raises:
            OptionError: `scale` for a plan with parts on hosts, or a prefix in `paths` that no store of a plan has.
            PlanError: `control` for a plan without parts on hosts, a plan that reads what is only in this process, a
                function that cannot be pickled, or more than 256 MiB to send to a worker.
            RunError: the scheduler cannot be reached.
            MissingExtraError: Dask is not installed (extra `cluster`).

        >>> ClusterRun.of_plans(client, [plan._native], True, RunOptions.of(on=client))  # doctest: +SKIP
        """
        has_hosts = any(plan.has_hosts() for plan in plans)
        if has_hosts and options.scale is not None:
            raise OptionError(
                "scale= is refused for a plan with on(HOST), since that host could be retired; leave it out, and keep "
                "the cluster as it is"
            )
        # Parameters cannot change in other processes: parts on hosts run there, and the rest in this process.
        has_slots = not (has_hosts and options.control is not None)
        if not has_slots:
            return cls(client, None, options)
        placement = placement_of(client)
        attachment = None if placement is None else placement.attachment
        run = cls(client, _payload(plans, collects, options, attachment), options)
        if placement is not None:
            run.attachment, run.placement = attachment, placement.options
        return run

    def __init__(self, client: Any, payload: bytes | None, options: RunOptions) -> None:
        distributed: Any = require("distributed", "on=")
        self._options = options
        self._hosts: list[HostLink] = []
        # Batches go straight to workers, not by way of Dask's scheduler.
        try:
            self._client: Any = distributed.Client(
                client.scheduler.address,
                security=client.security,
                direct_to_workers=True,
                set_as_default=False,
                name="isochrony",
                timeout=CONNECT_S,
            )
        except (OSError, TimeoutError) as error:
            raise _scheduler_error(client, error) from error
        self._has_slots = payload is not None
        self._payload = payload or b""
        self._key = hashlib.sha256(self._payload).digest()
        self._ready: queue.SimpleQueue[Slot | Exception | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        #: Numbers of the slots of each worker that take part, or are asked to.
        self._asked: dict[str, set[int]] = {}
        #: Those whose slots are being made.
        self._beginning: set[str] = set()
        #: Workers that are to leave; those that are being retired.
        self._draining: set[str] = set()
        self._retiring: dict[str, threading.Thread] = {}
        self._listed: set[str] = set()
        #: Why a worker did not take part, the last time.
        self._last_error = "none has joined"
        #: Those that are not lost.
        self._slots: set[Slot] = set()
        self._instruction_sets: dict[str, str] = {}
        self._alone_since = time.monotonic()
        self._scaling = None if options.scale is None else Scaling(client.cluster, *options.scale)
        #: Workers in the order in which they stay, longest first, where that is not the order in which they joined.
        self.retire_order: Callable[[Sequence[str]], list[str]] | None = None
        self._client.subscribe_topic(DRAIN_TOPIC, self._on_drain_event)
        self._discovery = threading.Thread(target=self._discover_workers, name="isochrony-workers", daemon=True)

    def slot_counts(self) -> tuple[int, int]:
        """Count the slots, and begin to make them on the current workers. Call it once, before `next_slot`.

        Returns:
            Largest number of slots that the run may have, and number of threads of the current workers; (0, 0) for a
            run without slots. The first is larger than the second only if the cluster may grow (`scale`).

        Raises:
            RunError: the scheduler does not answer.

        >>> run.slot_counts()  # doctest: +SKIP
        (8, 8)
        """
        try:
            workers = self._workers()
        except OSError as error:
            raise _scheduler_error(self._client, error) from error
        if not self._has_slots:
            return 0, 0
        self._discovery.start()
        present = sum(workers.values())
        if self._scaling is None:
            return present, present
        return max(present, self._scaling.most * max(workers.values(), default=1)), present

    def joined_count(self) -> int:
        """Count the slots that have joined and are not lost.

        Returns:
            Number of slots.

        >>> run.joined_count()  # doctest: +SKIP
        8
        """
        with self._lock:
            return len(self._slots)

    def worker_count(self) -> int:
        """Count the current workers.

        Returns:
            Number of workers that the scheduler knows.

        Raises:
            RunError: the scheduler does not answer.

        >>> run.worker_count()  # doctest: +SKIP
        2
        """
        try:
            return len(self._workers())
        except OSError as error:
            raise _scheduler_error(self._client, error) from error

    def next_slot(self, wait_s: float, is_needed: bool) -> Slot | None:
        """Wait for a slot that is ready. A slot of a worker that is to leave is given back to the worker instead.

        Parameters:
            wait_s: longest time to wait, in seconds.
            is_needed: whether the run cannot continue without a slot.

        Returns:
            A `Slot`; None if there is none in time, or the run was stopped.

        Raises:
            RunError: a worker cannot take part, the scheduler cannot be reached, or a slot is needed and no worker has
                taken part for 60 s.

        >>> run.next_slot(1.0, True).name  # doctest: +SKIP
        'tcp://10.0.0.7:40331'
        """
        try:
            slot = self._ready.get(timeout=wait_s)
        except queue.Empty:
            if is_needed:
                self._check_workers()
            return None
        if isinstance(slot, Exception):
            raise slot
        if slot is not None and slot.is_draining():
            slot.leave()
            return None
        return slot

    def free_slots(self) -> list[Slot]:
        """Take all slots that are ready now, without those of workers that are to leave.

        Returns:
            A list of `Slot`; each is to be used or given back.

        Raises:
            RunError: a worker cannot take part. The slots taken so far are given back.

        >>> run.free_slots()  # doctest: +SKIP
        []
        """
        free = []
        try:
            # One that leaves is None, too.
            while not self._ready.empty():
                slot = self.next_slot(0.0, False)
                if slot is not None:
                    free.append(slot)
                elif self.is_stopped():
                    break
        except BaseException:
            for slot in free:
                self.give_back(slot)
            raise
        return free

    def give_back(self, slot: Slot) -> None:
        """Make a slot that `next_slot` returned available again.

        Parameters:
            slot: the slot; all its results were received.

        >>> run.give_back(slot)  # doctest: +SKIP
        """
        self._ready.put(slot)

    def is_stopped(self) -> bool:
        """Check whether the run was stopped.

        Returns:
            True after `stop` or `close`.

        >>> run.is_stopped()  # doctest: +SKIP
        False
        """
        return self._stopped.is_set()

    def open_host(self, host: str, form: str, objects: list[tuple[str, Any]], inbox: NativeHostInbox) -> None:
        """Start a part of a plan on a host, and receive its results until the run ends.

        Parameters:
            host: name or address of a worker.
            form: the part, as JSON text.
            objects: kind and value of what the part refers to: signals, samples in memory, functions.
            inbox: receives the results.

        Raises:
            RunError: the cluster has no such worker, the worker cannot start the part, or the scheduler cannot be
                reached.
            PlanError: a function cannot be pickled, or the part is larger than 256 MiB.

        >>> run.open_host("station-7", form, objects, inbox)  # doctest: +SKIP
        """

        def start(form: str, first: int, token: bytes) -> HostServer:
            return self._start_part(host, _part_payload(form, objects, self._options), first, token)

        try:
            self._hosts.append(HostLink(host, form, start, inbox))
        except OSError as error:
            raise RunError(
                f"on({host!r}): its worker did not begin ({error}); look at its log, and run the plan again"
            ) from error

    def _start_part(self, host: str, payload: bytes, first: int, token: bytes) -> HostServer:
        try:
            worker, names = self._find_worker(host)
        except OSError as error:
            raise _scheduler_error(self._client, error) from error
        if worker is None:
            raise RunError(
                f"on({host!r}): the cluster {self._client.scheduler.address} has no worker of this name, but "
                f"{', '.join(sorted(names)) or 'none at all'}; start it with: dask worker --name {host}"
            )
        future = self._client.submit(HostActor, __version__, workers=[worker], actor=True, pure=False)

        def check() -> None:
            if self._stopped.is_set():
                raise StoppedError
            if future.status not in ("finished", "pending"):
                raise OSError(f"the worker {worker} is gone")

        with self._client.as_current():
            actor = result_within(future, _PART_START_S, check)
        try:
            begun = actor.begin(payload, first, token)
        except RuntimeError as error:
            # Dask knows already that the worker is gone.
            raise OSError(str(error)) from None
        started = result_within(begun, _PART_START_S, check)
        if isinstance(started, Exception):
            future.release()
            raise worker_error(worker, started)

        def release() -> None:
            with contextlib.suppress(Exception):
                actor.stop().result(timeout=_STOP_S)
            future.release()

        def is_alive() -> bool:
            if future.status not in ("finished", "pending"):
                return False
            try:
                return self._find_worker(host)[0] == worker
            except OSError:
                # A scheduler that does not answer says nothing about its workers.
                return True

        tls = self._client.security.get_connection_args("client").get("ssl_context")
        return HostServer(started, tls, is_alive, release)

    def _find_worker(self, host: str) -> tuple[str | None, list[str]]:
        """Address of a worker by its name or address, and the names of all."""
        workers = workers_of(self._client)
        names = {str(worker["name"]): address for address, worker in workers.items()}
        return names.get(host, host if host in workers else None), list(names)

    def set_demand(self, tasks: int, slot_seconds: float | None, enough: int | None = None) -> None:
        """State what is left to do, by which the cluster is scaled. No effect without `scale`.

        Parameters:
            tasks: number of tasks left.
            slot_seconds: seconds that they would take one slot; None: not known yet.
            enough: number of slots beyond which others were found to be of no use; None: not known.

        >>> run.set_demand(1200, 96.0)  # doctest: +SKIP
        """
        if self._scaling is not None:
            self._scaling.set_demand(tasks, slot_seconds, enough)

    def drain(self, worker: str) -> None:
        """Send a worker no more tasks. Its slots finish the tasks that they have, and are then given back to it.

        Parameters:
            worker: address of the worker; an unknown one has no effect.

        >>> run.drain("tcp://10.0.0.7:40331")  # doctest: +SKIP
        """
        with self._lock:
            self._draining.add(worker)
            slots = [slot for slot in self._slots if slot.name == worker]
        for slot in slots:
            slot.drain()

    def notes(self) -> list[str]:
        """Describe the connections to hosts for the report.

        Returns:
            Lines of text: bytes received from each host with a part of the plan, losses, and processors of workers that
            differ from this one.

        >>> run.notes()  # doctest: +SKIP
        ["on('station-7'): 1048576 bytes came over 1 connection(s)"]
        """
        links = [
            f"on({link.host!r}): {link.received_bytes} bytes came over {link.connections} connection(s)"
            for link in self._hosts
        ]
        return links + [loss for link in self._hosts for loss in link.losses] + self._processor_notes()

    def _processor_notes(self) -> list[str]:
        here, roundings = _instruction_set()
        with self._lock:
            others = {worker: one for worker, one in self._instruction_sets.items() if one != here}
        if not others:
            return []
        listed = ", ".join(f"{worker} {one}" for worker, one in sorted(others.items()))
        return [
            f"processors differ (here {here}; {listed}): Fourier transforms of n values agree within {roundings:g} * "
            "log2(n) roundings of the largest, all else to the last bit"
        ]

    def stop(self) -> None:
        """Stop the run: waiting calls of `next_slot` and `Slot.receive` return. `close` releases the slots.

        >>> run.stop()  # doctest: +SKIP
        """
        self._stopped.set()
        self._ready.put(None)
        for link in self._hosts:
            link.stop()

    def close(self) -> None:
        """Stop the run, end the tasks of its slots, and release them. With `scale` the cluster shrinks to its minimum.

        >>> run.close()  # doctest: +SKIP
        """
        self.stop()
        if self._discovery.ident is not None:
            self._discovery.join()
        with self._lock:
            slots = list(self._slots)
            self._slots.clear()
        # All are asked before any is waited for: a worker may hang.
        stops = [slot.stop() for slot in slots]
        until = time.monotonic() + _STOP_S
        for stop in stops:
            with contextlib.suppress(Exception):
                if stop is not None:
                    stop.result(timeout=max(until - time.monotonic(), 0.01))
        for slot in slots:
            slot.release()
        for link in self._hosts:
            link.close()
        for retiring in list(self._retiring.values()):
            retiring.join()
        if self._scaling is not None:
            self._scaling.end()
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _workers(self) -> dict[str, int]:
        """Threads of each worker, by its address."""
        return {address: int(worker["nthreads"]) for address, worker in workers_of(self._client).items()}

    def _discover_workers(self) -> None:
        """Makes slots on workers that joined, until the run ends."""
        try:
            while not self._stopped.is_set():
                workers = self._workers()
                for worker, numbers in self._missing_slots(workers).items():
                    arguments = (worker, sorted(numbers))
                    threading.Thread(target=self._begin, args=arguments, name="isochrony-worker", daemon=True).start()
                if self._scaling is not None:
                    staying = {worker: threads for worker, threads in workers.items() if worker not in self._draining}
                    if self.retire_order is not None:
                        staying = {worker: staying[worker] for worker in self.retire_order(list(staying))}
                    for worker in self._scaling.look(staying):
                        self.drain(worker)
                self._retire_drained(workers)
                self._stopped.wait(_DISCOVERY_INTERVAL_S)
        except Exception as error:
            if not self._stopped.is_set():
                self._ready.put(_scheduler_error(self._client, error))

    def _missing_slots(self, workers: dict[str, int]) -> dict[str, set[int]]:
        """Numbers of slots to ask workers for, which count as asked from now on."""
        with self._lock:
            self._listed = set(workers)
            # One that left may come back, at the same address, too.
            self._asked = {worker: asked for worker, asked in self._asked.items() if worker in workers}
            self._draining &= workers.keys()
            self._retiring = {worker: thread for worker, thread in self._retiring.items() if thread.is_alive()}
            new = {}
            for worker, threads in workers.items():
                asked = self._asked.setdefault(worker, set())
                missing = set(range(threads)) - asked
                if missing and worker not in self._draining and worker not in self._beginning:
                    new[worker] = missing
                    asked |= missing
            self._beginning |= new.keys()
        return new

    def _retire_drained(self, workers: dict[str, int]) -> None:
        """Retires workers of which all slots were given back, if this run decided that they leave."""
        if self._scaling is None:
            return
        with self._lock:
            busy = {slot.name for slot in self._slots} | self._beginning
            idle = [worker for worker in self._draining - busy - self._retiring.keys() if worker in workers]
            for worker in idle:
                self._retiring[worker] = threading.Thread(target=self._retire, args=(worker,), name="isochrony-retire")
        for worker in idle:
            self._retiring[worker].start()

    def _retire(self, worker: str) -> None:
        assert self._scaling is not None
        try:
            name = workers_of(self._client).get(worker, {}).get("name")
        except OSError:
            # The run, which asks as well, tells that the scheduler does not answer.
            return
        if retire(self._client, worker, self._stopped):
            self._scaling.retired(name)

    def _on_drain_event(self, event: tuple[float, list[str]]) -> None:
        for worker in event[1]:
            self.drain(worker)

    def _is_listed(self, worker: str) -> bool:
        return worker in self._listed

    def _begin(self, worker: str, numbers: list[int]) -> None:
        """Makes slots of a worker, one after the other: the first one prepares the plans."""
        try:
            while numbers and worker not in self._draining:
                slot = Slot(worker, self._client, numbers[0], self)
                slot.prepare(self._key, self._payload)
                numbers.pop(0)
                with self._lock:
                    self._slots.add(slot)
                    self._instruction_sets[worker] = slot.instruction_set
                    if worker in self._draining:
                        slot.drain()
                self._ready.put(slot)
        except StoppedError:
            return
        except WorkerError as failed:
            self._ready.put(worker_error(worker, failed.error))
        except (OSError, TimeoutError, asyncio.CancelledError) as error:
            self._forget(worker, numbers, f"{worker} was lost ({type(error).__name__}: {error})")
        except Exception as error:
            if not self._stopped.is_set():
                self._ready.put(worker_error(worker, error))
        finally:
            with self._lock:
                self._beginning.discard(worker)

    def _forget(self, worker: str, numbers: list[int], why: str) -> None:
        """Slots that a worker does not have: it is asked again if it is still there at the next look."""
        with self._lock:
            self._asked.get(worker, set()).difference_update(numbers)
            self._last_error = why

    def _lost(self, slot: Slot) -> None:
        self._forget(slot.name, [slot.number], f"{slot.name} was lost")
        self._left(slot)

    def _left(self, slot: Slot) -> None:
        with self._lock:
            self._slots.discard(slot)
            if not self._slots:
                self._alone_since = time.monotonic()

    def _check_workers(self) -> None:
        with self._lock:
            waited = time.monotonic() - self._alone_since
            if self._slots or waited < WORKER_TIMEOUT_S:
                return
            why = self._last_error
        raise RunError(
            f"no worker of the cluster {self._client.scheduler.address} took part for {waited:.0f} s (the last one: "
            f"{why}); start workers, and look at their logs"
        )


def _part_payload(form: str, objects: list[tuple[str, Any]], options: RunOptions) -> bytes:
    """A part of a plan for its host.

    Raises:
        PlanError: a function cannot be pickled, or it is too large.
    """
    return pickled((form, objects, options.settings, list(options.paths.items()), this_process()))


def _payload(plans: Sequence[NativePlan], collects: bool, options: RunOptions, attachment: str | None = None) -> bytes:
    """Plans and options for workers; `attachment`: name of the caches through which they read signals.

    Raises:
        PlanError: a plan reads what is in this process only, or a function cannot be pickled.
    """
    from .._native import NativePlan

    if options.control is not None:
        raise PlanError(
            "control= is refused with on=, since parameters cannot change on other hosts during a run; leave out one "
            "of them"
        )
    sent = NativePlan.sent_for_tasks(list(plans))
    sent_paths = (_snapshot_path(one[0]) for kind, one in sent[1] if kind == "signal")
    # Also those that only hosts read.
    _check_paths(options.paths, {*sent_paths, *(path for plan in plans for path in plan.store_paths())})
    paths = list(options.paths.items())
    return pickled((PLANS, sent, collects, options.settings, paths, this_process(), attachment))


def pickled(content: Any) -> bytes:
    """What travels to workers, with its functions.

    Raises:
        PlanError: a function cannot be pickled, or it is too large.
    """
    import cloudpickle

    try:
        payload = bytes(cloudpickle.dumps(content))
    except Exception as error:
        first = next(iter(str(error).splitlines()), "")
        raise PlanError(
            f"a function that cannot be pickled cannot run on a cluster ({type(error).__name__}: {first}); "
            "take out of the function what belongs to this process, such as locks, files and connections"
        ) from error
    if len(payload) > MAX_PAYLOAD:
        raise PlanError(
            f"samples in memory and functions of the plan are {len(payload)} bytes, but at most {MAX_PAYLOAD} are sent "
            "to a worker; store the samples as a signal, which workers open by themselves"
        )
    return payload


def _check_paths(paths: dict[str, str], stores: set[Path]) -> None:
    """Each path prefix must be that of a store of the plan.

    Raises:
        OptionError: one is not.
    """
    for prefix in paths:
        if not any(store.is_relative_to(prefix) for store in stores):
            listed = ", ".join(repr(str(store)) for store in sorted(stores)[:5]) or "none"
            raise OptionError(
                f"paths= {prefix!r} is the beginning of no store of the plan (it has {listed}); give the beginning of "
                "one of these, or leave it out"
            )


def _scheduler_error(client: Any, error: Exception) -> Exception:
    return RunError(
        f"the Dask scheduler {client.scheduler.address} cannot be reached ({type(error).__name__}: {error}); see "
        "whether it runs, and connect a new client"
    )
