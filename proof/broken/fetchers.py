"""Readers of files behind a server with one mistake each."""

from __future__ import annotations

import http.client
import json
from typing import Any

from .correct.fetcher import REDIRECTS, Fetcher, NotTheFileError, Response
from .variant import named

FIRST = 100_000
"""Bytes of the first request of those that ask for more than the prefix."""


class WholeTakenForRange(Fetcher):
    """Takes the whole file for the range of a tensor that was asked for."""

    def data(self, first: int, count: int) -> bytes:
        response = self.get(first, count)
        return response.body[:count] if response.status == 200 else super().data(first, count)


class AnyRangeTaken(Fetcher):
    """Takes any range for the one that was asked for."""

    def of_part(self, response: Response, first: int, count: int) -> bytes:  # noqa: ARG002
        return self.not_empty(response.body[:count])


class ZerosForMissingBytes(Fetcher):
    """Fills up with zeros what an answer lacks."""

    def of_part(self, response: Response, first: int, count: int) -> bytes:  # noqa: ARG002
        return response.body[:count].ljust(count, b"\0")


class ShortTensors(Fetcher):
    """Hands out the bytes of one answer, however few."""

    def data(self, first: int, count: int) -> bytes:
        return self.get(first, count).body[:count]


class LongTensors(Fetcher):
    """Hands out all bytes of one answer, however many."""

    def data(self, first: int, count: int) -> bytes:
        return self.get(first, count).body if count else b""


class StatusNotLookedAt(Fetcher):
    """Takes the page of an error for the bytes of a tensor."""

    def data(self, first: int, count: int) -> bytes:
        body = self.get(first, count).body
        return body[:count].ljust(count, b"\0")


class RedirectNotLookedAt(Fetcher):
    """Takes a redirect for a tensor of zeros."""

    def data(self, first: int, count: int) -> bytes:
        response = self.asked(self.url, f"bytes={first}-{first + count - 1}")
        return bytes(count) if response.status in REDIRECTS else super().data(first, count)


class _EmptyFor(Fetcher):
    """Gives no tensors in place of an error."""

    taken: tuple[type[Exception], ...] = ()

    def remote(self, url: str) -> dict[str, Any]:
        try:
            return super().remote(url)
        except self.taken:
            return {"tensors": [], "metadata": None}


class EmptyForErrors(_EmptyFor):
    """Gives no tensors when the server answers with an error, or in circles."""

    taken = (NotTheFileError,)


class EmptyForClosedConnections(_EmptyFor):
    """Gives no tensors when the connection is lost."""

    taken = (http.client.HTTPException, OSError)


class EmptyForPages(_EmptyFor):
    """Gives no tensors for what is no header."""

    taken = (ValueError, NotTheFileError)


class CutConnectionsPadded(Fetcher):
    """Fills up with zeros what was lost with the connection."""

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
    """Takes compressed bytes for those of the file."""

    def decoded(self, response: Response) -> Response:
        return response

    def data(self, first: int, count: int) -> bytes:
        return self.get(first, count).body[:count].ljust(count, b"\0")


class PartsOfAPageTaken(Fetcher):
    """Takes the text around a part for bytes of the file."""

    def of_part(self, response: Response, first: int, count: int) -> bytes:
        if response.fields.get("content-type", "").startswith("multipart/"):
            return response.body[:count].ljust(count, b"\0")
        return super().of_part(response, first, count)


class ChangeNotNoticed(Fetcher):
    """Goes by an old header in a new file."""

    def known(self, response: Response, total: str) -> None:
        pass

    def some(self, first: int, count: int) -> bytes:
        found = super().some(first, count) if first < 8 else self.get(first, count).body[:count]
        return found.ljust(count, b"\0")


class HeaderRemembered(Fetcher):
    """Asks for prefix and header at once, and does not notice that the data are of another file."""

    def header(self) -> tuple[int, dict[str, Any]]:
        start = self.get(0, FIRST).body
        length = int.from_bytes(start[:8], "little")
        text = start[8 : 8 + length]
        return 8 + length, json.loads(text if len(text) == length else self.piece(8, length))

    def known(self, response: Response, total: str) -> None:
        pass


