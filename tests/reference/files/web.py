"""A server of a tree of files by ranges, with pages of links."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import pytest


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
