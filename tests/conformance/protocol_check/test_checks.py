"""``stc check-protocol`` with programs that break the protocol in one way each."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from safetensors_conformance.cli.check_protocol import check_protocol_command as check
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.protocol_check import conversation
from safetensors_conformance.protocol_check.checks import CHECKS, Check, check_protocol
from safetensors_corpus.packed import corpus_root

from ..support import HERE, QUICK, REPOSITORY, by_exit, call, committed

pytestmark = pytest.mark.usefixtures("loaded_once")

MANIFEST = committed()
EXAMPLE, _ = (
    (REPOSITORY / "docs" / "examples" / "stdio_reader.py").read_text("utf-8").split("for line in sys")
)
PROGRAM = """
import os, time

WHO = {"name": "program", "version": "1", "language": "Python"}
STARTED = {"protocol": 1, "implementation": WHO, "steps": ["open", "read"]}

def started(request): return STARTED

def change(row): pass

answer_to = run

def good(request):
    seq = {"seq": request["seq"]}
    try:
        answer = answer_to(request)
    except Exception as err:
        return {**seq, "outcome": "reject", "message": str(err)}
    rows = answer.pop("tensors", [])
    for row in rows:
        change(row)
    counted = {"tensor_count": len(rows)} if request.get("summary") else {"tensors": rows}
    return {**seq, **answer, **(counted if answer["outcome"] == "accept" else {})}

def spell(answer): return json.dumps(answer).encode()

def write(answer):
    sys.stdout.buffer.write(spell(answer) + b'\\n')
    sys.stdout.flush()

def stop(): sys.exit(0)

run = good
#CHANGES

for line in sys.stdin:
    request = json.loads(line)
    if request["cmd"] == "stop":
        stop()
        continue
    answer = started(request) if request["cmd"] == "start" else run(request)
    write(answer)
"""

LENIENT = """
loads = json.loads
json.loads = lambda text: loads(text.decode('utf-8', 'surrogateescape') if isinstance(text, bytes) else text)
"""
"""Makes the program accept bytes that are not UTF-8."""
BREACHES = r"""
## nothing | run | pass
## forgets-flush | start | fail | did you flush
OUT = open(1, 'w')
def write(answer): print(json.dumps(answer), file=OUT)
## forgets-newline | start | fail | end each answer with a newline
def write(answer): print(json.dumps(answer), end='', flush=True)
## dies-at-start | start | fail | ended with exit status 1; last words: no licence
sys.exit('no licence')
## cannot-start | start | fail | the program cannot start: no licence
STARTED = {'error': {'message': 'no licence'}}
## speaks-2 | start | fail | the program speaks protocol 2, but this harness speaks 1 answer "protocol": 1 if
STARTED['protocol'] = 2
## echoes-version | version | fail | do not echo the number
def started(request): return {**STARTED, 'protocol': request['protocol']}
## no-name | start | fail | $defs/startAnswer/properties/implementation/required
WHO.clear()
## digest-in-capitals | valid | fail* | sha256/pattern
def change(row):
    if 'sha256' in row: row['sha256'] = row['sha256'].upper()
## digest-of-hex | valid | fail* | digest of the tensor's bytes as they are in the file
def change(row):
    if 'sha256' in row: row['sha256'] = hashlib.sha256(row['sha256'].encode()).hexdigest()
