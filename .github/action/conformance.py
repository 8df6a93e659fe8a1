"""Run the implementation on the corpus. The last step decides the outcome."""

from __future__ import annotations

from common import annotate, load_settings, run, step


def main() -> None:
    """Write the run record, whatever the result is."""
    settings = load_settings()
    # The options use "=" so that no value is interpreted as an option.
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
        annotate("error", f"{settings.implementation}: the corpus run was not completed; see the log")


if __name__ == "__main__":
    step(main)
