"""Names that are not UTF-8 differ from every name of a valid file and affect no other verdict."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from safetensors_conformance.case_verdict import CaseVerdict
from safetensors_conformance.cli.report import report as report_command
from safetensors_conformance.cli.run import run as run_command
from safetensors_conformance.implementations.selectors import Target, resolve
from safetensors_conformance.run.session import CaseRunner, Session
from safetensors_conformance.worker.worker import Limits, make_worker

from ..support import HERE, REPOSITORY, TRIGGER, cases

pytestmark = pytest.mark.usefixtures("loaded_once")

FAKES = HERE / "bytes_fakes.py"
PACKAGE = REPOSITORY / "conformance" / "safetensors_conformance"
NO_UTF8 = ("header/name-bytes-ff", "header/bytes-in-name-latin-1-letter", "header/name-bytes-surrogate")
VALID = (TRIGGER, "layout/two-dtypes", "header/edges-of-utf8-in-name", "header/edges-of-utf8-in-metadata")


def program(how: str) -> str:
    return f"cmd:{sys.executable} {FAKES} {how}"


ADAPTER = f"py:{FAKES}:GivesBytes"


def verdicts(selector: str, *ids: str) -> dict[str, CaseVerdict]:
    with Session(CaseRunner(resolve(selector))) as session:
        session.runner.plan(cases(*ids))
        return {case.id: session.judge(case) for case in cases(*ids)}


@pytest.mark.parametrize("selector", [program("raw"), program("hex"), ADAPTER])
def test_who_takes_such_a_name_is_found_out_and_is_right_about_the_others(selector: str) -> None:
    found = verdicts(selector, *NO_UTF8, *VALID)
    told = {case: verdict.verdict for case, verdict in found.items()}
    assert told == dict.fromkeys(NO_UTF8, "wrong-accept") | dict.fromkeys(VALID, "pass")


def test_who_refuses_with_the_bytes_in_the_message_passes() -> None:
    found = verdicts(program("refuses"), *NO_UTF8, *VALID)
    assert {verdict.verdict for verdict in found.values()} == {"pass"}
    assert "\\xff" in found["header/name-bytes-ff"].final.result.message


def test_node_hands_on_bytes(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("no Node.js here")
    adapter = tmp_path / "bytes.mjs"
    adapter.write_text(
        "const name = new Uint8Array([0x77, 0xff]);\n"
        "const read = () => [{ name, dtype: null, shape: null }];\n"
        "export const make = async () => ({ name: 'b', read });\n",
        encoding="utf-8",
    )
    host = str(PACKAGE / "host" / "node_host.mjs")
    worker = make_worker(Target("b", "node", ("node", host, str(adapter), str(tmp_path))), Limits())
    try:
        worker.start()
        result = worker.ask("read", "/nothing")
    finally:
        worker.close()
    assert [row["name"] for row in result.tensors or ()] == ["w\udcff"]


@pytest.mark.by_day(1)
@pytest.mark.parametrize("selector", [program("raw"), ADAPTER, f"py:{FAKES}:Surrogates"])
def test_records_and_reports_hold_such_names(tmp_path: Path, selector: str) -> None:
    runner = CliRunner()
    names = ["--case", "header/name-bytes-*", "--case", "layout/*two-dtypes", "--case", "framing/*"]
    ran = runner.invoke(run_command, ["--impl", selector, "--no-smoke", "--report", str(tmp_path), *names])
    assert ran.exit_code == 1, ran.output
    assert "wrong-accept 0" not in ran.output or "wrong-content 0" not in ran.output
    (record,) = tmp_path.glob("*.jsonl")
    rows = [json.loads(line) for line in record.read_bytes().decode("ascii").splitlines()]
    assert any("\\udc" in json.dumps(row.get("content")) for row in rows)
    out = tmp_path / "audit"
    everything = ["--html", "--markdown", "--sarif", "--intoto", "--badge", f"--artifact={selector}={FAKES}"]
    reported = runner.invoke(report_command, [str(record), "-o", str(out), *everything])
    assert reported.exit_code == 0, reported.output
    for path in out.iterdir():
        path.read_bytes().decode("utf-8")