## no-json | broken | fail* | the answer is not valid JSON: Invalid \escape
def spell(answer): return json.dumps(answer).replace('"message": "', '"message": "\\d').encode()
## nan | valid | fail* | NaN is not a JSON number
def run(request): return {**good(request), 'cpu_ms': float('nan')}
## no-utf-8 | bytes | note | caf\xe9
def spell(answer): return json.dumps(answer).encode().replace(b'"message": "', b'"message": "caf\xe9')
## raw-names | bytes | note | which the harness accepts: b'{"seq"
LENIENT
def spell(answer): return json.dumps(answer, ensure_ascii=False).encode('utf-8', 'surrogateescape')
## names-in-hex | bytes | pass
LENIENT
def change(row): row['name'] = {'hex': row['name'].encode('utf-8', 'surrogateescape').hex()}
## refuses-bytes | bytes | pass | reject for a file with such a name
## names-replaced | bytes | note | reports '�' in its place
LENIENT
def change(row): row['name'] = row['name'].encode('utf-8', 'surrogateescape').decode('utf-8', 'replace')
## dies-at-missing-file | missing | fail | last words: no such file
def run(request): return good(request) if os.path.exists(request['path']) else sys.exit('no such file')
## accepts-everything | broken | fail* | the answer to framing/no-bytes must be reject
def run(request): return {'seq': request['seq'], 'outcome': 'accept', 'tensors': []}
## decodes-no-escapes | path | fail | decode the escape sequences in the request
def run(request): return good({**request, 'path': json.dumps(request['path'])[1:-1]})
## strict-about-fields | field | fail | harness-error: what?
def run(request):
    if {'cmd', 'seq', 'step', 'path', 'summary'} >= set(request): return good(request)
    return {'seq': request['seq'], 'outcome': 'harness-error', 'message': 'what?'}
## dies-at-unknown-step | step | fail | last words: KeyError: 'no-such-step'
def run(request): return {**good(request), 'x': {'open': 0, 'read': 0}[request['step']]}
## unknown-step-refused | step | note | unsupported would be better
def run(request):
    if request['step'] in ('open', 'read'): return good(request)
    return {'seq': request['seq'], 'outcome': 'reject'}
## never-counts | summary | note | tensors instead of tensor_count
def run(request): return good({**request, 'summary': False})
## no-digests | valid | note | content will not be compared
def change(row): row.pop('sha256', 0), row.pop('nbytes', 0)
## reads-what-is-there | pieces | fail* | JSONDecodeError
class Input:
    def __iter__(self):
        while piece := os.read(0, 1 << 16):
            yield piece.splitlines()[-1]
sys.stdin = Input()
## answers-twice | valid | fail* | differs from that of the request
def spell(answer): return b'\n'.join([json.dumps(answer).encode()] * (1 + ('seq' in answer)))
## chatters | noise | note | ignored 3 lines
def run(request): print('reading', request['path'], flush=True); return good(request)
## ignores-stop | stop | fail | the program is still running 0.75 s after the stop request
def stop(): pass
## stays | end | fail | the program is still running 0.75 s after the end of standard input
import atexit; atexit.register(time.sleep, 60); stop = lambda: os._exit(0)
## ends-badly | stop | note | exits with status 3
def stop(): sys.exit(3)
## slow-announces-slice | slice | note | unsupported
STARTED['steps'] += ['slice']
"""
"""Changes of the program: name, check, status, and words of the check, then the lines of the change.

