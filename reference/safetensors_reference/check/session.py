"""One run of ``stc check``: checks, counts and prints files and models, and fills the output files."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from ..rules.faults import shown_name, without_name
from ..source import UnreadableError
from .digests import DigestResult, sha256_of, state_of
from .inputs import ModelInput, expand_paths
from .models import FolderModels
from .output import (
    ProgressBar,
    print_brief,
    print_brief_model,
    print_line,
    print_model,
    print_result,
    unread_model_line,
    unreadable_line,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..rules.book import ProfileName
    from .digests import DigestList
    from .inputs import CheckInput
    from .models import ModelResult
    from .result import CheckResult, Status
    from .sarif import SarifLog
    from .statement import CheckRecord

EXIT_STATUS = {"valid": 0, "invalid": 1, "unreadable": 2}


@dataclass
class Session:
    """Options and running totals of one run of ``stc check``."""

    profile: ProfileName
    as_json: bool = False
    quiet: bool = False
    limit: int | None = None  # maximum number of faults to print per file
    log: SarifLog | None = None
    digests: DigestList | None = None
    checked: CheckRecord | None = None
    statuses: Counter[Status] = field(default_factory=Counter)
    models: Counter[Status] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._members = FolderModels(self.profile)

    def run(self, paths: Sequence[str]) -> None:
        with ProgressBar() as bar:
            for item in expand_paths(paths):
                if isinstance(item, ModelInput):
                    for model in self._members.judge(item):
                        self._model(model, bar)
                else:
                    self._file(item, bar)
                    bar.advance()
            if self.digests is not None:
                for result in self.digests.rest():
                    self._digest(result, bar)

    @property
    def exit_status(self) -> int:
        status = max(EXIT_STATUS[s] for s in (*self.statuses, *self.models, "valid"))
        answers = Counter() if self.digests is None else self.digests.answers
        if answers["unreadable"]:
            return 2
        return max(status, int(answers.total() > answers["as listed"]))

    def _file(self, item: CheckInput, bar: ProgressBar) -> None:
        hashing = self.digests is not None or self.checked is not None
        state = state_of(item.name) if hashing else None
        result = self._members.check(item)
        self.statuses[result.status] += 1
        if self.log is not None:
            self.log.add(result)
        if self.as_json or not self.quiet or result.status != "valid":
            with bar.hidden(to_stderr=result.status == "unreadable"):
                if self.as_json:
                    click.echo(result.to_json())
                elif result.status == "unreadable":
                    click.echo(unreadable_line(result), err=True)
                elif self.quiet:
                    print_brief(print_line, result)
                else:
                    print_result(print_line, result, self.limit)
        if hashing and item.problem is None:
            self._hash(result, state, bar)

    def _hash(self, result: CheckResult, state: tuple[int, int, int, int] | None, bar: ProgressBar) -> None:
        found = why = None
        try:
            found = sha256_of(result.name, state)
        except UnreadableError as err:
            why = without_name(str(err), result.name)
        if self.checked is not None:
            self.checked.add_file(result, found)
            if why is not None and result.status != "unreadable" and self.digests is None:
                self._digest(DigestResult(result.name, "unreadable", why=why), bar)
                self.statuses["unreadable"] += 1
        if self.digests is not None:
            self._digest(self.digests.compare(result.name, found, why), bar)

    def _digest(self, result: DigestResult, bar: ProgressBar) -> None:
        wrong = result.answer != "as listed"
        if wrong and self.log is not None:
            self.log.add_digest(result)
        if wrong and self.checked is not None:
            self.checked.failed.append(result.name)
        if not self.as_json and not wrong:
            return
        unreadable = result.answer == "unreadable"
        with bar.hidden(to_stderr=unreadable):
            if self.as_json:
                click.echo(result.to_json())
            else:
                text = shown_name(f"{result}")
                click.echo(f"{shown_name(result.name)}: {text}{' (IO_ERROR)' * unreadable}", err=unreadable)

    def _model(self, result: ModelResult, bar: ProgressBar) -> None:
        self.models[result.status] += 1
        if self.log is not None:
            self.log.add_model(result)
        if self.checked is not None:
            self.checked.add_model(result)
        # With --quiet, the faults of files are not printed a second time.
        own = any(finding.kind == "fault" for finding in result.model_only)
        if self.quiet and not self.as_json and not own and result.status != "unreadable":
            return
        with bar.hidden(to_stderr=result.status == "unreadable"):
            if self.as_json:
                click.echo(result.to_json())
            elif result.status == "unreadable":
                click.echo(unread_model_line(result), err=True)
            elif self.quiet:
                print_brief_model(print_line, result)
            else:
                print_model(print_line, result, self.limit)
