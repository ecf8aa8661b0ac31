"""A storage server of tests: serves files with ranges and entity tags, takes files by PUT, counts bytes, and limits its
rate for all.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, BinaryIO, Self

_STEP = 64 << 10
#: Seconds by which the server may be behind its rate and make up for it: sleeping is not exact.
_BEHIND_S = 0.02


class StorageServer:
    """Files in memory behind HTTP.

    Parameters:
        rate: bytes a second that all readers and writers share; None: no limit.

    Attributes:
        files: bytes of each path.
        sent: bytes of bodies that were sent, of each path.
        received: bytes of bodies of PUT requests, of each path.
        requests: by method.
        tags: whether answers have an entity tag.
        fault: called with path and offset before bytes are sent; True cuts the connection.
    """

    def __init__(self, rate: float | None = None) -> None:
        self.rate = rate
        self.files: dict[str, bytes] = {}
        self.sent: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.tags = True
        self.fault: Callable[[str, int], bool] = lambda *_: False
        self._lock = threading.Lock()
        self._free_at = 0.0
        #: Entity tags, each of the content that a path had.
        self._tags: dict[str, tuple[bytes, str]] = {}
        self._versions = itertools.count()
        storage = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Or a short body waits 40 ms for the acknowledgement of its headers.
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                storage._get(self, has_body=True)

            def do_HEAD(self) -> None:
                storage._get(self, has_body=False)

            def do_PUT(self) -> None:
                storage.requests["PUT"] += 1
                storage.files[self.path] = storage._receive(self.rfile, int(self.headers["Content-Length"]))
                storage.received[self.path] += len(storage.files[self.path])
                self.send_response(201)
                if storage.tags:
                    self.send_header("ETag", storage._tag(self.path, storage.files[self.path]))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/{name}"

    def put(self, name: str, content: bytes) -> str:
        self.files[f"/{name}"] = content
        return self.url(name)

    @property
    def sent_bytes(self) -> int:
        return self.sent.total()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _get(self, request: BaseHTTPRequestHandler, has_body: bool) -> None:
        self.requests["GET" if has_body else "HEAD"] += 1
        content = self.files.get(request.path)
        if content is None:
            request.send_response(404)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        start, stop = 0, len(content)
        ranged = request.headers.get("Range")
        if ranged:
            first, _, last = ranged.removeprefix("bytes=").partition("-")
            start, stop = int(first), min(int(last) + 1, stop)
        request.send_response(206 if ranged else 200)
        if self.tags:
            request.send_header("ETag", self._tag(request.path, content))
        request.send_header("Content-Length", str(stop - start))
        if ranged:
            request.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
        request.end_headers()
        view = memoryview(content)
        while has_body and start < stop:
            if self.fault(request.path, start):
                request.close_connection = True
                return
            length = min(_STEP, stop - start)
            self._wait(length)
            # Before they go: a reader that has them all may ask at once how many were sent.
            with self._lock:
                self.sent[request.path] += length
            request.wfile.write(view[start : start + length])
            start += length

    def _receive(self, stream: BinaryIO, length: int) -> bytes:
        content = bytearray(length)
        view = memoryview(content)
        start = 0
        while start < length:
            stop = min(start + _STEP, length)
            self._wait(stop - start)
            read = stream.readinto(view[start:stop])  # type: ignore[attr-defined]
            if not read:
                raise ConnectionError(f"the body of a PUT ended after {start} of {length} bytes")
            start += read
        return bytes(content)

    def _tag(self, path: str, content: bytes) -> str:
        # Two first requests at the same time get the same tag.
        with self._lock:
            known = self._tags.get(path)
            if known is None or known[0] is not content:
                # No hash: of a large file it would take as long as sending it.
                self._tags[path] = known = (content, f'"{next(self._versions):x}-{len(content):x}"')
            return known[1]

    def _wait(self, length: int) -> None:
        """Until the bytes may go."""
        if self.rate is None:
            return
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic() - _BEHIND_S) + length / self.rate
            wait = self._free_at - time.monotonic()
        if wait > 0:
            time.sleep(wait)
