"""Whatever a server answers, an audit ends within its bounds, and the rows of others do not wait for it."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_reference.audit import work
from safetensors_reference.audit.engine import Engine, run
from safetensors_reference.audit.results import Row
from safetensors_reference.audit.work import AuditOptions, ModelIndex, file_row, make_batches, model_row
from safetensors_reference.files import reading, stores, web
from safetensors_reference.files.names import FileInput, SourceError
from safetensors_reference.files.reading import LARGEST, Head, MemoryBudget, NotReadError
from safetensors_reference.files.walk import find_folders

from ..audit.support import VALID, long_file, read_row, rows_of, stc_audit
from .web import Tree, forget, serve

pytest.importorskip("aiohttp")
pytestmark = pytest.mark.usefixtures("quick_retries")

Answer = Callable[[Tree], object]


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """Remember nothing of another test."""
    forget()
    yield
    forget()


def handler(**answers: Answer) -> type[Tree]:
    """Return a handler with an answer of its own for some first parts of paths, and one good file."""

    class Odd(Tree):
        files: ClassVar[dict[str, bytes]] = {"good.safetensors": VALID, "long.safetensors": long_file()}
        log: ClassVar[list[str]] = []

        def answer(self) -> None:
            name = self.path.strip("/").partition("/")[0].partition(".")[0]
            if name not in answers:
                super().answer()
                return
            self.close_connection = True
            answers[name](self)

    return Odd


def raw(*lines: bytes) -> Answer:
    """Return an answer made of the bytes of its head, with a valid file behind it."""
    return lambda self: self.wfile.write(b"\r\n".join((*lines, b"Connection: close", b"", VALID)))


def part(size: int, *lines: bytes) -> Answer:
    where = f"Content-Range: bytes 0-{size - 1}/{size}".encode()
    return raw(b"HTTP/1.1 206 x", where, f"Content-Length: {size}".encode(), *lines)


def led_to(place: str) -> Answer:
    return lambda self: self.send(302, b"", {"Location": place})


def endless(head: bytes, piece: bytes, pause: float = 0) -> Answer:
    """Return an answer that sends a piece again and again, until the client goes away."""

    def answer(self: Tree) -> None:
        self.wfile.write(head)
        while True:
            self.wfile.write(piece)
            time.sleep(pause)

    return answer


def verdicts(rows: list[Row]) -> dict[str, str]:
    return {row.address.rpartition("/")[2].partition(".")[0]: row.verdict for row in rows}


ODD = {
    "flood": endless(b"HTTP/1.1 206 x\r\nContent-Range: bytes 0-65535/655360\r\n\r\n", bytes(65536)),
    "etag": part(len(VALID), b'ETag: "\x80\x9b"'),
    "modified": part(len(VALID), b"Last-Modified: \xff\xfe"),
    "range": raw(b"HTTP/1.1 206 x", b"Content-Range: bytes \xff"),
    "status": raw(b"HTTP/1.1 200 \xff\xfe"),
    "location": led_to("http://\xff\x80/"),
    "nowhere": led_to("http://["),
    "file": led_to("file:///etc/hosts"),
    "ftp": led_to("ftp://127.0.0.1/x"),
    "type": part(len(VALID), b"Content-Type: \xff"),
}


def test_odd_bytes_of_a_server_cost_nobody_a_row(tmp_path: Path) -> None:
    names = tmp_path / "names"
    with serve(handler(**ODD)) as url:
        names.write_text("".join(f"{url}/{name}.safetensors\n" for name in (*ODD, "good")))
        for _ in range(2):  # the same rows count when it is run again
            found = stc_audit("--list", names, "-o", tmp_path / "rows.jsonl", jobs=2)
            assert found.exit_code == 2, found.output
    rows = [read_row(line) for line in (tmp_path / "rows.jsonl").read_bytes().splitlines()]
    assert len(rows) == len(ODD) + 1
    valid = {name for name, verdict in verdicts(rows).items() if verdict == "valid"}
    assert valid >= {"etag", "modified", "good"}
    assert {row.note for row in rows if "flood" in row.address} == {
        "the response has more bytes than requested"
    }
    assert {row.tag for row in rows if "etag" in row.address} == {"\\udc80\\udc9b"}
    assert "invalid" not in {row.verdict for row in rows}


PAGE = b"HTTP/1.1 200 x\r\nContent-Type: text/html\r\n"


def listing(body: bytes, *fields: bytes) -> Answer:
    return lambda self: self.wfile.write(PAGE + b"\r\n".join((*fields, b"", body)))


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        (
            endless(PAGE + b"\r\n", b"<a href='x.safetensors'>" * 4096),
            "the page has more than 1,048,576 bytes",
        ),
        (listing(gzip.compress(bytes(4 << 20)), b"Content-Encoding: gzip"), "compressed"),
        (
            listing(b"<a href='" + b"a/" * 2000 + b"x.safetensors'>"),
            "addresses with more than 2,048 characters",
        ),
        (listing(b"<a " + b" " * 900_000), "no *.safetensors or"),
        (led_to("/page/"), "too many redirects"),
        (raw(b"HTTP/1.1 200 x", b"Content-Type: image/png"), "the page is not HTML"),
    ],
)
def test_a_page_has_limits(answer: Answer, note: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "PAGE", 1 << 20)
    begun = time.monotonic()
    with serve(handler(page=answer)) as url:
        (row,) = rows_of([f"{url}/page/"])
    assert row.verdict == "unreadable"
    assert note in row.note
    assert time.monotonic() - begun < 60  # and not for ever


def found_below(handler: type[Tree]) -> list[FileInput]:
    with serve(handler) as url:
        return [item for folder in find_folders([f"{url}/tree/"], []) for item in folder.items]


def test_a_tree_without_end_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = handler(tree=listing(b"<a href='a/'><a href='b/'><a href='x.safetensors'>"))
    monkeypatch.setattr(stores, "MAX_DEPTH", 4)
    problems = [item.problem for item in found_below(odd) if item.problem]
    assert (len(odd.log), problems) == (2**5 - 1, [stores.TOO_DEEP] * 2**4)
    monkeypatch.setattr(stores, "MAX_PAGES", 10)
    odd.log.clear()
    assert any("has more than 10 folders" in item.problem for item in found_below(odd))
    assert len(odd.log) == 10


LINKS = [
    "/dir1/../secret.safetensors",
    "a%2f..%2f..%2fsecret.safetensors",
    "//other/x/",
    "http://other/dir1/x.safetensors",
    "http://h/dir1secret.safetensors",
    "http://[/x.safetensors",
    "./",
    "?C=N;O=D",
    "/dir1/sub/",
    "b%20c.safetensors#top",
    "d&amp;e.safetensors",
]


def test_a_server_that_is_gone_is_asked_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MAX_FAILED_PAGES", 3)
    monkeypatch.setattr(reading, "ATTEMPTS", 1)
    page = listing(b"".join(b"<a href='%d/'>" % n for n in range(20)))
    *lost, last = found_below(handler(tree=lambda self: self.path == "/tree/" and page(self)))
    assert len(lost) == 3
    assert last.address.endswith("/tree/")
    assert last.problem.startswith("3 consecutive pages could not ")


def test_links_lead_nowhere_else() -> None:
    page = "".join(f'<a class="b" href="{link}">x</a>' for link in LINKS) + " http://h/dir1/f.safetensors."
    assert web.links_below("http://h/dir1/", page)[0] == [
        "http://h/dir1/?C=N;O=D",
        "http://h/dir1/b%20c.safetensors",
        "http://h/dir1/d&e.safetensors",
        "http://h/dir1/f.safetensors.",
        "http://h/dir1/sub/",
    ]


@given(st.text("ahrefHREF=\"'/.%2e:?#&;[]<> ", max_size=60))
def test_no_page_leads_out_of_its_folder(text: str) -> None:
    for link in web.links_below("http://h/d/", f"<a href='{text}'> href=\"{text}\" {text}")[0]:
        assert link.startswith("http://h/d/")
        assert "/../" not in link.replace("%2e", ".").replace("%2E", ".")


@pytest.mark.parametrize("at_once", [12, pytest.param(3, marks=pytest.mark.nightly)])
def test_slow_servers_hold_no_rows_back(
    at_once: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reading, "SECONDS", 1.2)
    monkeypatch.setattr(work, "SLOW_SECONDS", 0.3)
    names, slow = tmp_path / "names", ("drip", "silent", "hundred")
    drip = endless(b"HTTP/1.1 206 x\r\nContent-Range: bytes 0-64/65\r\n\r\n", b"x", 0.1)
    hundred = endless(b"", b"HTTP/1.1 100 x\r\n\r\n", 0.1)
    with serve(handler(drip=drip, silent=lambda _: time.sleep(9), hundred=hundred)) as url:
        lines = [f"{url}/{name}.safetensors?{n}" for n, name in enumerate((*slow, *["good"] * 9))]
        names.write_text("\n".join(lines))
        batches = make_batches(find_folders([], [str(names)]), 100, lambda _: False)
        parts = [part for part in run(batches, AuditOptions(at_once), Engine()) if part]
    rows = [read_row(line) for part in parts for line in part.splitlines()]
    assert verdicts(rows) == {**dict.fromkeys(slow, "unreachable"), "good": "valid"}
    assert sorted(row.address for row in rows) == sorted(lines)
    assert len(parts) > 1  # the rows of the others do not wait for the last one
    assert [row.verdict for row in rows[-3:]] == ["unreachable"] * 3
    assert {row.requests for row in rows} == {1}  # after a time-out nobody asks again


def test_what_is_under_way_is_limited_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, held = MemoryBudget(100), [0]

    async def one(size: int) -> None:
        taken = await budget.acquire(size)
        held.append(held[-1] + taken)
        await asyncio.sleep(0.001)
        held.append(held[-1] - taken)
        budget.release(taken)

    async def every() -> None:
        await asyncio.gather(*map(one, [30, 60, 100, 1000, 10, 99, 1, 0] * 9))

    asyncio.run(every())
    assert (max(held), budget.free) == (100, 100)
    monkeypatch.setattr(reading.Fetcher, "budget", MemoryBudget(1 << 20))
    with serve(handler()) as url:
        addresses = [f"{url}/{name}.safetensors" for name in ("long", "good")]
        assert [row.verdict for row in rows_of(addresses, options=AuditOptions(data=True))] == ["valid"] * 2
    assert reading.Fetcher.budget.free == 1 << 20


SECRET = dict.fromkeys(("Authorization", "X-Secret", "Private-Token"), "s3cret") | {"User-Agent": "me"}


@pytest.mark.parametrize("way", ["away", "away-and-back", "here"])
def test_no_secret_of_the_configuration_goes_to_another_origin(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec = pytest.importorskip("fsspec")
    more = {"cookies": {"c": "s3cret"}, "client_kwargs": {"headers": {"X-More": "s3cret"}}}
    for scheme in ("http", "https"):
        monkeypatch.setitem(fsspec.config.conf, scheme, {"headers": SECRET, **more})
    asked: list[tuple[str, dict[str, str]]] = []
    led: dict[str, str] = {}

    class Front(Tree):
        files: ClassVar[dict[str, bytes]] = {"a.safetensors": long_file()}

        def answer(self) -> None:
            asked.append((self.path, dict(self.headers)))
            if self.path in led:
                self.send(302, b"", {"Location": led[self.path]})
            else:
                super().answer()

    with serve(Front) as here, serve(Front, "127.0.0.2") as there:
        far = there if "away" in way else ""
        led |= {"/front.safetensors": f"{far}/{'back' if 'back' in way else 'a.safetensors'}"}
        led |= {"/back": f"{here}/a.safetensors"}
        (row,) = rows_of([f"{here}/front.safetensors"])
    assert (row.verdict, row.requests) == ("valid", 2)
    assert "s3cret" in str(asked[0])
    for _, fields in asked[1:]:
        assert ("s3cret" in str(fields)) == (way == "here")
        if way != "here":
            assert set(fields) <= {"Host", "Range", "Accept", "Accept-Encoding", "User-Agent"}
            assert fields["User-Agent"] == "me"
    assert [path for path, _ in asked].count("/a.safetensors") == 2


@pytest.mark.parametrize("secret", [False, True])
def test_an_archive_is_not_led_on_with_secrets(secret: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setitem(fsspec.config.conf, "http", {"headers": SECRET} if secret else {})
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("x.safetensors", VALID)
    elsewhere = handler()
    elsewhere.files = {"a.zip": packed.getvalue()}
    with (
        serve(elsewhere, "127.0.0.2") as there,
        serve(handler(a=led_to(f"{there}/a.zip"))) as here,
    ):
        if secret:
            with pytest.raises(SourceError, match=r"Private-Token$"):
                rows_of([f"zip::{here}/a.zip"])
        else:
            assert [row.verdict for row in rows_of([f"zip::{here}/a.zip"])] == ["valid"]
    assert bool(elsewhere.log) != secret


@pytest.mark.parametrize(
    ("first", "second", "verdict"), [(0, 1, "unreachable"), (1, 2, "unreachable"), (1, 1, "valid")]
)
def test_nobody_is_led_to_an_address_that_is_more_private(
    first: int, second: int, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "network_scope", lambda ip: second if ip == "127.0.0.2" else first)
    with (
        serve(handler(), "127.0.0.2") as there,
        serve(handler(lead=led_to(f"{there}/good.safetensors"))) as here,
    ):
        (row,) = rows_of([f"{here}/lead.safetensors"])
    assert row.verdict == verdict
    assert ("private address" in row.note) == (verdict != "valid")


def test_how_far_an_address_reaches() -> None:
    private = ["127.0.0.1", "10.1.2.3", "100.64.0.1", "0.0.0.0", "::1", "fd00:ec2::254", "::ffff:10.0.0.1"]
    linked = ["169.254.169.254", "::ffff:169.254.169.254", "fe80::1%eth0"]
    for reach, addresses in enumerate((["8.8.8.8", "2600::1"], private, linked)):
        assert {ip: web.network_scope(ip) for ip in addresses} == dict.fromkeys(addresses, reach)


def test_pages_are_asked_for_as_files_are(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [(200, b"<a href='/tree/good.safetensors'>", {"ETag": "1"})]
    left += [(503, b"later", {"Retry-After": "1"})] * 2
    monkeypatch.setattr(reading, "SECONDS", 5.0)
    (item,) = found_below(handler(tree=lambda self: self.send(*left.pop())))
    assert item.address.endswith("/tree/good.safetensors")


def test_a_token_goes_to_no_other_host() -> None:
    elsewhere = handler()
    with serve(elsewhere) as there:
        front = handler(a=led_to(f"{there}/long.safetensors"))
        with serve(front) as here:
            plain, loop = stores.fetcher_of("https://")
            assert isinstance(plain, web.WebFetcher)
            fetcher = web.WebFetcher(web.Web(plain.web.fs, {"authorization": "Bearer hf_secret"}))
            url = f"{here}/a.safetensors"
            head = asyncio.run_coroutine_threadsafe(fetcher.head(FileInput(url, url)), loop).result()
    assert head.size == len(long_file())
    assert front.log == ["GET /a.safetensors Bearer hf_secret"]
    assert elsewhere.log == ["GET /long.safetensors "] * 2


def test_a_length_beyond_all_files_is_no_row_that_results_cannot_hold(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    body, fields = VALID.ljust(65_536, b"\0"), {"Content-Range": f"bytes 0-65535/{'9' * 19}"}
    with serve(handler(a=lambda self: self.send(206, body, fields))) as url:
        done = stc_audit(f"{url}/a.safetensors", "-o", tmp_path / "rows")
    assert (done.exit_code, done.output) == (2, "1 file: 1 no-ranges\n")
    rows = parquet.read_table(tmp_path / "rows" / "part-000001.parquet")
    assert rows["verdict"].to_pylist() == ["no-ranges"]


def test_shards_whose_sum_cannot_be_are_no_verdict() -> None:
    size = 1 << 60
    text = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}})
    data = len(text).to_bytes(8, "little") + text.encode()
    shards = {f"{n}.safetensors": file_row(Head(f"{n}", len(data) + size, data)) for n in range(9)}
    assert sum(row.data_bytes or 0 for row, _ in shards.values()) > LARGEST
    index = json.dumps({"weight_map": {f"w{n}": name for n, name in enumerate(shards)}}).encode()
    with pytest.raises(NotReadError, match="an impossible total"):
        model_row(ModelIndex(Head("x", len(index), index)), shards)
