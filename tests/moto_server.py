"""A second S3 server for tests: moto's, which holds objects in memory, behind a layer that can fail as servers do."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pytest

KEY, SECRET = "MOTOKEYOFNOBODY", "another-secret-that-nobody-may-see"
BUCKET = "recordings"

#: Status, headers and body.
Answer = tuple[str, list[tuple[str, str]], bytes]
#: Answers a request: its WSGI environment, and a function that asks the server.
Fault = Callable[[dict[str, Any], Callable[[], Answer]], Answer]

_ALWAYS = 1 << 30


def error_document(status: str, code: str, **headers: str) -> Fault:
    """An error as S3 writes it, without asking the server."""
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>by a test</Message></Error>'.encode()
    extra = [(name.replace("_", "-"), value) for name, value in headers.items()]

    def answer(environ: dict[str, Any], ask: Callable[[], Answer]) -> Answer:
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        return status, [("Content-Type", "application/xml"), *extra], body

    return answer


def broken_off(environ: dict[str, Any], ask: Callable[[], Answer]) -> Answer:
    """Half of the body that the headers announce; then the connection ends."""
    status, headers, body = ask()
    return status, _with_length(headers, len(body)), body[: len(body) // 2]


def shortened(environ: dict[str, Any], ask: Callable[[], Answer]) -> Answer:
    """Half of the body, with headers that announce no more."""
    status, headers, body = ask()
    half = body[: len(body) // 2]
    return status, _with_length(headers, len(half)), half


def _with_length(headers: list[tuple[str, str]], length: int) -> list[tuple[str, str]]:
    others = [pair for pair in headers if pair[0].lower() != "content-length"]
    return [*others, ("Content-Length", str(length))]


@dataclass
class _Rule:
    method: str
    target: re.Pattern[str]
    fault: Fault
    times: int


@dataclass
class MotoServer:
    """The server.

    Attributes:
        client: of boto3, with which tests look at and change what there is; its requests meet no fault.
        requests: method, path and query of each other request.
    """

    endpoint: str = ""
    client: Any = None
    requests: list[str] = field(default_factory=list)
    _rules: list[_Rule] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, method: str, target: str, fault: Fault, times: int = _ALWAYS) -> None:
        """Answer the next requests of a method whose path and query match a pattern by a fault."""
        with self._lock:
            self._rules.append(_Rule(method, re.compile(target), fault, times))

    def heal(self) -> None:
        """Answer all requests as a healthy server does."""
        with self._lock:
            self._rules.clear()

    def count(self, method: str, target: str) -> int:
        with self._lock:
            return sum(bool(re.match(f"{method} .*{target}", request)) for request in self.requests)

    def keys(self, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def get(self, key: str) -> bytes:
        return bytes(self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def put(self, key: str, content: bytes) -> None:
        self.client.put_object(Bucket=BUCKET, Key=key, Body=content)

    def uploads(self, prefix: str) -> list[str]:
        """Keys of multipart uploads that are neither completed nor aborted."""
        found = self.client.list_multipart_uploads(Bucket=BUCKET, Prefix=prefix).get("Uploads", [])
        return [one["Key"] for one in found if one["Key"].startswith(prefix)]

    def layer(self, application: Any) -> Any:
        """A WSGI application that records requests and answers some of them by faults."""

        def serve(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
            if environ.get("HTTP_USER_AGENT", "").startswith("Boto"):
                return application(environ, start)
            query = environ.get("QUERY_STRING", "")
            target = environ["PATH_INFO"] + (f"?{unquote(query)}" if query else "")

            def ask() -> Answer:
                told: list[Any] = []
                body = b"".join(application(environ, lambda status, headers, _=None: told.extend((status, headers))))
                return told[0], list(told[1]), body

            fault = self._fault(environ["REQUEST_METHOD"], target)
            status, headers, body = fault(environ, ask) if fault else ask()
            start(status, headers)
            return [body]

        return serve

    def _fault(self, method: str, target: str) -> Fault | None:
        with self._lock:
            self.requests.append(f"{method} {target}")
            for rule in self._rules:
                if rule.times > 0 and rule.method == method and rule.target.search(target):
                    rule.times -= 1
                    return rule.fault
        return None


@contextmanager
def serve_moto(layer: Callable[[Any], Any] = lambda application: application, tls: Any = None) -> Iterator[MotoServer]:
    """Start the server in a thread, with an empty bucket.

    Parameters:
        layer: wraps the WSGI application that clients meet.
        tls: paths of a certificate and its key.
    """
    reason = "moto's server is not installed (`make build-test` does so): a second S3 server is not tested"
    app = pytest.importorskip("moto.moto_server.werkzeug_app", reason=reason)
    boto3 = pytest.importorskip("boto3", reason=reason)
    from werkzeug.serving import make_server
    from werkzeug.test import Client

    class Handler(app.MotoRequestHandler):  # type: ignore[name-defined,misc]
        def log_request(self, *_: Any) -> None:
            pass

    server = MotoServer()
    objects = app.DomainDispatcherApplication(app.create_backend_app)
    # A process has one set of objects, whatever servers show them.
    assert Client(objects).post("http://127.0.0.1/moto-api/reset").status_code == 200
    options = {"threaded": True, "request_handler": Handler}
    listener = make_server("127.0.0.1", 0, server.layer(layer(objects)), ssl_context=tls, **options)
    scheme, host = ("https", "localhost") if tls else ("http", "127.0.0.1")
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        server.endpoint = f"{scheme}://{host}:{listener.server_port}"
        server.client = boto3.client(
            "s3",
            endpoint_url=server.endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
            verify=tls[0] if tls else True,
        )
        server.client.create_bucket(Bucket=BUCKET)
        yield server
    finally:
        server.heal()
        listener.shutdown()
        thread.join(10)
        listener.server_close()


@pytest.fixture(scope="module")
def started_moto() -> Iterator[MotoServer]:
    with serve_moto() as server:
        yield server


@pytest.fixture
def moto(started_moto: MotoServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[MotoServer]:
    """The server, which this process and its children find, healthy at first."""
    settings = {
        "AWS_ENDPOINT_URL": started_moto.endpoint,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    started_moto.requests.clear()
    yield started_moto
    started_moto.heal()


def check_message(error: Any, *parts: str) -> None:
    """An error is one line that says these parts, and no secret."""
    text = str(error)
    assert all(part in text for part in parts) and "\n" not in text, text
    shown = f"{text} {error!r} {error.args}"
    assert SECRET not in shown and KEY not in shown, shown
