"""Attaches caches to the workers of a cluster: ``iso.cluster.attach(client)``."""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING, Any, Self

from .. import __version__
from ..errors.native import OptionError, RunError
from ..extras import require
from ..options import byte_count, choice, number
from .connect import checked_client
from .input_files import CacheSettings
from .peers import TOKEN_BYTES
from .shards import ShardPlacement, place_shards

if TYPE_CHECKING:
    from .file_report import MapReport

#: What `policy` may be.
POLICIES = ("good-cache-compute", "max-compute-util", "max-cache-hit", "first-cache-available", "first-available")
#: What `evict` may be.
EVICTIONS = ("lru", "lfu", "fifo", "random")
#: Smallest cache: a few pieces.
_LEAST_CACHE = 16 << 20
_LONGEST_TIMEOUT_S = 3600.0

#: The attachments of this process that were not closed, by the scheduler's address.
_ATTACHED: dict[str, Attachment] = {}
_ATTACHING = threading.Lock()


class Attachment:
    """Caches on the workers of a cluster; made by `attach`. A context manager: leaving it closes the caches.

    A closed cache stays on disk; the next attachment with the same folder finds its files.

    Attributes:
        client: the `distributed.Client` of the cluster.
        policy: name of the policy that chooses workers for tasks.
        max_replicas: number of copies of a file above which ``good-cache-compute`` gives items of it only to workers
            that have some of its bytes, unless they have waited long.

    >>> import isochrony as iso
    >>> from dask.distributed import Client  # doctest: +SKIP
    >>> client = Client("tcp://10.0.0.5:8786")  # doctest: +SKIP
    >>> with iso.cluster.attach(client, cache="20GB") as attachment:  # doctest: +SKIP
    ...     attachment.policy, attachment.is_closed
    ('good-cache-compute', False)
    """

    def __init__(self, client: Any, name: str, policy: str, settings: CacheSettings, max_replicas: int) -> None:
        self.client = client
        # A client that was closed has none any more.
        self._scheduler = _identity(client)
        self.policy = policy
        self.max_replicas = max_replicas
        self._name = name
        self._settings = settings
        self._latest: Any = None
        self._is_closed = False

    @property
    def report(self) -> MapReport | None:
        """What the latest run of `map` has done so far: a new `MapReport` at each access; None before the first run.

        >>> list(iso.cluster.map(lambda url, path: path.stat().st_size, urls, client=attachment))  # doctest: +SKIP
        [2880, 5760]
        >>> attachment.report.tasks  # doctest: +SKIP
        2
        """
        return None if self._latest is None else self._latest()

    @property
    def is_closed(self) -> bool:
        """Whether the attachment was closed, or another one has replaced it.

        >>> import isochrony as iso
        >>> from dask.distributed import Client  # doctest: +SKIP
        >>> attachment = iso.cluster.attach(Client("tcp://10.0.0.5:8786"), cache="20GB")  # doctest: +SKIP
        >>> attachment.is_closed  # doctest: +SKIP
        False
        """
        return self._is_closed

    def info(self) -> dict[str, dict[str, Any]]:
        """State and counters of the workers' caches.

        Workers of one host with the same folder share a cache.

        Returns:
            By address of a worker, a dict. Of the cache: "folder"; "evict", the eviction policy; "quota_bytes", its
            largest size; "piece_bytes", the size of the pieces in which files are fetched; "objects" and
            "pinned_objects", numbers of cached files and shards, and of those in use; "present_bytes",
            "reserved_bytes" and "allocated_bytes", bytes that are cached, being fetched, and counted against the quota;
            "handles", number of open handles of live processes; "hits" and "misses", numbers of requested pieces that
            were cached and that were not; "evictions", number of objects evicted; "resets", how often its journal was
            unusable. Of the worker's process: "local_files", "peer_files" and "storage_files", numbers of files by
            where they were found; "peer_bytes" and "storage_bytes", bytes that came from there.

        Raises:
            RunError: the attachment was closed, or a worker has no cache yet.

        >>> attachment.info()["tcp://10.0.0.7:40331"]["quota_bytes"]  # doctest: +SKIP
        20000000000
        """
        self._check_open()
        return dict(self.client.run(_info, self._name))

    def close(self) -> None:
        """Close the caches and end their transfers. Cached files stay on disk. Closing again has no effect.

        >>> attachment.close()  # doctest: +SKIP
        >>> attachment.is_closed  # doctest: +SKIP
        True
        """
        if self._is_closed:
            return
        self._is_closed = True
        with _ATTACHING:
            if _ATTACHED.get(self._scheduler) is self:
                del _ATTACHED[self._scheduler]
                place_shards(self._scheduler, None)
        from .cache_plugin import PLUGIN_NAME

        if self.client.status == "running":
            self.client.unregister_worker_plugin(name=PLUGIN_NAME)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise RunError("the attachment was closed; call isochrony.cluster.attach again")


