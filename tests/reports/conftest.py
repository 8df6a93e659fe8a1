"""Builders for run records, shared by the tests of the reports package."""

from __future__ import annotations

from typing import Any

import pytest

from safetensors_reports.record.run import RunRecord


class Make:
    """Builds records and their lines as a run would write them."""

    @staticmethod
    def header(name: str = "safetensors", version: str = "0.8.0", **more: Any) -> dict[str, Any]:
        who = {
            "selector": name,
            "name": name,
            "version": version,
            "language": "Rust",
            "steps": ["open", "read"],
            "lacks": more.pop("lacks", []),
        }
        return {
            "type": "header",
            "record": 1,
            "suite": "2026.11.0",
            "implementation": who,
            "corpus": {"version": "2026.11", "digest": "0" * 64, "cases": more.pop("cases", 4)},
            "profile": None,
            "limits": {"time_s": 10.0, "memory_bytes": 2147483648},
            "started": "2026-11-21T03:00:00Z",
            "baseline": None,
            "platform": "Linux",
            "python": "3.11.7",
        } | more

    @staticmethod
    def result(case: str, verdict: str = "pass", **more: Any) -> dict[str, Any]:
        return {
            "type": "result",
            "case": case,
            "step": "read",
            "outcome": "accept",
            "verdict": verdict,
            "level": "must",
            "importance": "high",
            "rules": ["OFF-07"],
            "choice": None,
            "options": [],
            "expected_failure": False,
            "detail": "",
            "message": "",
            "exception": None,
            "documented": None,
            "wall_ms": 0.4,
            "cpu_ms": 0.2,
            "peak_bytes": 0,
            "noise": "",
            "content": None,
        } | more

    @staticmethod
    def content(*names: str, metadata: Any = ..., **fields: Any) -> dict[str, Any]:
        tensors = [
            {"name": n, "dtype": "F32", "shape": [1], "nbytes": 4, "sha256": "aa"} | fields for n in names
        ]
        return {"tensors": tensors} | ({} if metadata is ... else {"metadata": metadata})

    @classmethod
    def run(cls, *results: dict[str, Any], footer: Any = ..., **more: Any) -> RunRecord:
        """Build a record; it is complete unless ``footer`` says otherwise."""
        choices, problems = more.pop("choices", []), more.pop("problems", [])
        end = (
            {"type": "footer", "complete": True, "duration_s": 3.1, "not_run": 0} if footer is ... else footer
        )
        cases = more.pop("cases", len({r["case"] for r in results}))
        return RunRecord(cls.header(cases=cases, **more), list(results), choices, problems, end)

    @classmethod
    def answers(cls, name: str, **cases: Any) -> RunRecord:
        """Build a record from case -> content of an accept, or the outcome when it is a text."""
        rows = [
            cls.result(case, outcome=answer)
            if isinstance(answer, str)
            else cls.result(case, outcome="accept", content=answer)
            for case, answer in cases.items()
        ]
        return cls.run(*rows, name=name, version="1")


@pytest.fixture(scope="session")
def make() -> type[Make]:
    return Make
