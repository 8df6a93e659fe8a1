"""Readers of files on a server, each with one mistake."""

from __future__ import annotations

import http.client
import json
from typing import Any

from .correct.fetcher import REDIRECTS, Fetcher, NotTheFileError, Response
from .variant import named

FIRST = 100_000
"""Number of bytes in the first request of the readers that request more than the prefix."""


class WholeTakenForRange(Fetcher):
    """Uses the first bytes of the whole file as the requested range of a tensor."""

    def data(self, first: int, count: int) -> bytes:
        response = self.get(first, count)
        return response.body[:count] if response.status == 200 else super().data(first, count)


class AnyRangeTaken(Fetcher):
    """Accepts any range as the requested range."""

    def of_part(self, response: Response, first: int, count: int) -> bytes:  # noqa: ARG002
        return self.not_empty(response.body[:count])


class ZerosForMissingBytes(Fetcher):
    """Returns zeros for bytes that are missing from a response."""

    def of_part(self, response: Response, first: int, count: int) -> bytes:  # noqa: ARG002
        return response.body[:count].ljust(count, b"\0")


class ShortTensors(Fetcher):
    """Returns the bytes of one response even if they are too few."""

    def data(self, first: int, count: int) -> bytes:
        return self.get(first, count).body[:count]


class LongTensors(Fetcher):
    """Returns all bytes of one response even if they are too many."""

    def data(self, first: int, count: int) -> bytes:
        return self.get(first, count).body if count else b""


class StatusNotLookedAt(Fetcher):
    """Returns the content of an error page as the bytes of a tensor."""

    def data(self, first: int, count: int) -> bytes:
        body = self.get(first, count).body
        return body[:count].ljust(count, b"\0")


class RedirectNotLookedAt(Fetcher):
    """Returns a tensor of zeros for a redirect."""

    def data(self, first: int, count: int) -> bytes:
        response = self.asked(self.url, f"bytes={first}-{first + count - 1}")
        return bytes(count) if response.status in REDIRECTS else super().data(first, count)


class _EmptyFor(Fetcher):
    """Returns no tensors instead of an error."""

    taken: tuple[type[Exception], ...] = ()

    def remote(self, url: str) -> dict[str, Any]:
        try:
            return super().remote(url)
        except self.taken:
            return {"tensors": [], "metadata": None}


class EmptyForErrors(_EmptyFor):
    """Returns no tensors if the server responds with an error or with a redirect loop."""

    taken = (NotTheFileError,)


class EmptyForClosedConnections(_EmptyFor):
    """Returns no tensors if the connection is lost."""

    taken = (http.client.HTTPException, OSError)


class EmptyForPages(_EmptyFor):
    """Returns no tensors if the response is not a header."""

    taken = (ValueError, NotTheFileError)


class CutConnectionsPadded(Fetcher):
    """Returns zeros for bytes that were lost with the connection."""

    def asked(self, url: str, which: str) -> Response:
        try:
            return super().asked(url, which)
        except http.client.IncompleteRead as err:
            first, last = map(int, which.removeprefix("bytes=").split("-"))
            fields = {"content-range": f"bytes {first}-{last}/*"}
            return Response(206, fields, err.partial.ljust(last + 1 - first, b"\0"))

    def known(self, response: Response, total: str) -> None:
        pass


class CompressedBytesTaken(Fetcher):
    """Returns compressed bytes as the bytes of the file."""

    def decoded(self, response: Response) -> Response:
        return response

    def data(self, first: int, count: int) -> bytes:
        return self.get(first, count).body[:count].ljust(count, b"\0")


class PartsOfAPageTaken(Fetcher):
    """Returns the text around a part of a multipart response as bytes of the file."""

    def of_part(self, response: Response, first: int, count: int) -> bytes:
        if response.fields.get("content-type", "").startswith("multipart/"):
            return response.body[:count].ljust(count, b"\0")
        return super().of_part(response, first, count)


class ChangeNotNoticed(Fetcher):
    """Uses an old header to read a file that has changed."""

    def known(self, response: Response, total: str) -> None:
        pass

    def some(self, first: int, count: int) -> bytes:
        found = super().some(first, count) if first < 8 else self.get(first, count).body[:count]
        return found.ljust(count, b"\0")


