"""Adapters of installed implementations start, pass the smoke cases, and lack what they declare."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from safetensors_conformance.implementations.descriptor import descriptors
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.implementations.support import cut_out, lacking
from safetensors_conformance.run.session import Session, smoke
from safetensors_conformance.worker.worker import Limits
from safetensors_corpus import Case

from ..support import committed, there

SELECTORS = [d.selector(e) for d in descriptors().values() for e in d.entries]
BY_DAY = {"reference", "safetensors", "netron", "modelvet"}
"""One each in Python, Rust, JavaScript and C; that of torch has a test of its own."""

CASES = {
    **{
        feature: (f"dtype/eight-elements-{feature[6:]}", f"writer/dtype-{feature[6:]}")
        for feature in lacking.dtypes(*lacking.CODES)
    },
    "escape-in-key": ("header/name-with-text-of-escape",),
}
"""Feature -> valid cases that need it, and nothing else that anybody lacks, to be read and to be written."""


def witnesses(feature: str) -> list[Case]:
    return [committed().by_id[case] for case in CASES[feature]]


def not_refused(session: Session) -> list[str]:
    """Return declared features with the cases that are not refused, and the verdicts on them."""
    who = session.start()
    # Nothing is excused, and an entry that claims a part of the corpus alone is asked about the rest.
    session.implementation = replace(who, lacks=frozenset(), areas=frozenset())
    found = []
    for feature in sorted(who.lacks) if who.steps else ():  # others only load onto devices
        asked = [session.judge(case) for case in witnesses(feature) if session.steps(case)]
        assert asked, f"{feature} is declared, and no step of {who.name} shows it"
        found += [
            f"{feature}, {verdict.case.id}: {verdict.verdict}"
            for verdict in asked
            if {step.result.outcome for step in verdict.steps.values()}.isdisjoint({"reject", "unsupported"})
        ]
    return found


@pytest.mark.parametrize(
    "selector", [s if s in BY_DAY else pytest.param(s, marks=pytest.mark.nightly) for s in SELECTORS]
)
def test_an_installed_implementation_passes_the_smoke_cases_and_lacks_what_is_declared(selector: str) -> None:
    target = resolve(selector)
    if not there(target):
        pytest.skip("not installed here")
    with Session(target, Limits(seconds=60)) as session:
        who = session.start()
        assert who.version != "unknown"
        if target.environment is not None:
            # A local part such as +cpu says where the same release was built.
            assert who.version.partition("+")[0] == target.environment.version
        assert smoke(session, committed().cases) is None
        assert not_refused(session) == []


def test_the_files_need_the_feature_and_are_valid() -> None:
    for feature, case in ((name, case) for name in CASES for case in witnesses(name)):
        assert case.expect is not None
        assert (case.expect.outcome, case.smoke) == ("accept", False), case.id
        assert {feature} <= set(case.features) <= {feature, "dtype-f32"}, case.id


def test_the_known_dtypes_may_come_one_by_one() -> None:
    known = ("BOOL", "F8_E8M0", "F32")
    others = [code for code in lacking.CODES if code not in known]
    assert len(others) == len(lacking.CODES) - len(known)
    assert lacking.all_but(code for code in known) == lacking.dtypes(*others)


# One module of a package, imported alone while the rest of the package is absent


MODULE = """
import whole
import whole.deep.part
from other import Base, decorate
from whole.options import level

@decorate(once=True)
def forgotten():
    pass

class Loader(Base):
    def load(self, path):
        return path, level, whole.deep.part.ANYTHING
"""


def test_a_module_of_a_checkout_runs_without_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "whole"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('needs what is not installed')\n")
    (package / "loader.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = {"whole.options": {"level": 3}}
    made = cut_out.module(None, "whole/loader.py", ("whole", "other"), names)
    assert made.__file__ == str(package / "loader.py")
    path, level, anything = made.Loader().load("model.safetensors")
    assert (path, level) == ("model.safetensors", 3)
    assert isinstance(anything, type)
    assert not {"whole", "whole.deep.part", "whole.options", "other"} & set(sys.modules)
    with pytest.raises(ImportError, match="needs what is not installed"):
        __import__("whole")
    # What is not named as absent has to be there.
    with pytest.raises(ModuleNotFoundError, match="other"):
        cut_out.module(None, "whole/loader.py", ("whole",))
    assert "whole" not in sys.modules


def test_a_module_of_a_distribution_is_found_where_that_is_installed() -> None:
    import iniconfig

    made = cut_out.module("iniconfig", "iniconfig/exceptions.py")
    assert made is not sys.modules[iniconfig.__name__]
    assert issubclass(made.ParseError, Exception)
    with pytest.raises(ImportError, match=r"whole/loader\.py does not exist in any folder of PYTHONPATH"):
        cut_out.module(None, "whole/loader.py")
