"""An S3 server for tests, and a line to it that can be slow, lossy or broken."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

KEY, SECRET = "TESTKEYOFNOBODY", "a-secret-that-nobody-may-see"
BUCKET = "recordings"
_ROOT = Path(__file__).parents[1]


def server_program() -> str:
    """The server, or a skip that says how to get it."""
    built = _ROOT / "target" / "tools" / "bin" / "s3s-fs"
    found = os.environ.get("ISOCHRONY_S3_SERVER") or (str(built) if built.exists() else shutil.which("s3s-fs"))
    if not found:
        pytest.skip("s3s-fs is not installed: `make s3-server` does so; stores in object storage are not tested")
    return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def serve(root: Path) -> Iterator[int]:
    """Serve the folders in `root` as buckets; gives the port."""
    program, port = server_program(), free_port()
    keys = ["--access-key", KEY, "--secret-key", SECRET]
    command = [program, *keys, "--host", "127.0.0.1", "--port", str(port), str(root)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(500):
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None, "the server ended"
            time.sleep(0.02)
        yield port
    finally:
        server.terminate()
        server.wait(10)


@dataclass
class Line:
    """What a line does to requests; may be changed while it is used.

    Attributes:
        delay: seconds before each answer.
        rate: bytes a second of all answers together; 0: as fast as it gets.
        refused: how many of the next requests are answered with 503.
        cut: how many of the next answers to `cut_path` break off in their middle.
        cut_path: which requests those are.
        hangs: answers do not come at all.
    """

    port: int = 0
    delay: float = 0.0
    rate: float = 0.0
    refused: int = 0
    cut: int = 0
    cut_path: str = ""
    hangs: bool = False
    requests: list[str] = field(default_factory=list)
    _due: float = 0.0

    def share(self, count: int) -> float:
        """Seconds until `count` more bytes may pass."""
        if not self.rate:
            return 0.0
        now = time.monotonic()
        # An idle line saves nothing up.
        self._due = max(self._due, now) + count / self.rate
        return self._due - now


async def _pass_on(line: Line, server: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    up_reader, up_writer = await asyncio.open_connection("127.0.0.1", server, limit=1 << 20)
    try:
        while head := await _head(reader):
            line.requests.append(head.split(b"\r\n", 1)[0].decode())
            if line.hangs:
                await asyncio.sleep(3600)
            await asyncio.sleep(line.delay)
            if line.refused > 0:
                line.refused -= 1
                async for _ in _body(reader, head):
                    pass
                body = b"<Error><Code>SlowDown</Code></Error>"
                writer.write(b"HTTP/1.1 503 Slow Down\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
                await writer.drain()
                continue
            up_writer.write(head)
            async for part in _body(reader, head):
                await _wait(line, part)
                up_writer.write(part)
                await up_writer.drain()
            answer = await _head(up_reader)
            if not answer:
                raise ConnectionError("the server gave no answer")
            writer.write(answer)
            if head.startswith(b"HEAD"):
                continue
            left = _length(answer)
            if left is None:
                async for part in _body(up_reader, answer):
                    await _wait(line, part)
                    writer.write(part)
                await writer.drain()
                continue
            is_cut = line.cut > 0 and left > 1 and line.cut_path in line.requests[-1]
            stop = left // 2 if is_cut else 0
            line.cut -= is_cut
            while left > stop:
                part = await up_reader.read(min(256 << 10, left - stop))
                if not part:
                    raise ConnectionError("the server broke off")
                await _wait(line, part)
                writer.write(part)
                await writer.drain()
                left -= len(part)
            if is_cut:
                return
    except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
        pass
    finally:
        for one in (writer, up_writer):
            one.close()


async def _wait(line: Line, part: bytes) -> None:
    wait = line.share(len(part))
    if wait > 0:
        await asyncio.sleep(wait)


def _length(head: bytes) -> int | None:
    """Bytes behind a head; None: in chunks."""
    if re.search(rb"transfer-encoding: *chunked", head, re.IGNORECASE):
        return None
    found = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    return int(found.group(1)) if found else 0


async def _body(reader: asyncio.StreamReader, head: bytes) -> AsyncIterator[bytes]:
    """What follows a head, as it is sent."""
    left = _length(head)
    if left is None:
        while True:
            size = await reader.readuntil(b"\r\n")
            chunk = await reader.readexactly(int(size.split(b";")[0], 16) + 2)
            yield size + chunk
            if len(chunk) == 2:
                return
    while left > 0:
        part = await reader.read(min(256 << 10, left))
        if not part:
            raise ConnectionError("the body ends early")
        left -= len(part)
        yield part


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


@contextmanager
def line_to(server: int) -> Iterator[Line]:
    """A line to the server at a port, with a port of its own; in a thread."""
    line, ready = Line(), threading.Event()
    loop = asyncio.new_event_loop()

    async def begin() -> None:
        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _pass_on(line, server, reader, writer)

        started = await asyncio.start_server(meet, "127.0.0.1", 0, limit=1 << 20)
        line.port = started.sockets[0].getsockname()[1]
        ready.set()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(begin())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield line
    finally:
        loop.call_soon_threadsafe(_stop, loop)
        thread.join(10)


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    """Ends the connections that are open, and then the loop."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    gathered = asyncio.gather(*tasks, return_exceptions=True)
    gathered.add_done_callback(lambda _: loop.stop())
