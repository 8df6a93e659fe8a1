"""A finding: an input for which an implementation gives a wrong answer or terminates abnormally.

The folder of a finding contains its input, a description, a README, a drawing and a regression test. Writing
the same finding twice produces the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import shlex
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from safetensors_corpus.judging.verdicts import VERDICTS, kind_of
from safetensors_corpus.typed import MisfitError, members, typed
from safetensors_reference import Rule, rule_book
from safetensors_reference.header.read import explain_source
from safetensors_reference.rules.cwe import CWE_NAMES, CWE_OF_CODE
from safetensors_reference.source import MemorySource, read_whole
from safetensors_reports.fuzz_finding import FileRow, FindingDocument
from safetensors_reports.page.design import harmless_text
from safetensors_reports.page.file_svg import layout_svg
from safetensors_reports.text import COPIED, code, plural, visible

ENTRY = "input.safetensors"
REPLAYS = 3
"""Number of attempts to confirm a finding, each in a fresh process."""
ANY_ANSWER = "any orderly answer"
"""Expected answer if the format leaves it open."""
AGREEMENT = "the same content from all implementations that accept it"
"""Expected answer if readers may reject the file, but those that accept it must agree on the content."""
ADAPTER_ERROR = "adapter-error"
"""Outcome that appears in a signature if the adapter failed. Other missing answers have no outcome."""

NOT_KNOWN = "not known"
DOCUMENT = "finding.json"
DRAWING = "layout.svg"
README = "README.md"
SCHEMA = 1
INPUT = "input"
"""Folder of the input's files. An input that consists of one file needs no folder."""
SHARED = (
    *("step", "verdict", "signature", "codes", "expected", "got", "versions", "entry", "action"),
    *("expectation", "engine", "seed", "execs", "replays", "cause"),
)
"""Fields that a finding and its document have in common."""

LARGEST_DOCUMENT = 64 << 20
LARGEST_INPUT = 256 << 20
EMBEDDED = 4096
"""Size in bytes of the largest input that the test embeds. The test reads larger inputs from the folder."""
SPELLED = 512
"""Size in bytes of the largest input that the test embeds in hexadecimal instead of base64."""
ANSWERS = 6


def bare(signature: str) -> str:
    """Return the part of a signature that ``stc diff`` also writes, i.e. without the brackets."""
    return signature.partition(" [")[0]


@dataclass(frozen=True)
class Finding:
    """An input, the expected answer, and the answers of the implementations.

    ``FindingDocument`` describes the fields. ``files`` maps the path of each file in the input's folder to
    its content, and is empty for a write. The signature begins like one of ``stc diff``.
    """

    step: str
    verdict: str
    signature: str
    rules: tuple[str, ...]
    codes: tuple[str, ...]
    expected: str
    got: Mapping[str, str]
    versions: Mapping[str, str]
    files: Mapping[str, bytes]
    entry: str = ENTRY
    action: Mapping[str, Any] | None = None
    expectation: Mapping[str, Any] = field(default_factory=dict)
    where: tuple[int, int] | None = None
    engine: str = ""
    seed: int = 0
    execs: int = 0
    size_found: int = 0
    replays: int = 0
    cause: str = ""

    @property
    def split(self) -> bool:
        """Whether two implementations disagree, although neither answer is wrong by itself."""
        return self.expectation.get("agree") is True

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 digest of all files and the action."""
        digest = hashlib.sha256(repr(sorted((self.action or {}).items())).encode())
        for path, data in sorted(self.files.items()):
            digest.update(f"{path}\0{len(data)}\0".encode())
            digest.update(data)
        return digest.hexdigest()

    @property
    def size(self) -> int:
        return sum(map(len, self.files.values()))

    @property
    def slug(self) -> str:
        """Name of the finding's folder: the first code or rule, and a digest of input and signature."""
        subject = self.codes[0] if self.codes else self.rules[0] if self.rules else "valid"
        both = hashlib.sha256(f"{self.digest} {self.signature}".encode(errors="surrogatepass"))
        return f"{subject.lower().replace('_', '-')}-{both.hexdigest()[:8]}"


@dataclass(frozen=True)
class Cause:
    """The rules that explain a wrong answer, beginning with the main rule, and a one-line reason."""

    rules: tuple[str, ...] = ()
    words: str = ""


def unknown(why: str) -> Cause:
    return Cause((), f"{NOT_KNOWN}: {why}")


class FindingError(Exception):
    """The folder contains no usable finding. The message names the file and the key, if any."""


