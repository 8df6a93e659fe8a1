"""The conformance suite in the form that pytest collects: a file with items generated from the corpus.

Run it with ``pytest conformance --impl=NAME`` in a checkout, or with ``pytest --pyargs
safetensors_conformance --impl=NAME`` from an installed wheel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from safetensors_conformance.outcome import STEPS
from safetensors_conformance.pytest_suite.suite import SuiteItem, suite_of
from safetensors_corpus import Case


class SuiteFile(pytest.File):
    """The file that pytest collects. It contains the items of all implementations."""

    def collect(self) -> Iterator[SuiteItem]:
        # Computed once, because the report of each item contains the names of all folders above it.
        self.keywords = dict(self.keywords)
        suite = suite_of(self.config)
        for selector in suite.driver.targets:
            yield self._item("smoke", "", selector, partial(suite.run_smoke, selector))
        for selector in suite.driver.targets:
            if suite.driver.implementation(selector).problem is None:
                yield self._item("baseline", "", selector, partial(suite.run_baseline, selector))
        for step in STEPS:
            for selector, case in suite.items(step):
                ask = partial(suite.run_step, selector, case, step)
                yield self._item(step, case.id, selector, ask, case)
        for selector, choice in suite.open_choices():
            yield self._item("choice", choice, selector, partial(suite.run_choice, selector, choice))

    def _item(
        self,
        kind: str,
        about: str,
        selector: str,
        ask: Callable[[pytest.Item], None],
        case: Case | None = None,
    ) -> SuiteItem:
        words = f"{about}-{selector}" if about else selector
        # The same form as the parameters of a function: ASCII in brackets, which pytest recognises (--lf).
        name = f"test_{kind}[{words.encode('unicode_escape').decode()}]"
        return SuiteItem.from_parent(
            self, name=name, nodeid=f"{self.nodeid}::{name}", kind=kind, selector=selector, case=case, ask=ask
        )
