"""Run the most basic cases against a minimal reader."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from safetensors_corpus_data import bytes_of, cases


def read(data: bytes) -> tuple[dict[str, Any], Any]:
    """Return the tensors and the metadata. Raises ValueError if the file is invalid."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8 or data[8:9] != b"{":
        raise ValueError("no header")
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__", None)
    tensors, body = {}, data[8 + size :]
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["dtype"], entry["shape"], hashlib.sha256(body[begin:end]).hexdigest())
    return tensors, metadata


SMOKE = [case for case in cases() if case.get("smoke") and case["kind"] == "read"]


@pytest.mark.parametrize("case", SMOKE, ids=[case["id"] for case in SMOKE])
def test_smoke(case: dict[str, Any]) -> None:
    expect = case["expect"]
    if expect["outcome"] == "reject":
        with pytest.raises(ValueError, match=r"header|Expecting"):
            read(bytes_of(case))
        return
    content = expect["content"]
    tensors = {t["name"]: (t["dtype"], t["shape"], t["sha256"]) for t in content["tensors"]}
    assert read(bytes_of(case)) == (tensors, content["metadata"])
