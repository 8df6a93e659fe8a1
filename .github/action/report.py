"""Create the report of the runs, and add it to the job summary."""

from __future__ import annotations

import re
from pathlib import Path

from common import Settings, annotate, keep_status, load_settings, output, run, step, summary

LOG_LINES = 40
FORMS = ("--markdown", "--html", "--sarif", "--badge")


def sources(settings: Settings) -> list[str]:
    """Return the folders that contain records or findings."""
    found = []
    if any(settings.runs.glob("*.jsonl")):
        found.append(str(settings.runs))
    if any(settings.findings.glob("*/finding.json")):
        found.append(str(settings.findings))
    return found


def baseline(settings: Settings) -> list[str]:
    """Return the baseline files that the run may have used."""
    if settings.baseline:
        return [settings.baseline]
    return [f"{record.stem}.baseline.toml" for record in settings.runs.glob("*.jsonl")]


def fenced(text: str) -> str:
    """Return the text as a code block that the text itself cannot close."""
    marks = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, marks + 1)
    return f"{fence}text\n{text}\n{fence}"


def log_end(settings: Settings, step: str) -> str:
    """Return the last lines that a step printed, without control characters."""
    path = Path(settings.work, f"{step}.log")
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else "(nothing)"
    lines = ["".join(c for c in line if c.isprintable())[:500] for line in text.splitlines()]
    return "\n".join(lines[-LOG_LINES:])


def main() -> None:
    """Write report.json and all other forms of the report next to the records."""
    settings = load_settings()
    if settings.check:
        import files

        files.report(settings)
        return
    runs = sources(settings)
    if not runs:
        annotate(
            "error",
            f"{settings.implementation}: there is nothing to report, because the corpus run produced no "
            "records",
        )
        summary(f"### {settings.name}: no results\n\n{fenced(log_end(settings, 'run'))}")
        keep_status(settings, "report", 2)
        output(sarif="false")
        return
    argv = [settings.program("stc"), "report", f"--output={settings.report}", *FORMS]
    argv += [f"--baseline={path}" for path in baseline(settings) if Path(path).is_file()]
    status = run(settings, "report", [*argv, "--", *runs])
    if status in (0, 1):  # 1 means that some lines of a record were unreadable, and the report says so
        summary(Path(settings.report, "report.md").read_text(encoding="utf-8"))
    else:
        annotate("error", f"the report could not be created: {log_end(settings, 'report').strip()}")
        summary(f"### {settings.name}: no report\n\n{fenced(log_end(settings, 'report'))}")
    output(sarif=str(status in (0, 1)).lower())


if __name__ == "__main__":
    step(main)
