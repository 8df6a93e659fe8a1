"""The build script for OSS-Fuzz and ClusterFuzzLite, run without their container.

Their image has ``compile_python_fuzzer`` on its path, which packs a target with PyInstaller. Here a stand-in
has its place, which only writes a launcher.
"""

from __future__ import annotations

import configparser
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from safetensors_fuzz.engines.atheris.files import MAX_LEN, dictionary, seeds

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("fuzz_proving_path", "fuzz_read_differential")
PLACES = ("fuzz/oss-fuzz", ".clusterfuzzlite")

COMPILER = """#!/bin/bash -eu
path=$1
name=$(basename -s .py "$path")
printf '%s\\n' "$@" > "$WORK/$name.args"
printf '#!/bin/sh\\nexec "%s" "%s" "$@"\\n' "$PYTHON" "$path" > "$OUT/$name.pkg"
chmod -x "$OUT/$name.pkg"
cat > "$OUT/$name" <<END
#!/bin/sh
# LLVMFuzzerTestOneInput
LD_PRELOAD=x $OUT/$name.pkg \\$@
END
chmod +x "$OUT/$name"
"""

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("atheris") is None, reason="atheris is not installed (extra: fuzz)"
    ),
    pytest.mark.skipif(not Path("/bin/bash").exists(), reason="the build script is one for bash"),
]


def executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def run(*command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("STC_FUZZ_")}
    environment |= variables
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=500, check=False
    )


def build(place: str, root: Path) -> Path:
    """Run the build script of a place as its container does, and return the folder of the targets."""
    tools, src, out, work = (root / name for name in ("bin", "src", "out", "work"))
    for folder in (tools, src, out, work):
        folder.mkdir()
    executable(tools / "compile_python_fuzzer", COMPILER)
    # The environment of the tests has everything; nothing may be installed into it.
    executable(tools / "pip3", '#!/bin/sh\nprintf "%s\\n" "$@" > "$WORK/pip3.args"\n')
    (src / "safetensors-conformance").symlink_to(ROOT)
    shutil.copy(ROOT / place / "build.sh", src / "build.sh")
    path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    places = {"SRC": str(src), "OUT": str(out), "WORK": str(work)}
    done = run(src / "build.sh", cwd=src, PATH=path, PYTHON=sys.executable, **places)
    assert done.returncode == 0, done.stderr
    assert (work / "pip3.args").read_text() == f"install\n{src}/safetensors-conformance[official]\n"
    return out


def check_names(out: Path) -> None:
    """Check that all lies there that belongs to each target, and nothing else."""
    names = {
        name for t in TARGETS for name in (t, f"{t}.pkg", f"{t}.dict", f"{t}.options", f"{t}_seed_corpus.zip")
    }
    assert {path.name for path in out.iterdir()} == names
    for target in TARGETS:
        launcher = (out / target).read_text()
        assert os.access(out / target, os.X_OK)
        assert "LLVMFuzzerTestOneInput" in launcher  # how a target is told from other files
        assert "LD_PRELOAD" not in launcher
        options = configparser.ConfigParser()
        options.read(out / f"{target}.options")
        assert options.getint("libfuzzer", "max_len") == MAX_LEN
        with zipfile.ZipFile(out / f"{target}_seed_corpus.zip") as archive:
            assert archive.testzip() is None
            assert set(archive.namelist()) == set(seeds())


def check_run(out: Path, target: str, folder: Path, runs: int) -> None:
    """Run a target on its seeds with its dictionary."""
    with zipfile.ZipFile(out / f"{target}_seed_corpus.zip") as archive:
        archive.extractall(folder / "seeds")
    flags = [f"-runs={runs}", "-seed=1", f"-dict={out / target}.dict", f"-max_len={MAX_LEN}", "seeds"]
    done = run(out / target, *flags, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"Dictionary: {len(dictionary())} entries" in done.stderr
    executed = re.search(r"^Done (\d+) runs", done.stderr, re.MULTILINE)
    assert int(executed[1] if executed else 0) >= runs


@pytest.mark.by_day(1)
@pytest.mark.parametrize("place", PLACES)
def test_the_build_script_makes_targets_that_run(place: str, tmp_path: Path) -> None:
    out = build(place, tmp_path)
    check_names(out)
    for number, target in enumerate(TARGETS):
        folder = tmp_path / f"run{number}"
        folder.mkdir()
        check_run(out, target, folder, 600 if number else 200)  # the seeds alone are more than 200
        assert "safetensors_reference" in (tmp_path / "work" / f"{target}.args").read_text()


@pytest.mark.by_day(1)
@pytest.mark.parametrize("target", TARGETS)
def test_a_target_ends_at_a_finding_and_says_what_it_is(target: str, tmp_path: Path) -> None:
    """The targets themselves, asked about a reader with a planted mistake."""
    reader = f"here:{Path(__file__).parent / 'readers_here.py'}:forgets_the_end"
    variables = {"STC_FUZZ_IMPLS": reader, "STC_FUZZ_STEPS": "read", "PYTHONHASHSEED": "0"}
    script = ROOT / "fuzz/oss-fuzz" / f"{target}.py"
    done = run(sys.executable, script, "-runs=3000", "-seed=1", cwd=tmp_path, **variables)
    assert done.returncode == 77  # libFuzzer's status for a crash
    assert re.search(r"WrongAnswerError: .* · expected .* · got here:", done.stdout)
    assert any(path.name.startswith("crash-") for path in tmp_path.iterdir())


def description(place: str) -> Any:
    return yaml.safe_load((ROOT / place / "project.yaml").read_text())


def test_the_project_descriptions_say_what_is_required() -> None:
    assert description(".clusterfuzzlite") == {"language": "python"}
    there = description("fuzz/oss-fuzz")
    assert (there["language"], there["sanitizers"]) == ("python", ["address", "undefined"])
    assert {"homepage", "main_repo", "primary_contact"} <= there.keys()
    assert there["main_repo"] in (ROOT / "fuzz/oss-fuzz/Dockerfile").read_text()
    assert tuple(sorted(path.stem for path in (ROOT / "fuzz/oss-fuzz").glob("fuzz_*.py"))) == TARGETS
    text = (ROOT / "fuzz/oss-fuzz/README.md").read_text()
    assert all(f"`{target}`" in text for target in TARGETS)


@pytest.mark.parametrize("place", PLACES)
def test_the_images_start_from_theirs_and_bring_the_script(place: str) -> None:
    lines = (ROOT / place / "Dockerfile").read_text().splitlines()
    assert lines[0] == "FROM gcr.io/oss-fuzz-base/base-builder-python"
    assert any(re.fullmatch(r"COPY (\.clusterfuzzlite/)?build\.sh \$SRC/", line) for line in lines)
    assert any("safetensors-conformance" in line for line in lines[1:])
    assert os.access(ROOT / place / "build.sh", os.X_OK)
