"""Reads files and pages with links over HTTP, enforcing limits and checking every redirect."""

from __future__ import annotations

import asyncio
import html
import re
import weakref
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from .names import FileInput
from .reading import LARGEST, Fetcher, FileRange, Head, NotReadError, TransientError, bytes_needed, time_for

REDIRECTS = 5
REDIRECT = (301, 302, 303, 307, 308)
RETRYABLE = (408, 425, 429, 500, 502, 503, 504)
PUBLIC_FIELDS = ("user-agent",)
"""Configured header fields that may be sent to another origin. Any other field may contain a secret."""
ROUTE_OPTIONS = ("proxy", "proxy_auth", "proxy_headers", "ssl")
"""Configured options that apply to every host."""
PAGE = 64 << 20
USUAL_PAGE = 8 << 20
"""Typical size of a page of links in bytes, which determines the time limit for a page."""
MAX_ADDRESS = 2048
_LINK = re.compile(
    rf"href\s{{0,9}}=\s{{0,9}}[\"']([^\"'<>]{{1,{MAX_ADDRESS + 1}}})"
    rf"|(https?://[-\w@:%+.~#?&/=]{{1,{MAX_ADDRESS + 1}}})",
    re.IGNORECASE,
)
_CONTENT_RANGE = re.compile(r"bytes \s*([0-9]{1,19})\s*-\s*([0-9]{1,19})\s*/\s*([0-9]{1,19})\s*")


class RequestTarget(NamedTuple):
    """Address of a request, and of the one before any redirect."""

    url: str
    first: str
    home: bool = True  # whether no redirect led to another origin


class Web:
    """Sends requests with the settings of ``fs``, and ``headers`` to the origin of the first address only."""

    def __init__(self, fs: Any, headers: Mapping[str, str] | None = None) -> None:
        self.fs, self.headers = fs, dict(headers or {})
        self._bare: Any = None
        self._host_scopes: dict[str, int] = {}

    @asynccontextmanager
    async def get(
        self, place: RequestTarget, fields: Mapping[str, str], count: int
    ) -> AsyncIterator[tuple[Any, RequestTarget]]:
        """Follow redirects and yield the response and its address. Network errors become NotReadError."""
        import aiohttp

        seconds = time_for(count)
        try:
            async with asyncio.timeout(seconds):
                for _ in range(REDIRECTS + 1):
                    async with await self._send(place, fields) as answer:
                        if answer.status not in REDIRECT or "Location" not in answer.headers:
                            yield answer, place
                            return
                        location = answer.headers["Location"]
                    place = await self._follow(place, location)
                raise NotReadError("unreachable", "too many redirects")
        except TimeoutError as err:  # no retry, because other requests are waiting
            raise NotReadError("unreachable", f"no complete response within {seconds:,.0f} s") from err
        except (aiohttp.InvalidURL, ValueError) as err:
            raise NotReadError("unreachable", f"invalid redirect: {type(err).__name__}") from err
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as err:
            raise TransientError("unreachable", f"{type(err).__name__}: {err}") from err

    async def _send(self, place: RequestTarget, fields: Mapping[str, str]) -> Any:
        import aiohttp

        options = dict(self.fs.kwargs)
        headers = {**options.pop("headers", {}), **self.headers}
        session = await self.fs.set_session()
        if not place.home:
            session = await self._bare_session()
            options = {name: options[name] for name in ROUTE_OPTIONS if name in options}
            headers = {name: value for name, value in headers.items() if name.lower() in PUBLIC_FIELDS}
        options |= {"headers": {**headers, **fields}, "timeout": aiohttp.ClientTimeout(total=None)}
        return await session.get(place.url, allow_redirects=False, **options)

    async def _bare_session(self) -> Any:
        import aiohttp

        if self._bare is None:
            trust = bool(self.fs.client_kwargs.get("trust_env"))
            self._bare = await client(trust_env=trust, cookie_jar=aiohttp.DummyCookieJar())
            weakref.finalize(self, self.fs.close_session, self.fs.loop, self._bare)
        return self._bare

    async def _follow(self, place: RequestTarget, location: str) -> RequestTarget:
        """Return the target of a redirect. Raises NotReadError if the redirect must not be followed."""
        from yarl import URL

        here = URL(place.url)
        target = here.join(URL(location))
        if target.scheme not in ("http", "https") or not target.host:
            text = f"redirected to an address that must not be followed: {location[:80]!r}"
            raise NotReadError("unreachable", text)
        if target.origin() == here.origin():
            return place._replace(url=str(target))
        first = URL(place.first).host or ""
        if await self._host_scope(target.host) > await self._host_scope(first):
            raise NotReadError("unreachable", f"redirected to a private address: {target.host[:80]!r}")
        return RequestTarget(str(target), place.first, home=False)

    async def _host_scope(self, host: str) -> int:
        if host not in self._host_scopes:
            if len(self._host_scopes) > 1000:
                self._host_scopes.clear()
            try:
                results = await asyncio.get_running_loop().getaddrinfo(host, None)
            except (OSError, UnicodeError):  # either connecting will fail too, or a proxy resolves the name
                return 0
            self._host_scopes[host] = max(network_scope(str(result[4][0])) for result in results)
        return self._host_scopes[host]

    async def links(self, address: str) -> tuple[list[str], bool]:
        """Return the links of a page to addresses below it, and whether any was too long."""
        fields = {"Accept-Encoding": "identity"}
        data = bytearray()
        async with self.get(RequestTarget(address, address), fields, USUAL_PAGE) as (answer, _):
            check_status(answer)
            if answer.status != 200:
                raise NotReadError("unreadable", f"status {answer.status}")
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                text = "the page is compressed, although the request did not allow it"
                raise NotReadError("unreadable", text)
            kind = answer.headers.get("Content-Type", "text/html").partition(";")[0].strip().lower()
            if kind != "text/html":
                raise NotReadError("unreadable", "the page is not HTML")
            async for block in answer.content.iter_chunked(1 << 16):
                data += block
                if len(data) > PAGE:
                    raise NotReadError("unreadable", f"the page has more than {PAGE:,} bytes")
        return links_below(address, data.decode("utf-8", "ignore"))