A star means that one slip breaks several checks. LENIENT is replaced by the code of this name.
"""


EACH: dict[str, tuple[str, str, str, str]] = {}
"""Name -> check, status, words, and the change of the program."""
for _text in BREACHES.split("\n## ")[1:]:
    _head, _, _change = _text.partition("\n")
    _name, _check, _status, *_words = _head.split(" | ")
    EACH[_name] = _check, _status, "".join(_words), _change.replace("LENIENT", LENIENT)


def program(tmp_path: Path, change: str) -> str:
    """Return the selector of the program with a change."""
    path = tmp_path / "program.py"
    path.write_text(EXAMPLE + PROGRAM.replace("#CHANGES", change), encoding="utf-8")
    return f"cmd:{sys.executable} -IS {path}"


def checked(tmp_path: Path, change: str) -> dict[str, Check]:
    target = resolve(program(tmp_path, change))
    return {check.id: check for check in check_protocol(target, MANIFEST, 1.0)}


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", EACH)
def test_each_breach_is_found_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if name in ("ignores-stop", "stays"):  # these do not end when they are told to
        monkeypatch.setattr(conversation, "END_SECONDS", 0.75)
    where, status, words, change = EACH[name]
    checks = checked(tmp_path, change)
    check = checks[where]
    assert check.status == status.rstrip("*"), check
    assert words in " ".join((check.detail, check.do, check.line, check.where))
    if "*" not in status:
        wrong = {c.id for c in checks.values() if c.status == "fail"}
        assert wrong == ({where} if status == "fail" else set())
    if where != "start":
        assert list(checks) == [row[0] for row in CHECKS], "a failure must not end the checks behind it"


def test_a_broken_line_is_shown_as_it_came(tmp_path: Path) -> None:
    change = EACH["no-utf-8"][-1].replace("caf", "caf\\d")
    check = checked(tmp_path, change)["broken"]
    assert check.line.startswith('{"seq": 3, "outcome": "reject", "message": "caf\\d\\xe9')
    assert json.loads(check.sent)["cmd"] == "run"


@pytest.mark.parametrize(
    "selector",
    [pytest.param("reference", marks=pytest.mark.nightly), f"py:{HERE / 'small_adapter.py'}:Small"],
)
def test_our_own_host_speaks_the_protocol(selector: str) -> None:
    checks = list(check_protocol(resolve(selector), MANIFEST, 10.0))
    assert [c for c in checks if c.status == "fail"] == []
    assert {c.id for c in checks if c.status == "pass"} >= {"slice", "write", "sharded", "lifecycle", "batch"}


def test_the_command_prints_a_checklist_and_ends_with_zero_or_one(tmp_path: Path) -> None:
    status, text = call(check, "--impl", QUICK)
    assert (status, " ok, 0 failed, " in text) == (0, True)
    assert "ok    batch      answers requests that arrive together, one by one and in order: 64 " in text
    change = EACH["digest-in-capitals"][-1] + "\nWHO['name'] = 'red \\x1b[31m'"
    status, text = call(check, "--impl", program(tmp_path, change), "--time-limit", "1")
    assert (status, "\x1b" in text) == (1, False)
    for words in ("red \\x1b[31m", "FAIL  valid", 'got     {"seq": 2, "outcome": "accept"'):
        assert words in text
    assert "schema  $defs/runAnswer/properties/tensors/items" in text
    status, text = call(check, "--impl", program(tmp_path, "sys.exit('no licence')"), "--json")
    (row,) = [json.loads(line) for line in text.splitlines()]
    assert (status, row["id"], row["status"]) == (1, "start", "fail")


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (by_exit("good"), "does not speak the protocol"),
        ("cmd:no-such-program-anywhere", "does not exist or is not executable"),
        ("cmd:{}", "cannot start"),
        ("nonsense", "unknown implementation"),
    ],
)
def test_what_cannot_be_checked_ends_with_two(selector: str, text: str, tmp_path: Path) -> None:
    odd = tmp_path / "program"
    odd.write_text("no script\n", encoding="utf-8")
    odd.chmod(0o755)
    status, output = call(check, "--impl", selector.replace("cmd:{}", f"cmd:{odd}"))
    assert (status, text in output) == (2, True)


def test_a_program_gets_copies_and_the_line_shown_names_the_corpus(tmp_path: Path) -> None:
    vandal = """def run(request):
    found = good(request)
    if os.path.isfile(request['path']):
        open(request['path'], 'wb').close()
    return {**found, 'outcome': 7}"""
    before = [(c.path, c.read_input()) for c in MANIFEST.reading if c.input.file]
    checks = checked(tmp_path, vandal)
    assert checks["valid"].status == "fail"
    assert "safetensors-input-" not in checks["valid"].sent
    assert str(corpus_root()) in checks["valid"].sent
    assert [(path, path.read_bytes()) for path, _ in before] == before
