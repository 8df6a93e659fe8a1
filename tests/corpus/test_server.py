"""The server of the cases of kind remote: what it does is what it is said to do."""

from __future__ import annotations

import gzip
import http.client
import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from safetensors_corpus.document import action_faults
from safetensors_corpus.publish.show import remote_text
from safetensors_corpus.server import MORE, PAGE, Behaviour, FileServer

FILE = bytes(range(200))


def asked(
    url: str, which: str | None = "bytes=40-99", method: str = "GET"
) -> tuple[int, dict[str, str], bytes]:
    """Return status, fields in lower case and body of one answer."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.netloc, timeout=5)
    try:
        connection.request(method, address.path, headers={} if which is None else {"Range": which})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def where(fields: dict[str, str]) -> str:
    return fields["content-range"].removeprefix("bytes ")


@pytest.mark.parametrize(
    ("which", "status", "part", "body"),
    [
        ("bytes=0-7", 206, "0-7/200", FILE[:8]),
        ("bytes=40-", 206, "40-199/200", FILE[40:]),
        ("bytes=190-999", 206, "190-199/200", FILE[190:]),
        ("bytes=199-199", 206, "199-199/200", FILE[199:]),
        ("bytes=200-300", 416, "*/200", b""),
        ("bytes=50-49", 200, "", FILE),
        ("bytes=-5", 200, "", FILE),
        ("pages=1-2", 200, "", FILE),
        (None, 200, "", FILE),
    ],
)
def test_ranges(which: str | None, status: int, part: str, body: bytes) -> None:
    with FileServer(FILE) as server:
        found, fields, data = asked(server.url, which)
    assert (found, data) == (status, body)
    assert fields.get("content-range", "") == (f"bytes {part}" if part else "")


WHOLE = [("unknown-total", "*"), ("other-total", "208"), ("total-too-small", "192")]
WHOLE += [(name, "200") for name in ("chunked", "no-head", "head-forbidden")]
"""Behaviour -> the size of the file in its answers, which contain the requested part."""


@pytest.mark.parametrize(
    ("behaviour", "part", "body"),
    [
        *((name, f"40-99/{size}", FILE[40:100]) for name, size in WHOLE),
        ("short", "40-69/200", FILE[40:70]),
        ("short-unsaid", "40-99/200", FILE[40:70]),
        ("long", f"40-{99 + MORE}/200", FILE[40 : 100 + MORE]),
        ("long-unsaid", "40-99/200", FILE[40 : 100 + MORE]),
        ("shifted", "48-107/200", FILE[48:108]),
        ("from-start", "0-59/200", FILE[:60]),
        ("redirect", "", b""),
    ],
)
def test_parts_of_other_servers(behaviour: Behaviour, part: str, body: bytes) -> None:
    with FileServer(FILE, behaviour) as server:
        status, fields, data = asked(server.url)
        if behaviour == "redirect":
            assert status == 302
            new = server.url.replace(server.path, fields["location"])
            part, body = "40-99/200", FILE[40:100]
            status, fields, data = asked(new)
        if status_of_head := {"no-head": 405, "head-forbidden": 403}.get(behaviour):
            assert asked(server.url, method="HEAD")[0] == status_of_head
        if behaviour == "chunked":
            assert "content-length" not in fields
    assert (status, where(fields), data) == (206, part, body)


@pytest.mark.parametrize(
    ("behaviour", "which", "status", "coded", "body"),
    [
        ("no-ranges", "bytes=40-99", 200, False, FILE),
        ("gzip", "bytes=40-99", 206, True, FILE[40:100]),
        ("gzip-whole", "bytes=40-99", 200, True, FILE),
        ("status-416", None, 200, False, FILE),
        ("unavailable", "bytes=40-99", 503, False, PAGE),
        ("not-found", "bytes=40-99", 404, False, PAGE),
        ("error-page", "bytes=40-99", 200, False, PAGE),
    ],
)
def test_whole_files_coded_bytes_and_failures(
    behaviour: Behaviour, which: str | None, status: int, coded: bool, body: bytes
) -> None:
    with FileServer(FILE, behaviour) as server:
        found, fields, data = asked(server.url, which)
    assert (found, gzip.decompress(data) if coded else data) == (status, body)
    assert fields.get("content-encoding") == ("gzip" if coded else None)
    assert ("content-range" in fields) == (status == 206)


def test_answers_without_a_part() -> None:
    with FileServer(FILE, "multipart") as server:
        status, fields, data = asked(server.url)
        boundary = re.fullmatch("multipart/byteranges; boundary=(.*)", fields["content-type"])
        head, _, rest = data.partition(b"\r\n\r\n")
        assert status == 206
        assert b"Content-Range: bytes 40-99/200" in head
        assert boundary
        assert rest == FILE[40:100] + b"\r\n--" + boundary[1].encode() + b"--\r\n"
    with FileServer(FILE, "status-416") as server:
        assert asked(server.url)[0] == 416
    with FileServer(FILE, "closed") as server, pytest.raises(http.client.RemoteDisconnected):
        asked(server.url)
    with FileServer(FILE, "cut") as server, pytest.raises(http.client.IncompleteRead) as cut:
        asked(server.url)
    assert cut.value.partial == FILE[40:70]
    with FileServer(FILE, "redirect-loop") as server:
        assert server.url.endswith(asked(server.url)[1]["location"])
    with FileServer(FILE) as server:
        assert asked(server.url + "x")[0] == 404


def test_the_first_answers_can_be_as_they_should() -> None:
    with FileServer(FILE, "changed", after=2, other=b"other") as server:
        tags = []
        for expected in (FILE[:4], FILE[:4], b"othe"):
            asked(server.url, method="HEAD")  # is not counted
            _, fields, data = asked(server.url, "bytes=0-3")
            assert data == expected
            tags.append(fields["etag"])
    assert tags[0] == tags[1] != tags[2]


def test_what_was_sent_is_counted_and_a_head_is_no_content() -> None:
    with FileServer(FILE) as server:
        status, fields, data = asked(server.url, None, "HEAD")
        assert (status, fields["content-length"], data) == (200, "200", b"")
        asked(server.url, "bytes=0-7")
        asked(server.url, "bytes=8-17")
    assert [(s.method, s.range, s.status, s.size) for s in server.log] == [
        ("HEAD", "", 200, 0),
        ("GET", "bytes=0-7", 206, 8),
        ("GET", "bytes=8-17", 206, 10),
    ]
    assert server.sent == 18


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ({"server": "ftp"}, "has action.server 'ftp'"),
        ({}, "has no action.server"),
        ({"server": "short", "after": -1}, "has action.after -1"),
        ({"server": "short", "after": True}, "has action.after true"),
        ({"server": "changed", "bytes": [{"zeros": 1 << 70}]}, "has action.bytes that cannot"),
        ({"do": "slice", "tensor": "w", "index": []}, "has an action that is not remote"),
        (None, "has no action"),
        ({"server": "cut", "after": 2}, ""),
    ],
)
def test_an_action_of_another_form_is_one_clear_error(action: Any, why: str) -> None:
    found = "".join(action_faults("remote", None if action is None else {"do": "remote", **action}))
    assert found.startswith(why)
    assert bool(found) == bool(why)


def test_an_action_is_told_in_words() -> None:
    assert remote_text({"server": "closed"}) == "closed: it closes the connection without an answer"
    action = {"server": "changed", "after": 1, "bytes": [{"zeros": 80}]}
    words = "it answers correctly once, then serves another file at this address: 80 bytes"
    assert remote_text(action) == f"changed: {words}"


def test_it_listens_on_this_machine_alone_under_a_name_that_tells_nothing_and_is_gone_afterwards() -> None:
    with FileServer(FILE, "cut") as one, FileServer(FILE, "cut") as two:
        assert re.fullmatch(
            r"http://127\.0\.0\.1:\d+/o[0-9a-f]{12}/model/resolve/main/file\.safetensors", one.url
        )
        assert one.path != two.path
    with pytest.raises(ConnectionError):
        asked(one.url)