def attach(
    client: Any,
    *,
    policy: str = "good-cache-compute",
    cache: int | str = "20GB",
    evict: str = "lru",
    folder: str | None = None,
    sends: int = 8,
    receives: int = 8,
    per_source: int = 2,
    storage_reads: int = 8,
    max_replicas: int = 4,
    timeout: float = 10.0,
) -> Attachment:
    """Set up a cache on each worker of a Dask cluster, also on workers that join later, for `map` and for plans with
    ``on=``.

    A process has one attachment per cluster: a second call closes the first one.

    Parameters:
        client: a `distributed.Client`, a cluster, or the address of a scheduler.
        policy: how workers are chosen for tasks: "good-cache-compute", "max-compute-util", "max-cache-hit",
            "first-cache-available" or "first-available"; see docs/placement.md.
        cache: largest size of each host's cache in bytes, from 16 MiB, or text such as "20GB".
        evict: which files leave a full cache: "lru", "lfu", "fifo" or "random".
        folder: folder of a host's cache, on a local disk; workers of a host with the same folder share it. ``{worker}``
            in it stands for the name of the worker. None: beside the folders of Dask's workers.
        sends, receives: largest number of transfers that a worker sends, or receives, at a time, from 1.
        per_source: largest number of transfers from one peer at a time, from 1.
        storage_reads: largest number of reads of a worker from storage at a time, from 1.
        max_replicas: number of copies of a file above which ``good-cache-compute`` gives items of it only to workers
            that have some of its bytes, unless they have waited long.
        timeout: seconds without progress after which a transfer is abandoned, above 0 and at most 3600.

    Returns:
        An `Attachment`; use it in a ``with`` block, which closes the caches at the end.

    Raises:
        OptionError: a parameter out of range, or no scheduler answers at that address.
        MissingExtraError: Dask is not installed (extra `cluster`).
        RunError: a worker cannot open its cache.

    >>> import isochrony as iso
    >>> from dask.distributed import Client  # doctest: +SKIP
    >>> client = Client("tcp://10.0.0.5:8786")  # doctest: +SKIP
    >>> with iso.cluster.attach(client, cache="20GB", folder="/scratch/isochrony"):  # doctest: +SKIP
    ...     lengths = list(iso.cluster.map(lambda url, path: path.stat().st_size, urls, client=client))
    """
    require("distributed", "isochrony.cluster.attach")
    from .cache_plugin import PLUGIN_NAME, CachePlugin

    client = checked_client("client", client)
    quota = byte_count("cache", cache, _LEAST_CACHE)
    for name, value in (("sends", sends), ("receives", receives), ("per_source", per_source)):
        number(name, value, 1, "a whole number, at least 1")
    number("storage_reads", storage_reads, 1, "a whole number, at least 1")
    number("max_replicas", max_replicas, 1, "a whole number, at least 1")
    choice("policy", policy, POLICIES)
    choice("evict", evict, EVICTIONS)
    _check_folder(folder)
    _check_timeout(timeout)
    settings = CacheSettings(
        token=secrets.token_bytes(TOKEN_BYTES),
        folder=folder,
        quota=quota,
        evict=evict,
        sends=sends,
        receives=receives,
        per_source=per_source,
        storage_reads=storage_reads,
        timeout=float(timeout),
    )
    attachment = Attachment(client, secrets.token_hex(8), policy, settings, max_replicas)
    with _ATTACHING:
        before = _ATTACHED.pop(_identity(client), None)
        if before is not None:
            # Dask would refuse a second plugin of this name, or keep the first one.
            before._is_closed = True
            place_shards(_identity(client), None)
            client.unregister_worker_plugin(name=PLUGIN_NAME)
        try:
            client.register_plugin(CachePlugin(attachment._name, settings, __version__), name=PLUGIN_NAME)
        except Exception as error:
            # Or workers that join later would try, too.
            client.unregister_worker_plugin(name=PLUGIN_NAME)
            first = next(iter(str(error).splitlines()), type(error).__name__)
            raise RunError(f"a worker cannot open its cache: {first}") from error
        _ATTACHED[_identity(client)] = attachment
        placement = ShardPlacement(attachment._name, policy, max_replicas=max_replicas)
        place_shards(_identity(client), placement)
    return attachment


def _check_folder(folder: object) -> None:
    if folder is not None and (not isinstance(folder, str) or not folder.strip() or "\0" in folder):
        raise OptionError(f"folder={folder!r} is refused; give the path of a folder on a local disk, as a text")


def _check_timeout(timeout: object) -> None:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= _LONGEST_TIMEOUT_S:
        raise OptionError(f"timeout={timeout!r} is refused; give seconds, above 0 and at most {_LONGEST_TIMEOUT_S:g}")


def attachment_of(client: Any) -> Attachment:
    """The attachment of a client's cluster, or the one that was given as such.

    Raises:
        OptionError: there is none.
    """
    if isinstance(client, Attachment):
        client._check_open()
        return client
    client = checked_client("client", client)
    attachment = _ATTACHED.get(_identity(client))
    if attachment is None:
        raise OptionError(
            f"the cluster {client.scheduler.address} has no caches of this process; call "
            "isochrony.cluster.attach(client, cache=...) first"
        )
    return attachment


def _identity(client: Any) -> str:
    return str(client.scheduler.address)


def _info(name: str) -> dict[str, Any]:
    """In a worker."""
    from .cache_plugin import host_cache

    # In Dask's loop, which must not wait.
    cache = host_cache(name, wait_s=0.0)
    counts = {f"{origin}_files": cache.files[origin] for origin in ("local", "peer", "storage")}
    return {**cache.info(), **counts, **{f"{origin}_bytes": cache.bytes[origin] for origin in ("peer", "storage")}}
