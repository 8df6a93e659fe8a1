"""Checks the models among the checked files, using the results of those files."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..files.names import find_models, is_index
from ..files.remote import is_remote
from ..rules.faults import without_name
from .inputs import CheckInput
from .result import CheckResult, check_input

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..files.names import ModelFiles
    from ..header.explain import Explanation
    from ..model.judge import ModelFinding, ModelJudgement
    from ..model.shards import Shard
    from ..rules.book import ProfileName
    from .inputs import ModelInput
    from .result import Status


@dataclass(frozen=True, slots=True)
class ModelResult:
    """Result of checking one model. Its name consists of folder and stem, such as ``models/llama/model``."""

    name: str
    folder: str
    profile: ProfileName
    judgement: ModelJudgement

    @property
    def status(self) -> Status:
        return self.judgement.status

    @property
    def model_only(self) -> list[ModelFinding]:
        return [f for f in self.judgement.findings if not f.inner]

    @property
    def codes(self) -> Counter[str]:
        return Counter(f.code or "" for f in self.judgement.of("fault"))

    def path_of(self, file: str) -> str:
        return beside_name(self.folder, file)

    def to_dict(self) -> dict[str, object]:
        judged = self.judgement
        return {
            "model": self.name,
            "kind": "model",
            "readable": self.status != "unreadable",
            "valid": self.status == "valid",
            "profile": self.profile,
            "index": judged.index,
            "shards": len(judged.shards),
            "tensors": judged.tensors,
            "data_size": judged.data_size,
            "complete": judged.complete,
            "unread": judged.unread,
            "findings": [finding.to_dict() for finding in judged.findings],
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict())


def beside_name(folder: str, name: str) -> str:
    return f"{folder}/{name}" if is_remote(folder) else os.path.join(folder, name)  # noqa: PTH118


class FolderModels:
    """Keeps the results of the model files in a folder, so that each file is read only once."""

    def __init__(self, profile: ProfileName) -> None:
        self._profile = profile
        self._results: dict[str, CheckResult] = {}

    def check(self, item: CheckInput) -> CheckResult:
        result = check_input(item, self._profile, self._explanations() if is_index(item.name) else None)
        if item.member:
            separator = "/" if is_remote(item.name) else os.sep
            self._results[item.name.rpartition(separator)[2]] = result
        return result

    def judge(self, item: ModelInput) -> Iterator[ModelResult]:
        named: set[str] = set()
        for files in find_models(item.names):
            if files.index is None and named.issuperset(files.numbers):
                continue  # an index with another name covers these files
            judged = self._judge(files, item)
            if files.index is not None:
                named.update(judged.shards)
            yield ModelResult(beside_name(item.folder, files.stem), item.folder, self._profile, judged)
        self._results.clear()

    def _explanations(self) -> dict[str, Explanation]:
        return {name: r.explanation for name, r in self._results.items() if r.explanation is not None}

    def _judge(self, files: ModelFiles, item: ModelInput) -> ModelJudgement:
        # This import is deferred because most runs have no model with several files.
        from ..model.judge import ModelJudgement, judge_model

        wanted = (
            files.numbers if files.index is None else tuple(n for n in files.numbers if n in self._results)
        )
        rivals = tuple(name for name in files.rivals if name in self._results)
        shards = {name: _shard(self._result(item.folder, name)) for name in (*wanted, *rivals)}
        if files.index is None:
            return judge_model(files, None, shards, item.names, self._profile)
        index = self._result(item.folder, files.index)
        if index.index is None:
            why = without_name(index.error or "it was not read", index.name)
            return ModelJudgement(files.stem, files.index, unread={files.index: why})
        return judge_model(files, index.index, shards, item.names, self._profile)

    def _result(self, folder: str, name: str) -> CheckResult:
        if name not in self._results:
            explanations = self._explanations()
            self._results[name] = check_input(
                CheckInput(beside_name(folder, name)), self._profile, explanations
            )
        return self._results[name]


def _shard(result: CheckResult) -> Shard:
    from ..model.shards import Shard, shard_of

    if result.error is not None:
        return Shard(unread=without_name(result.error, result.name))
    return Shard() if result.explanation is None else shard_of(result.explanation)
