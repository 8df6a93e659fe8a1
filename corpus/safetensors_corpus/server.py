"""An HTTP server that serves one file, either correctly or with one of several faults.

The server listens on the loopback interface, on a port that the system chooses, and serves the file at a path
with a random number. It closes the connection after each response.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import re
import secrets
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

BEHAVIOURS = {
    "ranges": "sends the requested range",
    "chunked": "sends the range in chunks without declaring its length",
    "unknown-total": "sends the range without stating the size of the file",
    "no-head": "sends the range, and answers HEAD with 405",
    "head-forbidden": "sends the range, and answers HEAD with 403, as signed addresses do",
    "no-ranges": "sends the whole file with status 200",
    "status-416": "answers 416, and sends the whole file if no range is requested",
    "short": "sends and declares the first half of the range",
    "short-unsaid": "sends the first half of the range, but declares the whole range",
    "cut": "declares the range, but closes the connection after half of it",
    "long": "sends and declares 16 more bytes than the range contains",
    "long-unsaid": "sends 16 more bytes than the range contains, but declares only the range",
    "shifted": "sends and declares a range that begins 8 bytes later",
    "from-start": "sends and declares a range of the same length from the start of the file",
    "other-total": "sends the range, but declares a file size that is 8 bytes too large",
    "total-too-small": "sends the range, but declares a file size that is 8 bytes too small",
    "multipart": "sends the range as the only part of a multipart/byteranges response",
    "gzip": "sends the range compressed with gzip, and declares the compression",
    "gzip-whole": "sends the whole file compressed with gzip and status 200, and declares the compression",
    "redirect": "answers 302 with another of its own addresses, where it sends the range",
    "redirect-loop": "answers 302 with the same address",
    "changed": "serves another file at this address",
    "unavailable": "answers 503 with an HTML page",
    "not-found": "answers 404 with an HTML page",
    "error-page": "answers 200 with an HTML page",
    "closed": "closes the connection without an answer",
}
"""Maps each behaviour to its description, which is a predicate about the server."""
if TYPE_CHECKING:
    Behaviour = str
else:
    Behaviour = Literal[tuple(BEHAVIOURS)]

MORE = 16
"""Number of bytes that ``long`` sends beyond the range if the file contains them."""
SHIFT = 8
"""Number of bytes by which ``shifted`` moves the range, and by which a wrong total differs from the size."""
SECONDS = 10.0
"""Timeout of a connection in seconds."""
PAGE = b"<!DOCTYPE html><html><head><title>Sorry</title></head><body>Try again later.</body></html>\n"
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_BOUNDARY = "0123456789abcdef"


class LoggedRequest(NamedTuple):
    """A request and its response; ``status`` is 0 if the server closed the connection."""

    method: str
    range: str
    status: int
    size: int


class FileServer:
    """Context manager that serves ``data`` at ``url``.

    ``behaviour`` is a key of ``BEHAVIOURS``. The server answers the first ``after`` GET requests correctly.
    ``other`` is the second file for the ``changed`` behaviour.
    """

    def __init__(
        self, data: bytes, behaviour: Behaviour = "ranges", *, after: int = 0, other: bytes | None = None
    ) -> None:
        self.data = data
        self.behaviour: Behaviour = behaviour
        self.after = after
        self.other = data if other is None else other
        self.log: list[LoggedRequest] = []
        self.path = f"/o{secrets.token_hex(6)}/model/resolve/main/file.safetensors"
        self.url = ""
        self._gets = 0
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"files": self})
        self._server = _Listener(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}{self.path}"
        self._ended = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended = True
        with contextlib.suppress(OSError):  # wakes the server immediately
            socket.create_connection(("127.0.0.1", self._server.server_port), SECONDS).close()
        self._thread.join()
        self._server.server_close()

    def _serve(self) -> None:
        while not self._ended:
            self._server.handle_request()

    @property
    def sent(self) -> int:
        return sum(served.size for served in self.log)

    def behaves(self, method: str) -> tuple[Behaviour, bytes]:
        with self._lock:
            usual = self._gets < self.after
            self._gets += method == "GET"
        if usual:
            return "ranges", self.data
        return self.behaviour, self.other if self.behaviour == "changed" else self.data


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a client that keeps a connection open must not block the harness

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the error, because the client disconnected."""


