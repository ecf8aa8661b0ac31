"""Files behind HTTP servers that serve ranges: reads with ``Range``, writes with ``PUT``."""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import random
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from ..errors.native import StorageError, StorageNotFoundError
from .storage import FileKey, changed, shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .storage import ByteStream

#: Seconds without a byte after which a request has failed.
_TIMEOUT_S = 30.0
#: Bytes of a body that are sent at a time.
_BLOCK_BYTES = 256 << 10
#: Attempts of a request, and seconds before the second one, which double.
_ATTEMPTS, _BACKOFF_S = 4, 0.1
#: Answers that may be others a moment later.
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 5


class HttpFiles:
    """Files of ``http://`` and ``https://``. A thread keeps one connection to each server."""

    def __init__(self) -> None:
        self._local = threading.local()

    def stat(self, url: str) -> FileKey:
        """Asks for the version by ``HEAD``."""
        answer = self._request("HEAD", url, {})
        answer.read()
        length = answer.getheader("Content-Length")
        if length is None:
            raise StorageError(
                f"{shown(url)}: the server does not say how long the file is; serve it with Content-Length"
            )
        etag = answer.getheader("ETag")
        modified_ns = 0 if etag else _modified_ns(answer)
        if etag is None and not modified_ns:
            raise StorageError(
                f"{shown(url)}: the server gives neither ETag nor Last-Modified, so a changed file would not be "
                "noticed; serve it with one of them"
            )
        return FileKey(url, etag, modified_ns, int(length))

    def open(self, key: FileKey, start: int, stop: int) -> ByteStream:
        """A range of a version."""
        answer = self._request("GET", key.url, {"Range": f"bytes={start}-{stop - 1}"} if stop > start else {})
        try:
            etag = answer.getheader("ETag")
            if etag != key.etag:
                raise changed(key, f"ETag {etag}")
            if etag is None and (modified := _modified_ns(answer)) != key.modified_ns:
                raise changed(key, f"modified {modified} ns")
            if answer.status == 206:
                place = answer.getheader("Content-Range", "")
                if not place.startswith(f"bytes {start}-{stop - 1}/"):
                    raise StorageError(
                        f"{shown(key.url)}: asked for bytes {start}-{stop - 1}, the server sent {place!r}"
                    )
                if place.rpartition("/")[2] not in ("*", str(key.bytes)):
                    raise changed(key, f"{place.rpartition('/')[2]} bytes")
                return _HttpRange(key.url, answer, 0, stop - start, self._forget)
            # A server without ranges sends all.
            return _HttpRange(key.url, answer, start, stop - start, self._forget)
        except BaseException:
            answer.close()
            self._forget()
            raise

    def write(self, url: str, path: Path) -> FileKey:
        """Stores a file by ``PUT``; servers replace a file as a whole. Its version is the one that the answer names, if
        there is one: another writer may replace the file a moment later.
        """
        with path.open("rb") as body:
            size = path.stat().st_size

            def rewound() -> Any:
                body.seek(0)
                return body

            answer = self._request("PUT", url, {"Content-Length": str(size)}, rewound)
            answer.read()
        etag = answer.getheader("ETag")
        return self.stat(url) if etag is None else FileKey(url, etag, 0, size)

    def _request(self, method: str, url: str, headers: dict[str, str], body: Any = None) -> http.client.HTTPResponse:
        """An answer whose status is 2xx.

        Raises:
            StorageError: there is none.
        """
        why: object = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                # Workers that were refused together do not come back together.
                time.sleep(_BACKOFF_S * 2 ** (attempt - 1) * (0.5 + random.random()))
            try:
                answer = self._follow(method, url, headers, body)
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, StorageError):
                    raise
                why = f"{type(error).__name__}: {error}"
                self._forget()
                continue
            if 200 <= answer.status < 300:
                return answer
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer.read()
            if answer.status in (404, 410):
                raise StorageNotFoundError(
                    f"{shown(url)}: the server has no such file ({answer.status}); check the URL"
                )
            why = f"{answer.status} {answer.reason}"
            if answer.status not in _TRANSIENT:
                break
        raise StorageError(
            f"{method} {shown(url)} failed ({why}); see that the server runs and that every host may use it"
        )

    def _follow(self, method: str, url: str, headers: dict[str, str], body: Any) -> http.client.HTTPResponse:
        for _ in range(_MAX_REDIRECTS):
            parts = urlsplit(url)
            connection = self._connection(parts.scheme, parts.netloc)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request(method, target, body() if body else None, headers)
            answer: http.client.HTTPResponse = connection.getresponse()
            if answer.status not in _REDIRECTS:
                return answer
            answer.read()
            url = urljoin(url, answer.getheader("Location", ""))
            if urlsplit(url).scheme not in ("http", "https"):
                break
        raise StorageError(
            f"{method} {shown(url)}: redirected more than {_MAX_REDIRECTS} times, or away from HTTP; check it"
        )

    def _connection(self, scheme: str, netloc: str) -> http.client.HTTPConnection:
        connections = self._local.__dict__.setdefault("connections", {})
        connection: http.client.HTTPConnection | None = connections.get((scheme, netloc))
        if connection is None:
            kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
            connections[scheme, netloc] = connection = kind(netloc, timeout=_TIMEOUT_S, blocksize=_BLOCK_BYTES)
        return connection

    def _forget(self) -> None:
        """What a connection would give next is not known."""
        connections = self._local.__dict__.setdefault("connections", {})
        for connection in connections.values():
            connection.close()
        connections.clear()


class _HttpRange:
    """The body of an answer, or a part of it."""

    def __init__(
        self, url: str, answer: http.client.HTTPResponse, skip: int, length: int, forget: Callable[[], None]
    ) -> None:
        self._url = url
        self._forget = forget
        self._answer = answer
        self._left = length
        while skip:
            try:
                skipped = len(answer.read(min(skip, 1 << 20)))
            except (OSError, http.client.HTTPException) as error:
                raise _broken(url, error) from error
            if not skipped:
                raise StorageError(f"{shown(url)} ended before the range that was asked for")
            skip -= skipped

    def readinto(self, buffer: Any, /) -> int:
        """Fills a buffer as far as there is something."""
        view = memoryview(buffer)[: self._left]
        if not len(view):
            return 0
        try:
            read = self._answer.readinto(view)
        except (OSError, http.client.HTTPException) as error:
            raise _broken(self._url, error) from error
        self._left -= read
        return read

    def close(self) -> None:
        """Lets the connection be used again, if all was read."""
        if not self._answer.isclosed():
            # What is left of the body would be taken for the next answer.
            self._answer.close()
            self._forget()


def _broken(url: str, error: Exception) -> StorageError:
    return StorageError(
        f"{shown(url)}: the connection broke ({type(error).__name__}: {error}); see that the server runs"
    )


def _modified_ns(answer: http.client.HTTPResponse) -> int:
    modified = answer.getheader("Last-Modified")
    return int(email.utils.parsedate_to_datetime(modified).timestamp()) * 10**9 if modified else 0
