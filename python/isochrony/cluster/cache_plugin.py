"""Opens the cache of a host in each worker of a cluster, also in those that join later. Needs Dask."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed import WorkerPlugin

from .. import __version__
from ..errors.native import RunError
from .host_cache import HostCache
from .worker import version_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from .input_files import CacheSettings

#: What Dask knows the plugin by: one attachment at a time.
PLUGIN_NAME = "isochrony-cache"
#: Folder of a host's cache, beside the folders of Dask's workers.
_DEFAULT_FOLDER = "isochrony-cache"
#: Seconds for which a slot of a worker that has just joined waits for its cache.
_OPEN_S = 20.0

_CACHES: dict[str, tuple[HostCache, int]] = {}
_OPENED = threading.Condition()


class CachePlugin(WorkerPlugin):
    """A cache in each worker process.

    Parameters:
        attachment: its name.
        settings: of the caches.
        version: of Isochrony on the client.
    """

    def __init__(self, attachment: str, settings: CacheSettings, version: str) -> None:
        self.name = PLUGIN_NAME
        self._attachment = attachment
        self._settings = settings
        self._version = version

    def setup(self, worker: Any) -> None:
        """Opens the cache."""
        if self._version != __version__:
            raise version_error(self._version)
        with _OPENED:
            opened, workers = _CACHES.get(self._attachment, (None, 0))
            if opened is None:
                tls = (
                    worker.security.get_listen_args("worker").get("ssl_context"),
                    worker.security.get_connection_args("worker").get("ssl_context"),
                )
                folder = cache_folder(self._settings.folder, str(worker.name), Path(worker.local_directory))
                opened = HostCache(self._settings, folder, str(worker.ip), tls, worker.state.nthreads)
            _CACHES[self._attachment] = (opened, workers + 1)
            _OPENED.notify_all()
        for name, metric in _METRICS.items():
            worker.metrics[name] = _measured(opened, metric)

    def teardown(self, worker: Any) -> None:
        """Closes it; what it holds stays on disk."""
        for name in _METRICS:
            worker.metrics.pop(name, None)
        with _OPENED:
            opened, workers = _CACHES.pop(self._attachment, (None, 0))
            if opened is not None and workers > 1:
                _CACHES[self._attachment] = (opened, workers - 1)
                return
        if opened is not None:
            opened.close()


def cache_folder(folder: str | None, worker: str, local: Path) -> Path:
    """Where the cache of a worker is; its name cannot lead out of the folder."""
    if folder is None:
        return local.parent / _DEFAULT_FOLDER
    name = re.sub(r"[^\w-]", "_", worker)
    return Path(folder.replace("{worker}", name))


def host_cache(attachment: str, wait_s: float = _OPEN_S) -> HostCache:
    """The cache of this process; of a worker that has just joined it is waited for.

    Raises:
        RunError: there is none.
    """
    until = time.monotonic() + wait_s
    with _OPENED:
        while attachment not in _CACHES:
            if not _OPENED.wait(until - time.monotonic()):
                raise RunError(
                    "this worker has no cache of the attachment any more; it was closed, or its folder could not be "
                    "opened (see the worker's log): call isochrony.cluster.attach again"
                )
        return _CACHES[attachment][0]


def _measured(cache: HostCache, metric: Callable[[HostCache], float]) -> Callable[[Any], float]:
    def measure(_: Any) -> float:
        return metric(cache)

    return measure


def _hit_rate(cache: HostCache) -> float:
    files = cache.files.total()
    return round(1 - cache.files["storage"] / files, 4) if files else 0.0


#: Columns of the table of workers on Dask's dashboard.
_METRICS: dict[str, Callable[[HostCache], float]] = {
    "cache_hit_rate": _hit_rate,
    "cache_local": lambda cache: cache.files["local"],
    "cache_peer": lambda cache: cache.files["peer"],
    "cache_storage": lambda cache: cache.files["storage"],
    "bytes_from_peers": lambda cache: cache.bytes["peer"],
    "bytes_from_storage": lambda cache: cache.bytes["storage"],
    "bytes_to_peers": lambda cache: cache.server.sent_bytes,
    "tasks_waiting": lambda cache: cache.waiting,
}
