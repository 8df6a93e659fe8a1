"""A small and correct reader of a file on a server. Every step is a method, so that a variant can break it.

It requests the length prefix, the header and each tensor, and accepts a response only if the response states
that it contains the requested range.
"""

from __future__ import annotations

import http.client
import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from .writer import RESERVED

SECONDS = 5.0
REDIRECTS = (301, 302, 303, 307, 308)
_WHERE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


class NotTheFileError(Exception):
    """The response does not contain the requested range of the file."""


@dataclass(frozen=True)
class Response:
    """A response of the server. The names in ``fields`` are in lower case."""

    status: int
    fields: dict[str, str]
    body: bytes

    def where(self) -> tuple[int, int, str]:
        """Return the first byte, the last byte and the total from Content-Range. Raises NotTheFileError."""
        found = _WHERE.fullmatch(self.fields.get("content-range", ""))
        if found is None:
            raise NotTheFileError("the response does not say which range it contains")
        return int(found[1]), int(found[2]), found[3]


class Fetcher:
    """Reads each tensor with a range request."""

    most_redirects = 5

    def remote(self, url: str) -> dict[str, Any]:
        """Return the tensors and the metadata.

        Raises NotTheFileError, OSError, HTTPException and ValueError.
        """
        self.url = url
        self.seen: set[tuple[str, str]] = set()
        start, header = self.header()
        metadata = header.pop(RESERVED, None)
        rows = [self.row(name, entry, start) for name, entry in header.items()]
        return {"tensors": rows, "metadata": metadata}

    def header(self) -> tuple[int, dict[str, Any]]:
        length = int.from_bytes(self.piece(0, 8), "little")
        return 8 + length, json.loads(self.piece(8, length))

    def row(self, name: str, entry: Any, start: int) -> tuple[str, str, list[int], bytes]:
        begin, end = entry["data_offsets"]
        return name, entry["dtype"], entry["shape"], self.data(start + begin, end - begin)

    def data(self, first: int, count: int) -> bytes:
        return self.piece(first, count) if count else b""

    def piece(self, first: int, count: int) -> bytes:
        out = b""
        while len(out) < count:
            out += self.some(first + len(out), count - len(out))
        return out

    def some(self, first: int, count: int) -> bytes:
        response = self.get(first, count)
        if response.status == 200:
            return self.of_whole(response, first, count)
        if response.status == 206:
            return self.of_part(response, first, count)
        raise NotTheFileError(f"status {response.status}")

    def of_whole(self, response: Response, first: int, count: int) -> bytes:
        self.known(response, str(len(response.body)))
        return self.not_empty(response.body[first : first + count])

    def of_part(self, response: Response, first: int, count: int) -> bytes:
        """Return the requested bytes that a partial response contains."""
        begin, last, total = response.where()
        if begin != first or len(response.body) != last + 1 - begin:
            raise NotTheFileError("another range")
        self.known(response, total)
        return self.not_empty(response.body[:count])

    def not_empty(self, data: bytes) -> bytes:
        """Reject a response without bytes."""
        if not data:
            raise NotTheFileError("the file ends earlier")
        return data

    def known(self, response: Response, total: str) -> None:
        """Reject a response from a file that has changed since the first response."""
        self.seen.add((response.fields.get("etag", ""), total))
        if len(self.seen) > 1:
            raise NotTheFileError("the file has changed")

    def get(self, first: int, count: int) -> Response:
        """Request a range, and follow redirects."""
        url = self.url
        for _ in range(self.most_redirects):
            response = self.asked(url, f"bytes={first}-{first + count - 1}")
            if response.status not in REDIRECTS:
                return self.decoded(response)
            url = urljoin(url, response.fields["location"])
        raise NotTheFileError("too many redirects")

    def decoded(self, response: Response) -> Response:
        """Reject content codings, because the request asked for none."""
        if response.fields.get("content-encoding", "identity") != "identity":
            raise NotTheFileError("the response is compressed")
        return response

    def asked(self, url: str, which: str) -> Response:
        address = urlsplit(url)
        connection = http.client.HTTPConnection(address.netloc, timeout=SECONDS)
        try:
            connection.request("GET", address.path, headers={"Range": which})
            answer = connection.getresponse()
            fields = {name.lower(): value for name, value in answer.getheaders()}
            return Response(answer.status, fields, answer.read())
        finally:
            connection.close()
