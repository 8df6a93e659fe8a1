"""Check the model files of the repository: the mode of the action without an implementation."""

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
    """Return what is to be checked, one a line."""
    return [line.strip() for line in settings.check.splitlines() if line.strip()]


def log_path(settings: Settings) -> Path:
    """Return where the SARIF of the check stands."""
    return Path(settings.report, "report.sarif")


def report(settings: Settings) -> None:
    """Put what was printed into the summary of the job and beside the SARIF."""
    status = kept_status(settings, "files")
    words = {0: "all files are in order", 1: "there are faults"}
    title = words.get(-1 if status is None else status, "not everything could be checked")
    text = log_end(settings, "files")
    summary(f"### {settings.name}: {title}\n\n{fenced(text)}")
    log = Path(settings.work, "files.log")
    if log.exists():
        Path(settings.report, "report.txt").write_bytes(log.read_bytes())
    keep_status(settings, "report", 0)
    output(sarif=str(log_path(settings).is_file()).lower())


def findings_count(settings: Settings) -> str:
    """Return the number of faults in the SARIF, notes left out; nothing when there is none."""
    path = log_path(settings)
    if not path.is_file():
        return ""
    (found,) = read_json(path)["runs"]
    return str(sum(result["level"] in ("error", "warning") for result in found["results"]))


def decide(settings: Settings) -> tuple[str, list[str]]:
    """Return the result of the job, and why."""
    status = kept_status(settings, "files")
    if status not in (0, 1):
        return "not-run", ["not everything could be checked"]
    if status and settings.fail_on != "never":
        return "failed", ["files are not valid, or a model is not whole"]
    return "passed", []


def main() -> None:
    """Run ``stc check`` over everything."""
    settings = load_settings()
    Path(settings.report).mkdir(parents=True, exist_ok=True)
    argv = [settings.program("stc"), "check", f"--sarif={log_path(settings)}"]
    argv += [f"--profile={settings.profile}"] if settings.profile else []
    if run(settings, "files", [*argv, "--", *paths(settings)]) not in (0, 1):
        annotate("error", "not everything could be checked; the log says why")


if __name__ == "__main__":
    step(main)