class WebFetcher(Fetcher):
    """Reads ranges over HTTP. Unlike the file system of fsspec, it checks each response (NET-01)."""

    def __init__(self, web: Web) -> None:
        self.web = web
        self._redirected: dict[str, RequestTarget] = {}

    async def part(self, item: FileInput, start: int, count: int) -> FileRange:
        place = RequestTarget(item.path, item.path)
        if start:  # use the address to which the first request was redirected
            place = self._redirected.pop(item.path, place)
        fields = {"Range": f"bytes={start}-{start + count - 1}", "Accept-Encoding": "identity"}
        async with self.web.get(place, fields, count) as (answer, target):
            part = await _read_range(answer, start, count)
            if target != place and start == 0 and bytes_needed(part.data, part.size) > len(part.data):
                self._redirected[item.path] = target
            return part
        raise AssertionError

    async def is_unchanged(self, item: FileInput, head: Head) -> bool:
        if not head.size:
            return True
        part = await self.part(item, head.size - 1, 1)
        return part.size == head.size and part.tag in (head.tag, item.tag, "")


async def _read_range(answer: Any, start: int, count: int) -> FileRange:
    status, fields = answer.status, answer.headers
    check_status(answer)
    content_range = fields.get("Content-Range", "")
    if status == 416 and content_range == "bytes */0":
        return FileRange(b"", 0, fields.get("ETag", "").strip('"'))
    if status in (200, 416):
        text = f"status {status} for a range request: the server sends only whole files"
        raise NotReadError("no-ranges", text)
    if status != 206:
        raise NotReadError("unreachable", f"status {status}")
    parts = "multipart" in fields.get("Content-Type", "")
    if parts or fields.get("Content-Encoding", "identity") != "identity":
        raise NotReadError("no-ranges", "the response is compressed or has several parts")
    first, last, size = _parse_content_range(content_range)
    if first != start or last != min(start + count, size) - 1:
        requested = f"bytes {start}-{start + count - 1} were requested"
        text = f"the response has Content-Range {content_range[:80]}, but {requested}"
        raise NotReadError("no-ranges", text)
    data = await answer.content.readexactly(last - first + 1)
    if await answer.content.read(1):
        raise NotReadError("no-ranges", "the response has more bytes than requested")
    tag = fields.get("ETag") or fields.get("Last-Modified") or ""
    return FileRange(data, size, tag.strip('"'))


def _parse_content_range(text: str) -> tuple[int, int, int]:
    found = _CONTENT_RANGE.fullmatch(text)
    if found is None:
        raise NotReadError("no-ranges", f"Content-Range {text[:80]!r} does not give a byte range")
    first, last, size = map(int, found.groups())
    if size > LARGEST:
        raise NotReadError("no-ranges", f"Content-Range {text[:80]!r} contains an impossible file size")
    return first, last, size


def links_below(address: str, text: str) -> tuple[list[str], bool]:
    links: set[str] = set()
    long = False
    inside = _without_tls(address)
    for match in _LINK.finditer(text):
        link = html.unescape(match[1] or match[2])
        try:
            target = urldefrag(urljoin(address, link)).url
            if not _without_tls(target).startswith(inside) or target == address:
                continue
            # A server may decode "%2e%2e" into "..".
            escapes = ".." in unquote(urlsplit(target).path).split("/")
        except ValueError:  # not a valid address
            continue
        if len(target) > MAX_ADDRESS:
            long = True
        elif not escapes:
            links.add(target)
    return sorted(links), long


def _without_tls(address: str) -> str:
    return address.replace("https://", "http://", 1)


def network_scope(ip: str) -> int:
    """Return 0 for a public address, 1 for a private address and 2 for a link-local address."""
    address = ip_address(ip.partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    return 2 if address.is_link_local else int(not address.is_global)


def check_status(answer: Any) -> None:
    if answer.status in RETRYABLE:
        error = TransientError("unreachable", f"status {answer.status}")
        after = answer.headers.get("Retry-After", "")
        error.after = float(after) if after.isdecimal() and len(after) < 6 else 0.0
        raise error
    if answer.status in (404, 410):
        raise NotReadError("missing", f"status {answer.status}")
    if answer.status in (401, 403, 407, 451):
        raise NotReadError("refused", f"status {answer.status}")


async def client(**kwargs: Any) -> Any:
    import aiohttp

    connector = aiohttp.TCPConnector(limit=0)
    return aiohttp.ClientSession(connector=connector, **{**kwargs, "auto_decompress": False})


async def archive_client(**kwargs: Any) -> Any:
    import aiohttp

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_check_redirect)
    return aiohttp.ClientSession(trace_configs=[trace], **kwargs)


async def _check_redirect(_session: Any, _context: Any, params: Any) -> None:
    """Raise PermissionError if a redirect would send configured header fields to another origin."""
    from yarl import URL

    here = params.response.url
    target = here.join(URL(params.response.headers.get("Location", "")))
    usual = (*PUBLIC_FIELDS, "accept", "accept-encoding", "range")
    secrets = ", ".join(name for name in params.headers if name.lower() not in usual)
    if target.origin() != here.origin() and secrets:
        raise PermissionError(f"redirected to another host, which must not receive the configured {secrets}")
