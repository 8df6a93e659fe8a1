"""Run the implementation over the corpus; the outcome is decided by the last step."""

from __future__ import annotations

from common import annotate, load_settings, run, step


def main() -> None:
    """Write the run record, whatever the result."""
    settings = load_settings()
    # Written with "=", so that no value is taken for an option.
    argv = [
        settings.program("stc"),
        "run",
        f"--impl={settings.implementation}",
        f"--report={settings.runs}",
    ]
    if settings.profile:
        argv.append(f"--profile={settings.profile}")
    if settings.baseline:
        argv.append(f"--baseline={settings.baseline}")
    if settings.fail_on == "should":
        argv.append("--fail-on-should")
    status = run(settings, "run", argv)
    if status not in (0, 1):
        annotate("error", f"{settings.implementation}: could not be run over the whole corpus, see the log")


if __name__ == "__main__":
    step(main)
