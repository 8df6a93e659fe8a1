"""Builder for a file on an HTTP server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import recipe
from ..server import Behaviour
from .file import FileBuilder


@dataclass
class RemoteBuilder(FileBuilder):
    """A file and a server behaviour. The server answers the first ``after`` GET requests correctly."""

    server: Behaviour = "ranges"
    after: int = 0
    _other: FileBuilder | None = None

    def changes_to(self, other: FileBuilder) -> None:
        """Serve another file after the first request."""
        self.server, self.after, self._other = "changed", 1, other

    def content(self, option: str | None = None) -> dict[str, Any]:
        if option == "new" and self._other is not None:
            return self._other.content()
        return super().content(option)

    def action(self) -> dict[str, Any]:
        out: dict[str, Any] = {"do": "remote", "server": self.server}
        if self.after:
            out["after"] = self.after
        if self._other is not None:
            out["bytes"] = recipe.from_bytes(self._other.render())
        return out
