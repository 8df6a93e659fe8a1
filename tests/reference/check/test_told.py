"""Exit status 1 is never silent: every form of the output tells what it is about, whatever is wrong."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from safetensors_reference.files.names import shard_name

from ..audit.support import BROKEN, VALID, stc_audit, write_tree
from ..support import ABCD, W, make
from .support import load_log, results, run

INDEXES = ("m.safetensors.index.json", "m.safetensors.index.fp16.json", "m.fp16.safetensors.index.json")
DIGESTS = ("digest-differs", "digest-missing", "digest-not-listed")
FAULTS = ("file", "index", "shard-broken", "shard-missing", "tensor-elsewhere", "numbered", *DIGESTS)


def broken_model(folder: Path, index: str, fault: str) -> list[str]:
    """Write a model with one fault, and return the options under which it shows."""
    first, second = (shard_name("m.fp16" if "fp16" in index else "m", n, 2) for n in (1, 2))
    other = make(f'{{"v":{W}}}', ABCD)
    files = {first: VALID, second: other}
    files[index] = json.dumps({"weight_map": {"w": first, "v": second}}).encode()
    if fault == "file":
        files["x.safetensors"] = BROKEN
    elif fault == "index":
        files[index] = b"[]"
    elif fault == "shard-broken":
        files[second] = BROKEN
    elif fault == "tensor-elsewhere":
        files[second] = make(f'{{"u":{W}}}', ABCD)
    elif fault in ("shard-missing", "numbered"):
        del files[second]
    if fault == "numbered":
        del files[index]
    write_tree(folder, files)
    if not fault.startswith("digest"):
        return []
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    if fault == "digest-not-listed":
        del digests[index]
    else:
        digests[index if fault == "digest-differs" else "gone.bin"] = "0" * 64
    (folder / "SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))
    return ["--digests", str(folder / "SUMS")]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("index", INDEXES)
def test_a_fault_is_told_in_every_form(index: str, fault: str, tmp_path: Path) -> None:
    model, sarif, intoto = tmp_path / "model", tmp_path / "x.sarif", tmp_path / "x.intoto.json"
    options = broken_model(model, index, fault)
    for form in ((), ("--quiet",), ("--json",)):
        done = run(*form, model, *options)
        assert (done.exit_code, bool(done.stdout)) == (1, True), form
    run("-q", model, *options, "--sarif", sarif, "--intoto", intoto)
    assert [r for r in results(load_log(sarif)) if r["level"] in ("error", "warning")]
    predicate = json.loads(intoto.read_bytes())["predicate"]
    assert (predicate["result"], bool(predicate["failedTests"])) == ("FAILED", True)
    if not options and fault != "numbered":  # an audit has no row for a model without an index
        done = stc_audit(model)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert (done.exit_code, "invalid" in {row["verdict"] for row in rows}) == (1, True)
        assert "model" in {row.get("kind") for row in rows}
