"""A host with a cache in a process of its own, for tests that kill it: ``python cached_host.py FOLDER TOKEN ...``."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__)


class CachedHost:
    """Starts one.

    Parameters:
        folder: of its cache.
        token: of the cluster.
    """

    def __init__(self, folder: Path, token: bytes) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE), str(folder), token.hex()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self.address: tuple[str, int] = tuple(self._said())

    def ask(self, wanted: Any, dies: bool = False) -> None:
        """Has it obtain a file; `dies`: it kills itself once it has a block from a peer."""
        assert self._process.stdin is not None
        request = {"key": wanted.key, "sources": wanted.sources, "fetcher": wanted.fetcher, "dies": dies}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        """Where the file came from."""
        return str(self._said())

    def wait(self) -> int:
        """Its status, once it has ended."""
        return self._process.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def _said(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    from isochrony.cluster.host_cache import HostCache
    from isochrony.cluster.input_files import CacheSettings, InputFile
    from isochrony.cluster.storage import FileKey

    folder, token = sys.argv[1:]
    cache = HostCache(CacheSettings(bytes.fromhex(token), None, 256 << 20, timeout=2.0), Path(folder), "127.0.0.1")
    print(json.dumps(cache.server.address), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if request["dies"]:
            cache._fetcher.count = die  # type: ignore[method-assign]
        fetcher = request["fetcher"]
        sources = tuple((host, port) for host, port in request["sources"])
        wanted = InputFile(
            FileKey(*request["key"]), None, sources, None if fetcher is None else (fetcher[0], fetcher[1])
        )
        with contextlib.closing(cache.obtain(wanted)) as file:
            print(json.dumps(file.origin), flush=True)


if __name__ == "__main__":
    main()
