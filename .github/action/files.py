"""Check the model files of the repository. In this mode, the action does not test an implementation."""

from __future__ import annotations

from pathlib import Path

from common import (
    Settings,
    annotate,
    keep_status,
    kept_status,
    load_settings,
    output,
    read_json,
    run,
    step,
    summary,
)
from report import fenced, log_end


def paths(settings: Settings) -> list[str]:
    """Return the paths from the input, which has one per line."""
    return [line.strip() for line in settings.check.splitlines() if line.strip()]


def log_path(settings: Settings) -> Path:
    """Return the path of the SARIF log that the check writes."""
    return Path(settings.report, "report.sarif")


def report(settings: Settings) -> None:
    """Add the output of the check to the job summary, and save it next to the SARIF log."""
    status = kept_status(settings, "files")
    words = {0: "all files are valid", 1: "some files have faults"}
    title = words.get(-1 if status is None else status, "some files could not be checked")
    text = log_end(settings, "files")
    summary(f"### {settings.name}: {title}\n\n{fenced(text)}")
    log = Path(settings.work, "files.log")
    if log.exists():
        Path(settings.report, "report.txt").write_bytes(log.read_bytes())
    keep_status(settings, "report", 0)
    output(sarif=str(log_path(settings).is_file()).lower())


def findings_count(settings: Settings) -> str:
    """Return the number of faults in the SARIF log, without notes, or an empty string if there is no log."""
    path = log_path(settings)
    if not path.is_file():
        return ""
    (found,) = read_json(path)["runs"]
    return str(sum(result["level"] in ("error", "warning") for result in found["results"]))


def decide(settings: Settings) -> tuple[str, list[str]]:
    """Return the result of the job and the reasons for it."""
    status = kept_status(settings, "files")
    if status not in (0, 1):
        return "not-run", ["some files could not be checked"]
    if status and settings.fail_on != "never":
        return "failed", ["files are invalid, or a model is incomplete"]
    return "passed", []


def main() -> None:
    """Run ``stc check`` on all files."""
    settings = load_settings()
    Path(settings.report).mkdir(parents=True, exist_ok=True)
    argv = [settings.program("stc"), "check", f"--sarif={log_path(settings)}"]
    argv += [f"--profile={settings.profile}"] if settings.profile else []
    if run(settings, "files", [*argv, "--", *paths(settings)]) not in (0, 1):
        annotate("error", "some files could not be checked; see the log")


if __name__ == "__main__":
    step(main)
