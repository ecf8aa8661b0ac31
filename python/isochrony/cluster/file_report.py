"""What a run over files did."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..output.progress import bytes_text, duration_text


@dataclass
class HostReport:
    """What one worker did.

    Attributes:
        tasks: done, and failed ones.
        local, peer, storage: files that tasks found in the cache, got from another host, or from storage.
        fetched: files that it read from storage, for its tasks or because a peer asked for them.
        peer_bytes, storage_bytes: that came to this worker.
        seconds: of its tasks, together.
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
    """What a run over files did, so far.

    Attributes:
        policy: that placed the tasks.
        tasks: done.
        failed: of these, ones whose function raised.
        seconds: since the run began.
        waiting, running: tasks now.
        hosts: what each worker did, by its address.
        notes: what else is worth knowing.
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
        """Files that tasks found in the cache of their host."""
        return sum(host.local for host in self.hosts.values())

    @property
    def peer(self) -> int:
        """Files that came from another host."""
        return sum(host.peer for host in self.hosts.values())

    @property
    def storage(self) -> int:
        """Files that came from storage."""
        return sum(host.storage for host in self.hosts.values())

    @property
    def peer_bytes(self) -> int:
        """Bytes that came from other hosts."""
        return sum(host.peer_bytes for host in self.hosts.values())

    @property
    def storage_bytes(self) -> int:
        """Bytes that came from storage."""
        return sum(host.storage_bytes for host in self.hosts.values())

    @property
    def hit_rate(self) -> float:
        """Part of the files that tasks read for which storage was not read.

        A file that a peer fetched from there because it was asked to is no hit.
        """
        files = self.local + self.peer + self.storage
        fetched = sum(host.fetched for host in self.hosts.values())
        return max(1 - fetched / files, 0.0) if files else 0.0

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return (
            f"{self.tasks} tasks{failed} in {duration_text(self.seconds)} ({self.policy}, {len(self.hosts)} workers); "
            f"files: {self.local} local, {self.peer} from peers, {self.storage} from storage, {self.hit_rate:.1%} "
            "hits; "
            f"{bytes_text(self.peer_bytes)} from peers, {bytes_text(self.storage_bytes)} from storage"
        )
