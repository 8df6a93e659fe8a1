"""Hypothesis strategies for valid, invalid and arbitrary files.

Use them in the tests of your reader::

    from hypothesis import given
    from safetensors_fuzz.strategies import valid_files

    @given(valid_files())
    def test_opens(data: bytes) -> None:
        mylib.loads(data)

The strategies use the grammar of this package and shrink towards fewer tensors.
"""

from __future__ import annotations

from hypothesis import assume
from hypothesis import strategies as st

from safetensors_reference import explain
from safetensors_reference.rules.faults import REPORTED_RULES

from .grammar.grammar import FAULTS_BY_RULE, Grammar

_RANDOMS = st.randoms(use_true_random=False)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Draw the bytes of a file with at most two faults, or with none."""
    return Grammar(draw(_RANDOMS)).alone().render()


@st.composite
def valid_files(draw: st.DrawFn) -> bytes:
    """Draw the bytes of a file that is valid under the profile ``hardened``."""
    data = Grammar(draw(_RANDOMS)).fresh().render()
    assume(explain(data, "hardened").valid)
    return data


@st.composite
def broken_files(draw: st.DrawFn, rule: str | None = None) -> bytes:
    """Draw the bytes of a file that readers must reject.

    ``rule`` is the id of a rule that the file breaks, possibly in addition to other rules. If it is None, the
    file may break any rule. Raises ValueError if no mutation targets the rule.
    """
    if rule is not None and rule not in FAULTS_BY_RULE:
        raise ValueError(f"no fault targets {rule!r}; available rules: {', '.join(FAULTS_BY_RULE)}")
    rng = draw(_RANDOMS)
    grammar = Grammar(rng)
    file = grammar.fresh()
    if rule is None:
        grammar.break_one(file)
    else:
        assume(rng.choice(FAULTS_BY_RULE[rule]).apply(rng, file))
    data = file.render()
    broken = {fault.rule for fault in explain(data, "hardened").faults}
    assume(broken and (rule is None or rule not in REPORTED_RULES or rule in broken))
    return data
