"""The driver of a run; the pytest plugin and ``stc run`` are its adapters."""

from __future__ import annotations

from collections.abc import Iterable

from safetensors_corpus import Case

from ..implementations.selectors import Target
from .baseline import check_baseline_option
from .implementation_run import ImplementationRun
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
        self._results: RunResults | None = None
        check_baseline_option(options.baseline, list(self.targets), read=options.use_baseline)

    def implementation(self, selector: str) -> ImplementationRun:
        """Return the run of one implementation, started on the first call. Raises StoppedError."""
        if selector not in self._runs:
            self._runs[selector] = ImplementationRun(self.targets[selector], self.options)
        return self._runs[selector]

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
