"""Which readers fail the smoke cases because of a wrong adapter."""

from __future__ import annotations

import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.run.cases import CaseRunner
from safetensors_conformance.run.driver import smoke
from safetensors_conformance.run.session import Session
from safetensors_conformance.worker.worker import Limits

from ..support import committed, fake


@pytest.mark.parametrize(("name", "complains"), [("DiesOfNoBytes", False), ("AlwaysDies", True)])
def test_a_reader_that_dies_of_a_broken_file_has_no_wrong_adapter(name: str, complains: bool) -> None:
    session = Session(CaseRunner(resolve(fake(name)), Limits(seconds=20)))
    try:
        session.start()
        assert (smoke(session, committed().cases) is not None) is complains
    finally:
        session.close()
