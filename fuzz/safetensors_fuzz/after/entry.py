"""A finding as a row of ``found.toml``: the file in readable parts, and what a reader must report of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import tomlkit
from tomlkit.items import Array

from safetensors_corpus import recipe
from safetensors_corpus.judging.verdicts import SECURITY, kind_of
from safetensors_reference import explain, rule_book

from ..findings.finding import Finding
from ..findings.texts import blamed

READING = ("open", "read")
"""Steps whose findings can become cases."""
_AREA_OF = {"FRM": "framing", "HDR": "header", "ENT": "entry", "DTY": "dtype", "SHP": "shape"}
_AREA_OF |= {"OFF": "layout", "MET": "metadata"}


class PromotionError(Exception):
    """The finding cannot become a case; the text says why."""


def input_of(finding: Finding) -> bytes:
    """Return the file that is to become a case. Raises PromotionError for a finding of another kind."""
    if finding.step not in READING:
        raise PromotionError(
            f"it was found at step {finding.step}; only findings of open and read can be promoted. "
            "Write the case by hand, docs/add-a-case.md says how"
        )
    if list(finding.files) != [finding.entry] or finding.action is not None:
        raise PromotionError("it is more than one file to be read; write the case by hand")
    return finding.files[finding.entry]


def entry_of(
    finding: Finding, case_id: str | None = None, title: str | None = None, issue: str | None = None
) -> dict[str, Any]:
    """Return the row of ``found.toml`` for a finding. Raises PromotionError."""
    known = rule_book().rules
    rules = [rule for rule in finding.rules if rule in known]
    if not rules:
        raise PromotionError(
            "the finding's rule is not known; write the case by hand, docs/add-a-case.md says how"
        )
    data, expectation = input_of(finding), finding.expectation
    area = _AREA_OF.get(rules[0][:3], "data")
    row: dict[str, Any] = {
        # A number, because hexadecimal digits can spell words that an id must not have.
        "id": case_id or f"{area}/found-{int(finding.digest[:8], 16)}",
        "title": title or f"A file found by fuzzing is about {rules[0]}: {known[rules[0]].title}.",
        "rules": rules,
        "level": expectation.get("level") or known[rules[0]].level,
        "importance": "high" if kind_of(finding.verdict) in SECURITY else "medium",
        "steps": list(READING),
        "bytes": _readable(data),
    }
    contents: list[Any] = []
    if "choice" in expectation:
        options: Mapping[str, Any] = expectation["options"]
        row |= {"choice": expectation["choice"]}
        row["options"] = {name: list(option.get("codes", ())) for name, option in options.items()}
        contents = [o["content"] for o in options.values() if o["outcome"] == "accept"]
        if any(content != contents[0] for content in contents):
            raise PromotionError("its options demand different contents; write the case by hand")
    elif expectation["outcome"] == "reject":
        row["codes"] = list(expectation["codes"])
    else:
        contents = [expectation["content"]]
    if contents:
        row |= _content(data, contents[0])
    row["source"] = {"engine": finding.engine or "hand", "seed": finding.seed, "found_on": _found_on(finding)}
    if issue:
        row["source"]["issue"] = issue
    return row


def primary_first(finding: Finding) -> Finding:
    """Return the finding with the codes of its first rule before the others that would fit."""
    codes = list(finding.expectation.get("codes", ()))
    rule = rule_book().rules.get(finding.rules[0]) if finding.rules else None
    if rule is None or not codes:
        return finding
    codes.sort(key=lambda code: code not in rule.codes)
    return replace(finding, expectation={**finding.expectation, "codes": codes})


def _found_on(finding: Finding) -> str:
    """Return implementation and version; of a selector that is a path, the last part."""
    selector = blamed(finding)
    shown = re.sub(r"[^\s:]*/", "", selector)
    version = finding.versions.get(selector, "")
    return f"{shown.partition('==')[0]} {version}" if version else shown or "unknown"


def _readable(data: bytes) -> list[dict[str, Any]]:
    """Return a recipe of a file whose parts are those of the format: length, header, data."""
    end = 8 + int.from_bytes(data[:8], "little") if len(data) >= 8 else len(data)
    pieces = [data[:8], data[8:end], data[end:]] if end <= len(data) else [data[:8], data[8:]]
    rest = (part for piece in pieces[1:] for part in recipe.from_bytes(piece))
    return [{"hex": data[:8].hex()}, *(part for mixed in rest for part in _apart(mixed))]


def _apart(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Split bytes into the text that is in them and the rest."""
    if "hex" not in part:
        yield part
        return
    for piece in re.split(rb"([ -~]{8,})", bytes.fromhex(part["hex"])):
        if piece:
            text = len(piece) >= 8 and piece.isascii() and piece.decode().isprintable()
            yield {"text": piece.decode()} if text else {"hex": piece.hex()}


def _content(data: bytes, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata and tensors with the bytes whose digests are demanded. Raises PromotionError."""
    header = explain(data, "text").header or explain(data, "official").header
    if header is None or "tensors" not in content:
        raise PromotionError("its content cannot be told; write the case by hand")
    tensors = []
    for told in content["tensors"]:
        place = header.tensors.get(told["name"])
        start = 8 + header.length
        held = b"" if place is None else data[start + place.begin : start + place.end]
        if hashlib.sha256(held).hexdigest() != told["sha256"]:
            raise PromotionError(
                f"the file holds no bytes of tensor {told['name']!r} with the digest demanded"
            )
        tensors.append(
            {
                "name": told["name"],
                "dtype": told["dtype"],
                "shape": list(told["shape"]),
                "data": recipe.from_bytes(held),
            }
        )
    out: dict[str, Any] = {} if content.get("metadata") is None else {"metadata": dict(content["metadata"])}
    return {**out, "tensor": tensors}


def rendered(row: Mapping[str, Any]) -> str:
    """Return the TOML of one case, parts of recipes a line each."""
    table = tomlkit.table()
    for key, value in row.items():
        if key == "tensor":
            tensors = tomlkit.aot()
            for tensor in value:
                inner = tomlkit.table()
                inner.update({k: _parts(v) if k == "data" else v for k, v in tensor.items()})
                tensors.append(inner)
            table.append(key, tensors)
        else:
            table.append(key, _parts(value) if key == "bytes" else value)
    document = tomlkit.document()
    cases = tomlkit.aot()
    cases.append(table)
    document.append("case", cases)
    return tomlkit.dumps(document)


def _parts(parts: list[dict[str, Any]]) -> Array:
    """Return the parts of a recipe as an array of inline tables."""
    array = tomlkit.array().multiline(len(parts) > 1)
    for part in parts:
        inline = tomlkit.inline_table()
        for key, value in part.items():
            inline.append(key, _value(value))
        array.append(inline)
    return array


def _value(value: Any) -> Any:
    """Return what stands for a value of a part; text that holds quotes is written as it is."""
    if isinstance(value, str) and '"' in value and "'" not in value:
        return tomlkit.string(value, literal=True)
    if not isinstance(value, dict):
        return value
    inline = tomlkit.inline_table()
    inline.update(value)
    return inline
