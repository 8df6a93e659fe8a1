"""What a test case of JUnit XML says about itself beside its verdict."""

from __future__ import annotations

from safetensors_corpus import Case
from safetensors_reference.rules.cwe import CWE_OF_CODE


def case_properties(case: Case) -> list[tuple[str, str]]:
    """Return (name, value) pairs; several values of one name stand in one, with blanks between.

    ``rules``, ``area`` and ``level`` are those of the corpus. ``cwe`` holds the numbers of the Common
    Weakness Enumeration that belong to the fault codes a refusal is expected for; left out without any.
    """
    wanted = (case.expect, *case.options.values())
    codes = [code for one in wanted if one is not None for code in one.codes]
    numbers = dict.fromkeys(number for code in codes for number in CWE_OF_CODE.get(code, ()))
    out = [("rules", " ".join(case.rules)), ("area", case.area), ("level", case.level)]
    if numbers:
        out.append(("cwe", " ".join(map(str, numbers))))
    return out
