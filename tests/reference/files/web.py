"""Servers on this machine: files by ranges, pages of links, and the calls of the Hub that reading takes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar
from urllib.parse import unquote, urlsplit

import pytest

from safetensors_reference.files import stores


class Tree(BaseHTTPRequestHandler):
    """Files by HTTP, with pages of links."""

    files: ClassVar[dict[str, bytes]] = {}
    log: ClassVar[list[str]] = []
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.log.append(f"{self.command} {self.path} {self.headers.get('Authorization', '')}")
        self.answer()

    def answer(self) -> None:
        """Answer as a server should."""
        path = self.path.split("?")[0].lstrip("/")
        if path in self.files:
            self.send_file(self.files[path])
        elif path.endswith("/"):
            links = [f'<a href="/{name}">x</a>' for name in self.files if name.startswith(path)]
            self.send(200, "".join([*links, '<a href="http://elsewhere.invalid/a.safetensors">']).encode())
        else:
            self.send(404, b"")

    def send_file(self, data: bytes, *, ranges: bool = True) -> int:
        """Answer with a file or the range of it that the request names, and return how much was sent."""
        span = self.headers["Range"] if ranges else None
        first, _, last = (span or "bytes=0-")[6:].partition("-")
        start, end = int(first), min(int(last or len(data)) + 1, len(data))
        fields = {"Accept-Ranges": "bytes" if ranges else "none", "ETag": '"1"'}
        if span:
            fields["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        self.send(206 if span else 200, data[start:end], fields)
        return end - start if self.command == "GET" else 0

    def send(self, status: int, body: bytes, fields: dict[str, str] | None = None) -> None:
        """Answer."""
        self.send_response(status)
        for name, value in {**(fields or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Say nothing of a client that went away."""


@contextmanager
def serve(handler: type[Tree], host: str = "127.0.0.1") -> Iterator[str]:
    """Serve the files of a handler, and yield where."""
    try:
        server = _Server((host, 0), handler)
    except OSError:  # such as on macOS, which has one loopback address
        pytest.skip(f"{host} is no address of this machine")
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()  # stops without a long wait
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def forget() -> None:
    """Forget all servers."""
    for cached in (stores.open_remote, stores.file_system, stores.fetcher_of):
        cached.cache_clear()


REPO = "org/model"
COMMIT = "0" * 40


@dataclass
class Hub:
    """One model repository. ``failing`` maps file names to the status that they are answered with."""

    files: dict[str, bytes] = field(default_factory=dict)
    failing: dict[str, int] = field(default_factory=dict)
    ranges: bool = True
    tree: bytes | None = None
    """Sent in place of the list of files."""
    url: str = ""
    calls: list[str] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    """The Authorization field of each call."""
    sent: int = 0
    """Bytes of files that were sent."""

    def listing(self) -> bytes:
        folders = {name.rpartition("/")[0] for name in self.files} - {""}
        kinds = [("directory", path, 0) for path in sorted(folders)]
        kinds += [("file", name, len(data)) for name, data in self.files.items()]
        rows = [{"type": kind, "path": path, "size": size, "oid": COMMIT} for kind, path, size in kinds]
        return json.dumps(rows).encode() if self.tree is None else self.tree


@contextmanager
def served() -> Iterator[Hub]:
    hub = Hub()

    class Handler(Tree):
        def answer(self) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.calls.append(f"{self.command} {path} {self.headers['Range'] or ''}".strip())
            hub.tokens.append(self.headers["Authorization"])
            found = re.fullmatch(rf"/(?:{REPO}/resolve/[^/]+|plain)/(.+)", path)
            name = found[1] if found else ""
            if path.startswith(f"/api/models/{REPO}/tree/"):
                self.send(200, hub.listing(), {"Content-Type": "application/json"})
            elif path in (f"/api/models/{REPO}", f"/api/models/{REPO}/revision/main"):
                about = {"id": REPO, "sha": COMMIT, "siblings": []}
                self.send(200, json.dumps(about).encode(), {"Content-Type": "application/json"})
            elif name in hub.failing:
                self.send(hub.failing[name], b"")
            elif name in hub.files:
                hub.sent += self.send_file(hub.files[name], ranges=hub.ranges)
            else:
                self.send(404, b"", {"X-Error-Code": "EntryNotFound"})

    with serve(Handler) as url:
        hub.url = url
        yield hub
