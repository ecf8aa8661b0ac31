"""An Azure Blob server for tests: Azurite, Microsoft's own, which checks signatures as the service does."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from object_server import free_port

ACCOUNT, CONTAINER = "nobodysaccount", "recordings"
KEY = base64.b64encode(b"a key of an account of nobody, for tests").decode()
_VERSION = "2021-08-06"
_ROOT = Path(__file__).parents[1]


def _program() -> str:
    built = _ROOT / "target" / "tools" / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    default = str(built) if built.exists() else shutil.which("azurite-blob")
    found = os.environ.get("ISOCHRONY_AZURE_SERVER") or default
    if not found:
        pytest.skip("azurite-blob is not installed (`make azure-server` does so): stores at az:// are not tested")
    return found


def _signature(text: str) -> str:
    return base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()


@dataclass
class AzureServer:
    """The server, with one container."""

    port: int

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    def put(self, path: str, content: bytes = b"", **query: str) -> None:
        """A PUT request that is signed with the account's key; `path`: below the endpoint."""
        headers = {"x-ms-date": datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"), "x-ms-version": _VERSION}
        if content:
            headers["x-ms-blob-type"] = "BlockBlob"
        named = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
        resource = f"/{ACCOUNT}/{ACCOUNT}/{path}" + "".join(f"\n{name}:{query[name]}" for name in sorted(query))
        headers["Content-Type"] = "application/octet-stream"
        text = f"PUT\n\n\n{len(content) or ''}\n\n{headers['Content-Type']}\n\n\n\n\n\n\n{named}{resource}"
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{_signature(text)}"
        url = f"{self.endpoint}/{path}?{urllib.parse.urlencode(query)}"
        urllib.request.urlopen(urllib.request.Request(url, content, headers, method="PUT"), timeout=30).close()

    def access_token(self, rights: str) -> str:
        """A shared access signature of the account for an hour, as a query. `rights`: such as "rl"."""
        end = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        fields = {"sp": rights, "ss": "b", "srt": "sco", "st": "", "se": end, "sip": "", "spr": "", "sv": _VERSION}
        signed = _signature("\n".join([ACCOUNT, *fields.values(), "", ""]))
        return urllib.parse.urlencode({**{name: value for name, value in fields.items() if value}, "sig": signed})


@contextmanager
def serve_azure(folder: Path) -> Iterator[AzureServer]:
    """Start the server with an empty container; `folder` is its working folder."""
    server = AzureServer(free_port())
    options = ["--blobPort", str(server.port), "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    command = [_program(), "--silent", *options]
    environment = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 60
        while True:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", server.port)) == 0:
                    break
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < until, "the server does not listen"
            time.sleep(0.05)
        server.put(CONTAINER, restype="container")
        yield server
    finally:
        process.terminate()
        process.wait(10)