class _Handler(BaseHTTPRequestHandler):
    files: FileServer
    protocol_version = "HTTP/1.1"
    timeout = SECONDS
    server_version, sys_version = "files", ""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base
        """Print nothing."""

    def do_GET(self) -> None:
        behaviour, data = self.files.behaves(self.command)
        moved = self.path == f"/moved{self.files.path}"
        if self.path != self.files.path and not (moved and behaviour == "redirect"):
            behaviour = "not-found"
        if moved and behaviour == "redirect":
            behaviour = "ranges"
        if behaviour == "closed":
            self._log(0, 0)
            self._hang_up()
        elif behaviour in ("unavailable", "not-found", "error-page"):
            status = {"unavailable": 503, "not-found": 404, "error-page": 200}[behaviour]
            self._send(status, PAGE, {"Content-Type": "text/html"})
        elif behaviour in ("redirect", "redirect-loop"):
            prefix = "/moved" if behaviour == "redirect" else ""
            self._send(302, b"", {"Location": prefix + self.files.path})
        elif self.command == "HEAD" and behaviour == "no-head":
            self._send(405, b"", {"Allow": "GET"})
        elif self.command == "HEAD" and behaviour == "head-forbidden":
            self._send(403, b"", {})
        else:
            self._file(behaviour, data)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server requires

    def _file(self, behaviour: Behaviour, data: bytes) -> None:
        fields = {
            "Content-Type": "application/octet-stream",
            "ETag": f'"{hashlib.sha256(data).hexdigest()[:32]}"',
        }
        if behaviour not in ("no-ranges", "gzip-whole"):
            fields["Accept-Ranges"] = "bytes"
        requested = None if self.command == "HEAD" else _range(self.headers.get("Range", ""))
        if behaviour == "gzip-whole" and self.command == "GET":
            self._send(200, gzip.compress(data, mtime=0), {**fields, "Content-Encoding": "gzip"})
        elif requested is None or behaviour == "no-ranges":
            self._send(200, data, fields, chunked=behaviour == "chunked")
        elif requested[0] >= len(data) or behaviour == "status-416":
            self._send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
        else:
            self._part(behaviour, data, requested[0], min(requested[1], len(data) - 1), fields)

    def _part(self, behaviour: Behaviour, data: bytes, first: int, last: int, fields: dict[str, str]) -> None:
        half = first + (last - first) // 2
        declared = {
            "short": (first, half),
            "long": (first, min(last + MORE, len(data) - 1)),
            "shifted": (min(first + SHIFT, len(data) - 1), min(last + SHIFT, len(data) - 1)),
            "from-start": (0, last - first),
        }.get(behaviour, (first, last))
        total = {
            "unknown-total": "*",
            "other-total": str(len(data) + SHIFT),
            "total-too-small": str(len(data) - SHIFT),
        }.get(behaviour, str(len(data)))
        content_range = f"bytes {declared[0]}-{declared[1]}/{total}"
        end = {"short-unsaid": half, "long-unsaid": last + MORE}.get(behaviour, declared[1])
        body = data[declared[0] : end + 1]
        if behaviour == "multipart":
            head = (
                f"--{_BOUNDARY}\r\nContent-Type: application/octet-stream\r\n"
                f"Content-Range: {content_range}\r\n\r\n"
            )
            body = head.encode() + body + f"\r\n--{_BOUNDARY}--\r\n".encode()
            fields["Content-Type"] = f"multipart/byteranges; boundary={_BOUNDARY}"
        else:
            fields["Content-Range"] = content_range
        if behaviour == "gzip":
            body = gzip.compress(body, mtime=0)
            fields["Content-Encoding"] = "gzip"
        cut = (len(body) + 1) // 2 if behaviour == "cut" else None
        self._send(206, body, fields, chunked=behaviour == "chunked", cut=cut)

    def _send(
        self,
        status: int,
        body: bytes,
        fields: dict[str, str],
        *,
        chunked: bool = False,
        cut: int | None = None,
    ) -> None:
        sent = b"" if self.command == "HEAD" else body if cut is None else body[:cut]
        # Log the request before sending, because a client that has the response may read the log.
        self._log(status, len(sent))
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        if chunked and self.command == "GET":
            self.send_header("Transfer-Encoding", "chunked")
            half = len(sent) // 2
            pieces = [piece for piece in (sent[:half], sent[half:]) if piece]
            sent = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        else:
            self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(sent)
        if cut is not None:
            self._hang_up()

    def _log(self, status: int, size: int) -> None:
        self.files.log.append(LoggedRequest(self.command, self.headers.get("Range", ""), status, size))

    def _hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)


def _range(text: str) -> tuple[int, int] | None:
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        return None
    first, last = int(match[1]), int(match[2] or 1 << 62)
    return (first, last) if first <= last else None