class HeaderRemembered(Fetcher):
    """Requests the prefix and the header together, and does not notice that the file has changed."""

    def header(self) -> tuple[int, dict[str, Any]]:
        start = self.get(0, FIRST).body
        length = int.from_bytes(start[:8], "little")
        text = start[8 : 8 + length]
        return 8 + length, json.loads(text if len(text) == length else self.piece(8, length))

    def known(self, response: Response, total: str) -> None:
        pass


class FirstRequestSevenBytesShort(Fetcher):
    """Counts the prefix as part of the header when it checks that the first request returned all of it."""

    def header(self) -> tuple[int, dict[str, Any]]:
        start = self.get(0, FIRST + 1).body
        length = int.from_bytes(start[:8], "little")
        return 8 + length, json.loads(start[8 : 8 + length] if length <= FIRST else self.piece(8, length))


class OneRequestForTheHeader(Fetcher):
    """Rejects a header that the first request does not return completely."""

    def header(self) -> tuple[int, dict[str, Any]]:
        start = self.get(0, FIRST).body
        length = int.from_bytes(start[:8], "little")
        return 8 + length, json.loads(start[8 : 8 + length])


class MemoryAsClaimed(Fetcher):
    """Allocates memory for the header before it requests the header."""

    def header(self) -> tuple[int, dict[str, Any]]:
        length = int.from_bytes(self.piece(0, 8), "little")
        memory = bytearray(length)
        memory[:] = self.piece(8, length)
        return 8 + length, json.loads(memory)


class HeaderAsFarAsItGoes(Fetcher):
    """Accepts the existing part of a header that extends beyond the end of the file."""

    def header(self) -> tuple[int, dict[str, Any]]:
        length = int.from_bytes(self.piece(0, 8), "little")
        return 8 + length, json.loads(self.get(8, length).body)


class EmptyRangesAskedFor(Fetcher):
    """Requests an empty range, which does not exist in HTTP, and returns the whole file that it receives."""

    def data(self, first: int, count: int) -> bytes:
        return self.get(first, count).body if not count else super().data(first, count)


class LastByteLeftOut(Fetcher):
    """Treats the last byte of a range as the first byte after it."""

    def data(self, first: int, count: int) -> bytes:
        return self.piece(first, count - 1) + b"\0" if count > 1 else super().data(first, count)


class OffsetsFromTheFileStart(Fetcher):
    """Counts the offsets of tensors from the start of the file."""

    def row(self, name: str, entry: Any, start: int) -> tuple[str, str, list[int], bytes]:  # noqa: ARG002
        return super().row(name, entry, 0)


class MetadataAsTensor(Fetcher):
    """Returns the metadata as a tensor."""

    def remote(self, url: str) -> dict[str, Any]:
        told = super().remote(url)
        if told["metadata"] is not None:
            told["tensors"].append(("__metadata__", "U8", [0], b""))
        return told


class TotalDemanded(Fetcher):
    """Returns no tensors if the server does not give the length of the file or of the response."""

    def remote(self, url: str) -> dict[str, Any]:
        self.silent = False
        told = super().remote(url)
        return {"tensors": [], "metadata": None} if self.silent else told

    def known(self, response: Response, total: str) -> None:
        super().known(response, total)
        self.silent = self.silent or total == "*" or "content-length" not in response.fields


class TotalBelieved(Fetcher):
    """Extends or cuts the last tensor to the end of the file that the server reports."""

    def remote(self, url: str) -> dict[str, Any]:
        told = super().remote(url)
        total = next(iter(self.seen))[1]
        if told["tensors"] and total.isdigit():
            name, dtype, shape, data = told["tensors"][-1]
            size = max(len(data) + int(total) - self.end, 0)
            told["tensors"][-1] = (name, dtype, shape, data[:size].ljust(size, b"\0"))
        return told

    def data(self, first: int, count: int) -> bytes:
        self.end = first + count
        return super().data(first, count)


class HeadAskedFirst(Fetcher):
    """Requests the size with HEAD, and returns no tensors if the server does not support that."""

    def remote(self, url: str) -> dict[str, Any]:
        address = url.removeprefix("http://").partition("/")
        connection = http.client.HTTPConnection(address[0], timeout=5)
        connection.request("HEAD", "/" + address[2])
        status = connection.getresponse().status
        connection.close()
        return {"tensors": [], "metadata": None} if status >= 400 else super().remote(url)


VARIANTS = named(globals(), "remote", Fetcher)
