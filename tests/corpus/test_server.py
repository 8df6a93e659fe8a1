"""The server of the cases of kind remote: what it does is what it is said to do."""

from __future__ import annotations

import gzip
import http.client
import re
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


PART = "bytes=40-99"
WHOLE = [("unknown-total", "*"), ("other-total", "208"), ("total-too-small", "192")]
WHOLE += [(name, "200") for name in ("chunked", "no-head", "head-forbidden", "gzip")]
"""Behaviour -> the size of the file in its answers, which contain the requested part."""


@pytest.mark.parametrize(
    ("behaviour", "which", "status", "part", "body"),
    [
        ("ranges", "bytes=0-7", 206, "0-7/200", FILE[:8]),
        ("ranges", "bytes=40-", 206, "40-199/200", FILE[40:]),
        ("ranges", "bytes=190-999", 206, "190-199/200", FILE[190:]),
        ("ranges", "bytes=199-199", 206, "199-199/200", FILE[199:]),
        ("ranges", "bytes=200-300", 416, "*/200", b""),
        *(("ranges", which, 200, "", FILE) for which in ("bytes=50-49", "bytes=-5", "pages=1-2", None)),
        *((name, PART, 206, f"40-99/{size}", FILE[40:100]) for name, size in WHOLE),
        ("short", PART, 206, "40-69/200", FILE[40:70]),
        ("short-unsaid", PART, 206, "40-99/200", FILE[40:70]),
        ("long", PART, 206, f"40-{99 + MORE}/200", FILE[40 : 100 + MORE]),
        ("long-unsaid", PART, 206, "40-99/200", FILE[40 : 100 + MORE]),
        ("shifted", PART, 206, "48-107/200", FILE[48:108]),
        ("from-start", PART, 206, "0-59/200", FILE[:60]),
        ("no-ranges", PART, 200, "", FILE),
        ("gzip-whole", PART, 200, "", FILE),
        ("status-416", None, 200, "", FILE),
        ("unavailable", PART, 503, "", PAGE),
        ("not-found", PART, 404, "", PAGE),
        ("error-page", PART, 200, "", PAGE),
    ],
)
def test_answers(behaviour: Behaviour, which: str | None, status: int, part: str, body: bytes) -> None:
    coded = behaviour.startswith("gzip")
    with FileServer(FILE, behaviour) as server:
        found, fields, data = asked(server.url, which)
    assert (found, fields.get("content-range", "")) == (status, f"bytes {part}" if part else "")
    assert (gzip.decompress(data) if coded else data) == body
    assert fields.get("content-encoding") == ("gzip" if coded else None)
    assert ("content-length" in fields) == (behaviour != "chunked")


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
    for behaviour, status in (("no-head", 405), ("head-forbidden", 403)):
        with FileServer(FILE, behaviour) as server:
            assert asked(server.url, method="HEAD")[0] == status
    with FileServer(FILE, "redirect") as server:
        status, fields, _ = asked(server.url)
        assert status == 302
        assert asked(server.url.replace(server.path, fields["location"]))[::2] == (206, FILE[40:100])
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


def test_an_action_of_another_form_is_one_clear_error() -> None:
    for action, why in (
        ({"server": "ftp"}, "has action.server 'ftp'"),
        ({}, "has no action.server"),
        ({"server": "short", "after": -1}, "has action.after -1"),
        ({"server": "short", "after": True}, "has action.after true"),
        ({"server": "changed", "bytes": [{"zeros": 1 << 70}]}, "has action.bytes that cannot"),
        ({"do": "slice", "tensor": "w", "index": []}, "has an action that is not remote"),
        (None, "has no action"),
        ({"server": "cut", "after": 2}, ""),
    ):
        found = "".join(action_faults("remote", None if action is None else {"do": "remote", **action}))
        assert found.startswith(why), action
        assert bool(found) == bool(why), action


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
