"""Adapters of installed implementations: each starts and passes the smoke cases.

Nothing is installed here: an implementation whose environment was not made (``stc impl sync``) is skipped.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from safetensors_conformance.implementations.descriptor import HERE
from safetensors_conformance.implementations.selectors import Target, resolve
from safetensors_conformance.run.driver import ImplementationRun, RunOptions
from safetensors_conformance.run.session import CaseRunner, Session, smoke
from safetensors_conformance.worker.worker import Limits, make_worker

from ..support import committed
from .known import every_known, there


@every_known
def test_an_installed_implementation_starts_and_passes_the_smoke_cases(selector: str) -> None:
    target = resolve(selector)
    if not there(target):
        pytest.skip("not installed here")
    with Session(CaseRunner(target, Limits(seconds=60))) as session:
        who = session.start()
        assert who.version != "unknown"
        if target.environment is not None:
            # A local part such as +cpu says where the same release was built.
            assert who.version.partition("+")[0] == target.environment.version
        assert smoke(session, committed().cases) is None


def test_what_is_known_of_torch_stands_in_one_adapter_file() -> None:
    tables = [path for path in HERE.rglob("*.py") if "float8_e4m3fnuz" in path.read_text("utf-8")]
    assert [path.name for path in tables if "torch" in str(path.relative_to(HERE))] == ["torch_rows.py"]


@pytest.mark.nightly  # the matrix of make conformance and the published report show it, too
def test_the_official_torch_adapter_tells_every_dtype_that_torch_has() -> None:
    if not there(resolve("safetensors:torch")):
        pytest.skip("not installed here")
    manifest = committed()
    options = RunOptions(manifest, limits=Limits(seconds=60))
    with closing(ImplementationRun(resolve("safetensors:torch"), options)) as subject:
        assert subject.problem is None
        cases = [c for c in manifest.cases if c.area == "dtype" and subject.session.runner.steps(c)]
        assert len(cases) > 20
        verdicts = [subject.verdict(case) for case in cases]
        assert [v.case.id for v in verdicts for s in v.steps if subject.assess(v, s).status == "failed"] == []


ODD_ADAPTER = """
let nest = []; for (let i = 0; i < 100000; i++) nest = [nest];
export const make = async () => ({
  name: 'odd', version: '1',
  read: () => ({ tensors: [{ name: 'w', dtype: {}, shape: [nest, 2n ** 64n] }], metadata: { a: nest } }),
});
"""


def test_a_node_adapter_keeps_what_is_no_number_out_of_its_answers(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("no Node.js here")
    (tmp_path / "odd.mjs").write_text(ODD_ADAPTER, encoding="utf-8")
    host = str(HERE.parent / "host" / "node_host.mjs")
    target = Target("odd", "node", ("node", host, str(tmp_path / "odd.mjs"), str(tmp_path)))
    with closing(make_worker(target, Limits())) as worker:
        assert worker.start().steps == ("read",)
        answer = worker.ask("read", "/nothing")
    assert answer.outcome == "accept"
    assert answer.tensors == [{"name": "w", "dtype": "(an object)", "shape": ["(a list)", 2**64]}]
    assert type((answer.tensors or [])[0]["shape"][1]) is int
    assert answer.metadata == {"a": "(a list)"}