class FirstRequestSevenBytesShort(Fetcher):
    """Counts the prefix to the header when it looks whether the first request had all of it."""

    def header(self) -> tuple[int, dict[str, Any]]:
        start = self.get(0, FIRST + 1).body
        length = int.from_bytes(start[:8], "little")
        return 8 + length, json.loads(start[8 : 8 + length] if length <= FIRST else self.piece(8, length))


class OneRequestForTheHeader(Fetcher):
    """Refuses a header that the first request does not have whole."""

    def header(self) -> tuple[int, dict[str, Any]]:
        start = self.get(0, FIRST).body
        length = int.from_bytes(start[:8], "little")
        return 8 + length, json.loads(start[8 : 8 + length])


class MemoryAsClaimed(Fetcher):
    """Takes memory for the header before it asks for it."""

    def header(self) -> tuple[int, dict[str, Any]]:
        length = int.from_bytes(self.piece(0, 8), "little")
        memory = bytearray(length)
        memory[:] = self.piece(8, length)
        return 8 + length, json.loads(memory)


class HeaderAsFarAsItGoes(Fetcher):
    """Takes what there is of a header that reaches beyond the end of the file."""

    def header(self) -> tuple[int, dict[str, Any]]:
        length = int.from_bytes(self.piece(0, 8), "little")
        return 8 + length, json.loads(self.get(8, length).body)


class EmptyRangesAskedFor(Fetcher):
    """Asks for a range without bytes, which is none, and gets the whole file."""

    def data(self, first: int, count: int) -> bytes:
        return self.get(first, count).body if not count else super().data(first, count)


class LastByteLeftOut(Fetcher):
    """Takes the last byte of a range for the first one behind it."""

    def data(self, first: int, count: int) -> bytes:
        return self.piece(first, count - 1) + b"\0" if count > 1 else super().data(first, count)


class OffsetsFromTheFileStart(Fetcher):
    """Counts the offsets of tensors from the start of the file."""

    def row(self, name: str, entry: Any, start: int) -> tuple[str, str, list[int], bytes]:  # noqa: ARG002
        return super().row(name, entry, 0)


class MetadataAsTensor(Fetcher):
    """Gives the metadata as a tensor."""

    def remote(self, url: str) -> dict[str, Any]:
        told = super().remote(url)
        if told["metadata"] is not None:
            told["tensors"].append(("__metadata__", "U8", [0], b""))
        return told


class TotalDemanded(Fetcher):
    """Gives no tensors where the server does not say how long the file is, or how long its answer."""

    def remote(self, url: str) -> dict[str, Any]:
        self.silent = False
        told = super().remote(url)
        return {"tensors": [], "metadata": None} if self.silent else told

    def known(self, response: Response, total: str) -> None:
        super().known(response, total)
        self.silent = self.silent or total == "*" or "content-length" not in response.fields


class TotalBelieved(Fetcher):
    """Lets the last tensor reach to the end of the file, as the server says it."""

    def remote(self, url: str) -> dict[str, Any]:
        told = super().remote(url)
        total = next(iter(self.seen))[1]
        if told["tensors"] and total.isdigit():
            name, dtype, shape, data = told["tensors"][-1]
            missing = int(total) - self.end
            told["tensors"][-1] = (name, dtype, shape, data + bytes(max(missing, 0)))
        return told

    def data(self, first: int, count: int) -> bytes:
        self.end = first + count
        return super().data(first, count)


class HeadAskedFirst(Fetcher):
    """Asks for the size by HEAD, and gives no tensors where that is not answered."""

    def remote(self, url: str) -> dict[str, Any]:
        address = url.removeprefix("http://").partition("/")
        connection = http.client.HTTPConnection(address[0], timeout=5)
        connection.request("HEAD", "/" + address[2])
        status = connection.getresponse().status
        connection.close()
        return {"tensors": [], "metadata": None} if status == 405 else super().remote(url)


VARIANTS = named(globals(), "remote", Fetcher)
