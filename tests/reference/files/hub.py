"""The few calls of the Hub that reading headers takes, and plain files with ranges, on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from .web import Tree, serve

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
    sent: int = 0
    """Bytes of files that were sent."""

    def answer(self, method: str, target: str, span: str | None) -> tuple[int, dict[str, str], bytes]:
        path = unquote(urlsplit(target).path)
        self.calls.append(f"{method} {path} {span or ''}".strip())
        if path.startswith(f"/api/models/{REPO}/tree/"):
            return self._json(self._tree()) if self.tree is None else (200, {}, self.tree)
        if path in (f"/api/models/{REPO}", f"/api/models/{REPO}/revision/main"):
            return self._json({"id": REPO, "sha": COMMIT, "siblings": []})
        match = re.fullmatch(rf"/{REPO}/resolve/[^/]+/(.+)", path) or re.fullmatch("/plain/(.+)", path)
        name = match[1] if match else ""
        if name in self.failing:
            return self.failing[name], {}, b""
        if name not in self.files:
            return 404, {"X-Error-Code": "EntryNotFound"}, b""
        return self._file(self.files[name], span if self.ranges else None, method)

    def _json(self, value: Any) -> tuple[int, dict[str, str], bytes]:
        return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()

    def _tree(self) -> list[dict[str, Any]]:
        folders = {name.rpartition("/")[0] for name in self.files} - {""}
        out: list[dict[str, Any]] = [
            {"type": "directory", "path": path, "oid": COMMIT, "size": 0} for path in sorted(folders)
        ]
        return out + [
            {"type": "file", "path": name, "size": len(data), "oid": COMMIT}
            for name, data in self.files.items()
        ]

    def _file(self, data: bytes, span: str | None, method: str) -> tuple[int, dict[str, str], bytes]:
        headers = {"Accept-Ranges": "bytes" if self.ranges else "none", "ETag": f'"{COMMIT}"'}
        if span is None:
            if method == "GET":
                self.sent += len(data)
            return 200, headers, data
        first, _, last = span.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(data) - 1) + 1, len(data))
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        self.sent += end - start
        return 206, headers, data[start:end]


@contextmanager
def served() -> Iterator[Hub]:
    hub = Hub()

    class Handler(Tree):
        def answer(self) -> None:
            status, headers, body = hub.answer(self.command, self.path, self.headers["Range"])
            self.send(status, body, headers)

    with serve(Handler) as url:
        hub.url = url
        yield hub
