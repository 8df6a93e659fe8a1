"""A server of a tree of files by ranges, which also answers the few calls of the Hub that a listing needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import pytest


class Tree(BaseHTTPRequestHandler):
    """Files by HTTP, with pages of links; the hub's own calls too."""

    files: ClassVar[dict[str, bytes]] = {}
    log: ClassVar[list[str]] = []
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        """Answer as a server should."""
        self.log.append(f"{self.command} {self.path} {self.headers.get('Authorization', '')}")
        path = self.path.split("?")[0].lstrip("/")
        if path.startswith("api/"):
            self._hub(path)
        elif path in self.files:
            data = self.files[path]
            first, last = (int(n) for n in self.headers.get("Range", f"bytes=0-{len(data)}")[6:].split("-"))
            where = {"Content-Range": f"bytes {first}-{min(last, len(data) - 1)}/{len(data)}", "ETag": '"1"'}
            self.send(206, data[first : last + 1], where)
        elif path.endswith("/"):
            links = [f'<a href="/{name}">x</a>' for name in self.files if name.startswith(path)]
            self.send(200, "".join([*links, '<a href="http://elsewhere.invalid/a.safetensors">']).encode())
        else:
            self.send(404, b"")

    def _hub(self, path: str) -> None:
        if "/tree/" in path:
            rows = [
                {"type": "file", "path": n.rpartition("/")[2], "size": len(d), "oid": "a" * 40}
                for n, d in self.files.items()
                if n.startswith("org/model/")
            ]
            self.send(200, json.dumps(rows).encode())
        else:
            about = {"_id": "1", "id": "org/model", "sha": "0" * 40, "private": False, "siblings": []}
            self.send(200, json.dumps(about).encode())

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
