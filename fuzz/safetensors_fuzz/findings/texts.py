"""The README and the regression test of a finding."""

from __future__ import annotations

import base64
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from safetensors_corpus.judging.verdicts import VERDICTS, kind_of
from safetensors_reference import rule_book
from safetensors_reports.page.design import harmless_text
from safetensors_reports.text import COPIED, code, plural, visible

from ..finding import NOT_KNOWN, Finding

EMBEDDED = 4096
"""Size in bytes of the largest input that the test embeds. The test reads larger inputs from the folder."""
SPELLED = 512
"""Size in bytes of the largest input that the test embeds in hexadecimal instead of base64."""
ANSWERS = 6


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


def text_of_test(finding: Finding, stored_path: Callable[[Finding, str], str]) -> str:
    """Return the source of the test. ``stored_path`` returns an input file's path relative to the test."""
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
