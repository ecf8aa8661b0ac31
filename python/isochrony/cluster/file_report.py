"""What a run over files did."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..output.progress import bytes_text, count_text, duration_text


@dataclass
class HostReport:
    """What one worker did in a run of `map`.

    A file counts once for each task that reads it.

    Attributes:
        tasks: number of tasks that it did, failed ones included.
        local: number of files that its tasks found in the cache of its host.
        peer: number of files that came from another host.
        storage: number of files that came from storage.
        fetched: number of files that the worker read from storage, for its tasks or because a peer asked for them.
        peer_bytes: bytes that came from other hosts.
        storage_bytes: bytes that came from storage.
        seconds: seconds that its tasks took, summed; waiting for their files is included.

    >>> from isochrony.cluster.file_report import HostReport
    >>> host = HostReport(tasks=9, local=6, peer=2, storage=1)
    >>> host.local / (host.local + host.peer + host.storage)
    0.6666666666666666
    """

    tasks: int = 0
    local: int = 0
    peer: int = 0
    storage: int = 0
    fetched: int = 0
    peer_bytes: int = 0
    storage_bytes: int = 0
    seconds: float = 0.0


@dataclass
class MapReport:
    """What a run of `map` has done so far; prints as a line.

    Attributes:
        policy: name of the policy that chose workers for tasks.
        tasks: number of tasks that are done, failed ones included.
        failed: number of tasks that failed: the function raised, a file could not be read or written, or the workers
            that had the task were lost.
        seconds: seconds since the run began; after it, how long it took.
        waiting: number of tasks that wait now.
        running: number of tasks that workers have now.
        hosts: a `HostReport` per worker, by its address; lost workers included.
        notes: remarks on the run as text, such as processors that differ.

    >>> from isochrony.cluster.file_report import HostReport, MapReport
    >>> hosts = {"tcp://10.0.0.5:40331": HostReport(local=6, peer=2, storage=1, fetched=1, storage_bytes=500)}
    >>> print(MapReport("good-cache-compute", tasks=9, seconds=3.0, hosts=hosts))  # doctest: +ELLIPSIS
    9 tasks in 3.0 s (good-cache-compute, 1 worker); files: 6 local, 2 from peers, 1 from storage, 88.9% hits; ...
    """

    policy: str
    tasks: int = 0
    failed: int = 0
    seconds: float = 0.0
    waiting: int = 0
    running: int = 0
    hosts: dict[str, HostReport] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def local(self) -> int:
        """Number of files that tasks found in the cache of their host, over all workers.

        >>> from isochrony.cluster.file_report import HostReport, MapReport
        >>> hosts = {"tcp://10.0.0.5:40331": HostReport(local=6, peer=2, storage=1, fetched=1, storage_bytes=500)}
        >>> MapReport("good-cache-compute", hosts=hosts).local
        6
        """
        return sum(host.local for host in self.hosts.values())

    @property
    def peer(self) -> int:
        """Number of files that came from another host, over all workers.

        >>> from isochrony.cluster.file_report import HostReport, MapReport
        >>> hosts = {"tcp://10.0.0.5:40331": HostReport(local=6, peer=2, storage=1, fetched=1, storage_bytes=500)}
        >>> MapReport("good-cache-compute", hosts=hosts).peer
        2
        """
        return sum(host.peer for host in self.hosts.values())

    @property
    def storage(self) -> int:
        """Number of files that came from storage, over all workers.

        >>> from isochrony.cluster.file_report import HostReport, MapReport
        >>> hosts = {"tcp://10.0.0.5:40331": HostReport(local=6, peer=2, storage=1, fetched=1, storage_bytes=500)}
        >>> MapReport("good-cache-compute", hosts=hosts).storage
        1
        """
        return sum(host.storage for host in self.hosts.values())

    @property
    def peer_bytes(self) -> int:
        """Bytes that came from other hosts, over all workers.

        >>> from isochrony.cluster.file_report import HostReport, MapReport
        >>> hosts = {"tcp://10.0.0.5:40331": HostReport(local=6, peer=2, storage=1, fetched=1, storage_bytes=500)}
        >>> MapReport("good-cache-compute", hosts=hosts).peer_bytes
        0
        """
        return sum(host.peer_bytes for host in self.hosts.values())

    @property
    def storage_bytes(self) -> int:
        """Bytes that came from storage, over all workers.

        >>> from isochrony.cluster.file_report import HostReport, MapReport
        >>> hosts = {"tcp://10.0.0.5:40331": HostReport(local=6, peer=2, storage=1, fetched=1, storage_bytes=500)}
        >>> MapReport("good-cache-compute", hosts=hosts).storage_bytes
        500
        """
        return sum(host.storage_bytes for host in self.hosts.values())

    @property
    def hit_rate(self) -> float:
        """Fraction of files read by tasks for which storage was not read, 0 to 1; 0 if no files were read.

        A file that a peer had to read from storage first is no hit.

        >>> from isochrony.cluster.file_report import HostReport, MapReport
        >>> hosts = {"tcp://10.0.0.5:40331": HostReport(local=6, peer=2, storage=1, fetched=1, storage_bytes=500)}
        >>> round(MapReport("good-cache-compute", hosts=hosts).hit_rate, 3)
        0.889
        """
        files = self.local + self.peer + self.storage
        fetched = sum(host.fetched for host in self.hosts.values())
        return max(1 - fetched / files, 0.0) if files else 0.0

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return (
            f"{self.tasks} tasks{failed} in {duration_text(self.seconds)} ({self.policy}, "
            f"{count_text(len(self.hosts), 'worker')}); "
            f"files: {self.local} local, {self.peer} from peers, {self.storage} from storage, {self.hit_rate:.1%} "
            "hits; "
            f"{bytes_text(self.peer_bytes)} from peers, {bytes_text(self.storage_bytes)} from storage"
        )
