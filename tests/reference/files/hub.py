"""The few calls of the Hub that reading headers takes, and plain files with ranges, on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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
