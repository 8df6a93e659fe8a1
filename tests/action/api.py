"""The three calls of the service's API that the action makes, on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..reference.files.web import Tree, serve


@dataclass
class Api:
    """Comments of one pull request, ``me/mylib#7``.

    ``raw`` is sent in place of every answer.
    """

    token: str
    comments: list[dict[str, Any]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    raw: bytes = b""
    url: str = ""

    def answer(self, method: str, target: str, token: str, body: Any) -> tuple[int, Any]:
        self.calls.append(f"{method} {target}")
        if token != f"Bearer {self.token}":
            return 401, {"message": "Bad credentials"}
        url = urlsplit(target)
        if method == "GET" and url.path == "/repos/me/mylib/issues/7/comments":
            query = {k: int(v[0]) for k, v in parse_qs(url.query).items()}
            size, page = min(query.get("per_page", 30), 100), query.get("page", 1)
            return 200, self.comments[size * (page - 1) : size * page]
        if method == "POST" and url.path == "/repos/me/mylib/issues/7/comments":
            return 201, self.add(body["body"])
        match = re.fullmatch(r"/repos/me/mylib/issues/comments/(\d+)", url.path)
        if method == "PATCH" and match:
            for comment in self.comments:
                if comment["id"] == int(match[1]):
                    comment["body"] = body["body"]
                    return 200, comment
        return 404, {"message": "Not Found"}

    def add(self, body: str, kind: str = "Bot") -> dict[str, Any]:
        self.comments.append({"id": 1000 + len(self.comments), "body": body, "user": {"type": kind}})
        return self.comments[-1]


@contextmanager
def served(token: str) -> Iterator[Api]:
    api = Api(token)

    class Handler(Tree):
        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, answer = api.answer(self.command, self.path, self.headers["Authorization"], body)
            if api.raw:
                self.close_connection = True
                self.wfile.write(api.raw)
                return
            data = json.dumps(answer).encode()
            self.send(status, data)
            if self.command != "GET":  # for which it was sent
                self.wfile.write(data)

        do_GET = do_POST = do_PATCH = handle_any  # noqa: N815 - the names that the server asks for

    with serve(Handler) as api.url:
        yield api