def write(finding: Finding, root: Path) -> Path:
    """Write the folder of a finding below ``root`` and return its path.

    Writing is atomic. It replaces an existing folder of the same finding but keeps unrelated files.

    Raises:
        FindingError: JSON cannot represent the finding, or one of its paths leads out of the folder.
        OSError: the folder cannot be written.
    """
    document, drawing, test = describe(finding), drawn(finding), name_of_test(finding)
    contents = {stored_path(finding, path): data for path, data in finding.files.items()}
    contents[DOCUMENT] = (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()
    contents[test] = text_of_test(finding).encode()
    contents[README] = readme_text(finding, document, test, DRAWING if drawing else None).encode()
    if drawing is not None:
        contents[DRAWING] = drawing.encode()
    root.mkdir(parents=True, exist_ok=True)
    target = root / finding.slug
    # Create the temporary folder next to the target so that the rename is atomic.
    temporary = root / f".{finding.slug}.{secrets.token_hex(4)}"
    try:
        for path, data in contents.items():
            file = temporary / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        _install(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def _install(temporary: Path, target: Path) -> None:
    if not target.exists():
        temporary.rename(target)
        return
    if not target.is_dir():
        raise FindingError(f"{target}: a file with that name exists")
    old = target.with_name(f"{temporary.name}.old")
    target.rename(old)
    temporary.rename(target)
    for path in old.iterdir():
        if not (target / path.name).exists():
            path.rename(target / path.name)
    shutil.rmtree(old)


def describe(finding: Finding) -> dict[str, Any]:
    """Return ``finding.json``. Raises FindingError for a value that JSON or the schema forbids."""
    weaknesses = dict.fromkeys(number for code in finding.codes for number in CWE_OF_CODE.get(code, ()))
    document = {
        "schema": SCHEMA,
        "slug": finding.slug,
        "step": finding.step,
        "verdict": finding.verdict,
        "signature": finding.signature,
        "rules": [_rule(rule_id) for rule_id in finding.rules],
        "cause": finding.cause,
        "codes": list(finding.codes),
        "cwe": [{"id": number, "name": CWE_NAMES[number]} for number in weaknesses],
        "expected": finding.expected,
        "got": dict(finding.got),
        "versions": dict(finding.versions),
        "files": [
            {
                "path": path,
                "stored": stored_path(finding, path),
                "sha256": hashlib.sha256(data).hexdigest(),
                "size": len(data),
            }
            for path, data in finding.files.items()
        ],
        "entry": finding.entry,
        "action": None if finding.action is None else dict(finding.action),
        "expectation": dict(finding.expectation),
        "where": None if finding.where is None else {"start": finding.where[0], "end": finding.where[1]},
        "engine": finding.engine,
        "seed": finding.seed,
        "execs": finding.execs,
        "size": {"found": finding.size_found, "now": finding.size},
        "replays": finding.replays,
        "reproduce": reproduce(finding),
    }
    try:
        same = json.loads(json.dumps(document, allow_nan=False)) == document
    except (TypeError, ValueError) as err:
        raise FindingError(f"finding {finding.slug}: JSON cannot represent it: {err}") from err
    # For example, a tuple or a key that is not a string would change when the file is read back.
    if not same:
        raise FindingError(f"finding {finding.slug}: JSON would change its action or expectation")
    _checked(document, f"finding {finding.slug}")
    return document


def _rule(rule_id: str) -> dict[str, str]:
    rule: Rule | None = rule_book().rules.get(rule_id)
    if rule is None:
        raise FindingError(f"finding: rules: unknown rule {rule_id!r}")
    return {"id": rule.id, "level": rule.level, "title": rule.title, "statement": rule.statement}


def reproduce(finding: Finding) -> str:
    """Return the command line that replays the finding. It must run in the parent of the finding's folder."""
    selectors = filter(None, (blamed_selector(finding), disagreeing_selector(finding)))
    return " ".join([f"stc fuzz replay {finding.slug}", *(f"--impl {shlex.quote(s)}" for s in selectors)])


def stored_path(finding: Finding, path: str) -> str:
    """Return the path of an input file inside the finding's folder. Raises FindingError."""
    return _inside(path) if list(finding.files) == [ENTRY] else f"{INPUT}/{_inside(path)}"


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if path != str(PurePosixPath(path)) or path[:1] in ("/", ".") or ".." in parts or "\0" in path:
        raise FindingError(f"files: {path!r} is not a path inside the input's folder")
    return path


def name_of_test(finding: Finding) -> str:
    return f"test_{finding.slug.replace('-', '_')}.py"


def drawn(finding: Finding) -> str | None:
    names = [n for n in (finding.entry, *sorted(finding.files)) if n in finding.files]
    seen = {n: explain_source(MemorySource(finding.files[n])) for n in names if not n.endswith(".json")}
    name = next((n for n, explanation in seen.items() if explanation.faults), next(iter(seen), None))
    return None if name is None else layout_svg(finding.files[name], seen[name], name=name)


def blamed_selector(finding: Finding) -> str:
    """Return the selector with the wrong answer, or an empty string if there are no answers."""
    right = finding.expectation.get("outcome", "")
    wrong = [s for s, line in finding.got.items() if re.split("[,: ]", line)[0] != right or " but " in line]
    others = [s for s in finding.got if s != "reference"]
    return next(iter([s for s in wrong if s in others] + wrong + others + list(finding.got)), "")


def disagreeing_selector(finding: Finding) -> str:
    """Return the second selector of a split, or an empty string if one answer is wrong by itself."""
    return next((s for s in finding.got if s != blamed_selector(finding)), "") if finding.split else ""


def reason(finding: Finding) -> tuple[str, str] | None:
    """Return a label and the reason for the chosen or unknown rules, or None if the reason is obvious."""
    if finding.rules:
        return ("why this rule", finding.cause) if finding.cause else None
    return "rule", finding.cause or f"{NOT_KNOWN}: the cause in the input could not be determined"


def readme_text(finding: Finding, document: Mapping[str, Any], test: str, drawing: str | None) -> str:
    meaning = VERDICTS.get(kind_of(finding.verdict), "")
    lines = [f"# {finding.slug}", "", f"{code(finding.verdict)} at step {code(finding.step)}: {meaning}.", ""]
    lines += [f"- rule {r['id']} ({r['level']}): {r['statement']}" for r in document["rules"][:2]]
    why = reason(finding)
    lines += [f"- {why[0]}: {why[1]}"] if why else []
    lines.append(f"- expected: {code(finding.expected)}")
    for selector, line in list(finding.got.items())[:ANSWERS]:
        version = finding.versions.get(selector, "")
        lines.append(f"- got from {code(selector)}{' ' + code(version) if version else ''}: {code(line)}")
    if finding.where is not None:
        start, end = finding.where
        lines.append(f"- where: bytes {start:,}..{max(end - 1, start):,} of {code(finding.entry)}")
    if document["cwe"]:
        lines.append("- exposes a reader to " + ", ".join(f"CWE-{w['id']}" for w in document["cwe"][:4]))
    lines.append(
        f"- found by {code(finding.engine or 'hand')}, seed {finding.seed}, input {finding.execs:,}; "
        f"shrunk from {plural(finding.size_found, 'byte')} to {finding.size:,}; "
        f"repeated in {finding.replays} of 3 runs"
    )
    if drawing is not None:
        lines += ["", f"![The bytes of the file]({drawing})"]
    lines += [
        "",
        (
            "To replay the finding, run this command in the parent folder. A relative path after "
            "`--impl` is relative to that folder."
        ),
        "",
        f"    {visible(document['reproduce'], COPIED)}",
        "",
    ]
    beside = "" if finding.size <= EMBEDDED else " together with the input"
    lines.append(f"`{test}` fails until this is fixed. Commit it to your tests{beside}.")
    return "\n".join(lines) + "\n"


def text_of_test(finding: Finding) -> str:
    embedded = finding.size <= EMBEDDED
    imports = [] if embedded else ["from pathlib import Path", ""]
    if embedded and any(len(data) > SPELLED for data in finding.files.values()):
        imports = ["import base64", ""]
    given = {"step": finding.step, "rules": list(finding.rules), "entry": finding.entry}
    rows = [_docstring(finding), "", *imports, "from safetensors_fuzz.findings.replay import failure", ""]
    rows.append(f"IMPLEMENTATION = {_literal(blamed_selector(finding))}")
    rows.append(
        '"""Selector as for ``--impl``. A relative path is relative to the working directory of pytest."""\n'
    )
    other = disagreeing_selector(finding)
    if other:
        rows.append(f"AGAINST = {_literal(other)}")
        rows.append(
            '"""Second implementation, which must agree with the first. Either one may be wrong."""\n'
        )
    if not embedded:
        rows.append("HERE = Path(__file__).parent")
    rows.append("FILES = {")
    for path, data in finding.files.items():
        stored = f"(HERE / {_literal(stored_path(finding, path))}).read_bytes()"
        rows += [f"    {_literal(path)}: {_bytes_literal(data) if embedded else stored},"]
    rows += ["}", f"EXPECTATION = {_literal(dict(finding.expectation))}"]
    rows += [f"ACTION = {_literal(None if finding.action is None else dict(finding.action))}", "", ""]
    rows += [f"def test_{finding.slug.replace('-', '_')}() -> None:"]
    rule = rule_book().rules[finding.rules[0]] if finding.rules else None
    rows.append(f"    # {rule.id} ({rule.level}): {rule.title}" if rule else f"    # rule {NOT_KNOWN}")
    rows += ["    wrong = failure(", "        IMPLEMENTATION,"]
    rows += [f"        {key}={_literal(value)}," for key, value in given.items()]
    rows += ["        files=FILES,", "        expectation=EXPECTATION,", "        action=ACTION,"]
    rows += ["        against=AGAINST,"] if other else []
    rows += ["    )", "    assert wrong is None, wrong"]
    return "\n".join(rows) + "\n"


def _docstring(finding: Finding) -> str:
    parts = []
    for rule_id in finding.rules[:1]:
        rule = rule_book().rules[rule_id]
        parts.append(f"{rule.id} ({rule.level}): {rule.statement}")
    why = reason(finding)
    parts += [f"{why[0].capitalize()}: {why[1]}"] if why else []
    parts.append(f"Expected: {finding.expected}")
    for selector in filter(None, [blamed_selector(finding), disagreeing_selector(finding)]):
        version = finding.versions.get(selector, "")
        parts.append(f"Got from {selector} {version}: {finding.got[selector]}")
    parts.append(f"Found by {finding.engine or 'hand'}, seed {finding.seed}.")
    wrapped = [textwrap.fill(harmless_text(part), 100, break_long_words=False) for part in parts]
    body = "\n\n".join(wrapped)
    return '"""' + body.replace("\\", "\\\\").replace('"', '\\"') + '\n"""'


def _literal(value: object, indent: str = "") -> str:
    """Return a JSON value as ASCII Python source, with one line for each member of a long value."""
    if isinstance(value, str):
        source = ascii(value)
        if source[0] == "'":
            source = '"' + source[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'
        return source
    if not isinstance(value, (dict, list, tuple)):
        return repr(value)
    inner = indent + "    "
    if isinstance(value, dict):
        left, right = "{", "}"
        parts = [f"{_literal(k)}: {_literal(v, inner)}" for k, v in value.items()]
    else:
        left, right = "[", "]"
        parts = [_literal(item, inner) for item in value]
    short = left + ", ".join(parts) + right
    if len(short) <= 70 and "\n" not in short:
        return short
    return left + "".join(f"\n{inner}{part}," for part in parts) + f"\n{indent}{right}"


def _bytes_literal(data: bytes) -> str:
    spelled = len(data) <= SPELLED
    text = data.hex() if spelled else base64.b64encode(data).decode()
    lines = textwrap.wrap(text, 96) or [""]
    call = "bytes.fromhex" if spelled else "base64.b64decode"
    if len(lines) == 1:
        return f'{call}("{lines[0]}")'
    return f"{call}(\n" + "\n".join(f'        "{line}"' for line in lines) + "\n    )"


def load(path: Path) -> Finding:
    """Load a finding from its folder or from its ``finding.json``. Raises FindingError."""
    path = path if path.name == DOCUMENT else path / DOCUMENT
    try:
        document = json.loads(read_whole(path, LARGEST_DOCUMENT), object_pairs_hook=members)
    except OSError as err:
        raise FindingError(f"{err}; give the folder of a finding") from err
    except (ValueError, RecursionError) as err:
        raise FindingError(f"{path}: not JSON: {err}") from err
    raw = _checked(document, str(path))
    return Finding(
        **{name: getattr(raw, name) for name in SHARED},
        rules=tuple(rule.id for rule in raw.rules),
        files=dict(_read_files(path, raw.files)),
        where=None if raw.where is None else (raw.where.start, raw.where.end),
        size_found=raw.size.found,
    )


def _checked(raw: object, origin: str) -> FindingDocument:
    try:
        document = typed(raw, FindingDocument)
    except MisfitError as err:
        raise FindingError(f"{origin}: {err}") from err
    if document.expectation.get("agree", True) is not True:
        raise FindingError(f"{origin}: if expectation.agree is present, it must be true")
    return document


def _read_files(path: Path, rows: Sequence[FileRow]) -> Iterator[tuple[str, bytes]]:
    for row in rows:
        file = path.parent / row.stored
        try:
            # The document is untrusted and must not refer to files outside its folder.
            if not file.resolve().is_relative_to(path.parent.resolve()):
                raise FindingError(f"{path}: files: {row.stored!r} is outside the folder")
            data = read_whole(file, min(row.size, LARGEST_INPUT))
        except (OSError, ValueError, RuntimeError) as err:  # resolve raises RuntimeError for a cycle of links
            raise FindingError(f"{file}: {getattr(err, 'strerror', None) or err}") from err
        if len(data) != row.size or hashlib.sha256(data).hexdigest() != row.sha256:
            raise FindingError(f"{file}: does not match {DOCUMENT} (files: sha256, size)")
        yield _inside(row.path), data
