"""What a command writes about files goes to the file that was named, or nowhere."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from safetensors_reference.audit.summary import summary
from safetensors_reference.check.cli import check
from safetensors_reference.writing.atomic import NotSavedError, write_report

from ..audit.support import VALID, write_tree


@pytest.mark.parametrize("leads_to", ["other", "nothing"])
@pytest.mark.parametrize("option", ["--sarif", "--intoto", "--cyclonedx", "summary"])
def test_no_report_goes_through_a_link(option: str, leads_to: str, tmp_path: Path) -> None:
    pytest.importorskip("duckdb" if option == "summary" else "cyclonedx")
    write_tree(tmp_path, {"a/x.safetensors": VALID, "other": b"mine", "rows.jsonl": b""})
    link = tmp_path / "link"
    link.symlink_to(tmp_path / leads_to)
    if option == "summary":
        run = CliRunner().invoke(summary, [str(tmp_path / "rows.jsonl"), "-o", str(link)])
    else:
        run = CliRunner().invoke(check, [str(tmp_path / "a"), option, str(link)])
    words = f"{link}: not saved because it is a symbolic link; give its target instead"
    assert (run.exit_code, words in run.stderr) == (2, True)
    assert ((tmp_path / "other").read_bytes(), (tmp_path / "nothing").exists()) == (b"mine", False)


def test_a_pipe_is_written_to_when_somebody_reads(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(NotSavedError, match=r"pipe: not saved because no program is reading from the pipe$"):
        write_report(pipe, "x")
    both = os.open(pipe, os.O_RDWR)  # so that a reader waits
    read: list[bytes] = []

    def take() -> None:
        with pipe.open("rb") as file:
            read.append(file.read(200_000))

    thread = threading.Thread(target=take)
    thread.start()
    write_report(pipe, "x" * 200_000)
    thread.join()
    os.close(both)
    assert read == [b"x" * 200_000]


def test_what_is_no_place_for_a_report_is_an_error(tmp_path: Path) -> None:
    write_report(Path("/dev/null"), "x")
    write_report(tmp_path / "new", "x")
    # A full disk must not leave half a report, so the file is replaced and not written over.
    (tmp_path / "before").hardlink_to(tmp_path / "new")
    write_report(tmp_path / "new", "y")
    assert [(tmp_path / name).read_text() for name in ("before", "new")] == ["x", "y"]
    for wrong in (tmp_path, tmp_path / "no" / "x", tmp_path / "a\0b"):
        with pytest.raises(NotSavedError, match="not saved"):
            write_report(wrong, "x")
