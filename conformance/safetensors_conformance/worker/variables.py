"""Variables of the environment that go on to programs of other people.

A caller's environment holds tokens: of the CI service, of model hubs, of clouds. A program that is tested or
installed gets the variables of a list, so that what is not known to be harmless stays here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

FOR_TESTED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "LANG", "LANGUAGE", "LC_*"),
    *("TMPDIR", "TEMP", "TMP", "SYSTEMROOT"),
    # Where interpreters and libraries are found.
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"),
    *("DYLD_INSERT_LIBRARIES", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "PYENV_ROOT", "PYENV_VERSION"),
    *("NODE_PATH", "JAVA_HOME", "CLASSPATH", "DOTNET_ROOT", "GOROOT", "CARGO_HOME", "RUSTUP_HOME"),
    # How Python runs.
    *("PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED", "PYTHONIOENCODING"),
    *("PYTHONMALLOC", "PYTHONNOUSERSITE", "PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONWARNINGS"),
    # How memory is watched, and what is said of a crash.
    *("ASAN_OPTIONS", "LSAN_OPTIONS", "MSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"),
    *("ASAN_SYMBOLIZER_PATH", "GLIBC_TUNABLES", "MALLOC_PERTURB_", "MALLOC_ARENA_MAX", "RUST_BACKTRACE"),
    # How many processors are used, and which devices.
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"),
    *("CUDA_*", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"),
    *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "JAX_PLATFORMS"),
)
"""Names, and patterns of names, that a tested program gets where they are set."""
FOR_BUILDS = (
    *FOR_TESTED,
    *("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "PKG_CONFIG_PATH", "RUSTUP_TOOLCHAIN"),
    "MACOSX_DEPLOYMENT_TARGET",
)
"""As above, for the build of a source: nothing of how it was fetched."""
FOR_INSTALLERS = (
    *FOR_BUILDS,
    # Which index is asked, and through what. An address may hold the password of a private index.
    *("PIP_*", "NPM_CONFIG_*", "npm_config_*", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "GOPROXY", "GOSUMDB"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"),
    "NODE_EXTRA_CA_CERTS",
)
"""As above, for what fetches and installs (pip, npm, git): a package that is built runs code of its own."""


def child_variables(named: Iterable[str] = (), own: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that a tested program gets.

    Args:
        named: further names that the user lets through; one that is not set is left out.
        own: variables of the harness, which hold whatever the caller's environment says.
    """
    # Else readers in Python that go through a set of names answer otherwise from run to run.
    return {"PYTHONHASHSEED": "0", **_chosen((*FOR_TESTED, *named)), **(own or {})}


def checked_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of variables that are to be let through, each once. Raises ValueError."""
    found = tuple(dict.fromkeys(names))
    for name in found:
        if "=" in name or not name:
            raise ValueError(f"{name.partition('=')[0]!r}: give the name of a variable that is set, no value")
        if name not in os.environ:
            raise ValueError(f"{name}: there is no such variable; set it for this command")
    return found


def installer_variables() -> dict[str, str]:
    """Return the variables that pip, npm and git get when they install or fetch what is to be tested."""
    return _chosen(FOR_INSTALLERS)


def build_variables() -> dict[str, str]:
    return _chosen(FOR_BUILDS)


def _chosen(patterns: Iterable[str]) -> dict[str, str]:
    names = {pattern for pattern in patterns if "*" not in pattern}
    wild = [pattern for pattern in patterns if "*" in pattern]
    return {
        name: value
        for name, value in os.environ.items()
        if name in names or any(fnmatchcase(name, pattern) for pattern in wild)
    }
