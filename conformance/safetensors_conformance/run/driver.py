"""The driver of a run; the pytest plugin and ``stc run`` are its adapters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from safetensors_corpus import Case

from ..implementations.selectors import Target
from .baseline import check_baseline_option
from .implementation_run import Assessment, CauseLimiter, ImplementationRun
from .options import RunOptions
from .results import ImplementationResults, ReportError, RunResults


class Run:
    """Runs implementations over a corpus, each started on first use, and collects the results."""

    def __init__(self, targets: Iterable[Target], options: RunOptions) -> None:
        """Check the baseline option. Raises BaselineError."""
        self.targets = {target.selector: target for target in targets}
        self.options = options
        self.unwritten = ""
        """Why the report could not be written."""
        self._runs: dict[str, ImplementationRun] = {}
        self._limiters: dict[str, CauseLimiter] = {}
        self._results: RunResults | None = None
        check_baseline_option(options.baseline, list(self.targets), read=options.use_baseline)

    def implementation(self, selector: str) -> ImplementationRun:
        """Return the run of one implementation, started on the first call. Raises StoppedError."""
        if selector not in self._runs:
            run = self._runs[selector] = ImplementationRun(self.targets[selector], self.options)
            self._limiters[selector] = CauseLimiter(run, full=self.options.full_failures)
        return self._runs[selector]

    def failure_text(self, selector: str, assessment: Assessment) -> str:
        """Return the message about a failure, shortened if its cause was shown often enough."""
        return self._limiters[selector].message(assessment.row, assessment.text)

    def cases(self) -> list[Case]:
        return [case for case in self.options.manifest.cases if self.options.heavy or not case.heavy]

    @property
    def results(self) -> RunResults:
        """The results, which lock the report folder from the first use. Raises ReportError."""
        if self._results is None:
            self._results = RunResults(self.options)
        return self._results

    def results_of(self, selector: str) -> ImplementationResults:
        return self.results.of(self.targets[selector])

    def add(self, selector: str, message: Mapping[str, Any]) -> None:
        """Add a header, result, choice or problem of an implementation. Raises ReportError."""
        self.results_of(selector).add(message)

    @property
    def has_problems(self) -> bool:
        return self._results is not None and any(
            one.problems for one in self._results.implementations.values()
        )

    def finish(self) -> None:
        """End all implementations and write the report; ``unwritten`` says why it could not be written."""
        for run in self._runs.values():
            run.close()
        if self._results is not None:
            try:
                self._results.finish()
            except ReportError as err:
                self.unwritten = self.unwritten or str(err)

    def summary(self) -> list[str]:
        return [] if self._results is None else self._results.summary()
