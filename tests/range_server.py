"""A web server of files that takes its time: ``python range_server.py FOLDER DELAY RATE [STATUS]`` prints its port.

A process of its own, so that what it costs is not the reader's: `DELAY` seconds before each answer, and `RATE` bytes a
second of all answers together. Other methods than GET and HEAD are answered with `STATUS`.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from pathlib import Path
from urllib.parse import unquote

# Bytes that are sent at a time, and how much of an idle moment may be made up for: timers are late by a millisecond.
_PART = 256 << 10
_SLACK = 0.01


class _Server:
    def __init__(self, folder: Path, delay: float, rate: float, status: str) -> None:
        self.folder, self.delay, self.rate, self.status = folder, delay, rate, status
        self.due = 0.0

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self.answer(head.decode(), writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def answer(self, head: str, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(self.delay)
        method, target, _ = head.split(" ", 2)
        path = self.folder / unquote(target).lstrip("/")
        if method not in ("GET", "HEAD") or not path.is_file():
            status = "404 Not Found" if method in ("GET", "HEAD") else self.status
            writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n".encode())
            return
        found = path.stat()
        start, end, status, extra = 0, found.st_size, "200 OK", ""
        tag = f'"{found.st_mtime_ns:x}-{found.st_size:x}"'
        if (match := re.search(r"(?i)\r\nif-match: *(\S+)", head)) and match.group(1) != tag:
            writer.write(b"HTTP/1.1 412 Precondition Failed\r\ncontent-length: 0\r\n\r\n")
            return
        if match := re.search(r"(?i)\r\nrange: *bytes=(\d+)-(\d+)", head):
            start, end = int(match.group(1)), min(int(match.group(2)) + 1, end)
            status, extra = "206 Partial Content", f"content-range: bytes {start}-{end - 1}/{found.st_size}\r\n"
        writer.write(f"HTTP/1.1 {status}\r\netag: {tag}\r\n{extra}content-length: {end - start}\r\n\r\n".encode())
        if method == "HEAD":
            return
        with path.open("rb") as file:
            file.seek(start)
            while start < end:
                part = file.read(min(_PART, end - start))
                start += len(part)
                now = time.monotonic()
                self.due = max(self.due, now - _SLACK) + len(part) / self.rate
                if self.due > now:
                    await asyncio.sleep(self.due - now)
                writer.write(part)
                await writer.drain()


async def _main() -> None:
    status = sys.argv[4] if len(sys.argv) > 4 else "405 Method Not Allowed"
    server = _Server(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), status)
    started = await asyncio.start_server(server.meet, "127.0.0.1", 0)
    print(started.sockets[0].getsockname()[1], flush=True)
    await started.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
