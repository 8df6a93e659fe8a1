"""Run the fuzzer with a fixed seed and limits. The last step decides the outcome."""

from __future__ import annotations

from common import annotate, kept_status, load_settings, run, step


def main() -> None:
    """Write the findings. Skip fuzzing if the corpus run was not completed."""
    settings = load_settings()
    if kept_status(settings, "run") not in (0, 1):
        annotate("notice", f"{settings.implementation}: not fuzzed, because the corpus run was not completed")
        return
    argv = [
        settings.program("stc"),
        "fuzz",
        f"--impl={settings.implementation}",
        f"--max-execs={settings.fuzz_executions}",
        f"--time={settings.fuzz_seconds:g}",
        "--seed=1",
        f"--output={settings.findings}",
    ]
    if settings.fuzz_steps:
        argv.append(f"--steps={settings.fuzz_steps}")
    if settings.profile:
        argv.append(f"--profile={settings.profile}")
    if settings.triage:
        argv.append(f"--triage={settings.triage}")
    status = run(settings, "fuzz", argv)
    if status not in (0, 1):
        annotate("error", f"{settings.implementation}: fuzzing was not completed; see the log")


if __name__ == "__main__":
    step(main)
