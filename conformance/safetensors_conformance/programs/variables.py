"""Environment variables that child processes inherit: only those known to be harmless, and no tokens."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

FOR_TESTED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "LANG", "LANGUAGE", "LC_*"),
    *("TMPDIR", "TEMP", "TMP", "SYSTEMROOT"),
    # Locations of interpreters and libraries.
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"),
    *("DYLD_INSERT_LIBRARIES", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "PYENV_ROOT", "PYENV_VERSION"),
    *("NODE_PATH", "JAVA_HOME", "CLASSPATH", "DOTNET_ROOT", "GOROOT", "CARGO_HOME", "RUSTUP_HOME"),
    # Python settings.
    *("PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED", "PYTHONIOENCODING"),
    *("PYTHONMALLOC", "PYTHONNOUSERSITE", "PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONWARNINGS"),
    # Memory checkers and crash reports.
    *("ASAN_OPTIONS", "LSAN_OPTIONS", "MSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"),
    *("ASAN_SYMBOLIZER_PATH", "GLIBC_TUNABLES", "MALLOC_PERTURB_", "MALLOC_ARENA_MAX", "RUST_BACKTRACE"),
    # Thread counts and devices.
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"),
    *("CUDA_*", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"),
    *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "JAX_PLATFORMS"),
)
"""Names of variables, and patterns for names, that are passed to a tested program if they are set."""
FOR_BUILDS = (
    *FOR_TESTED,
    *("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "PKG_CONFIG_PATH", "RUSTUP_TOOLCHAIN"),
    "MACOSX_DEPLOYMENT_TARGET",
)
"""The same for builds from source, without the variables for fetching."""
FOR_INSTALLERS = (
    *FOR_BUILDS,
    # Package index and proxies. A URL may contain the password of a private index.
    *(
        "PIP_*",
        "UV_*",
        "NPM_CONFIG_*",
        "npm_config_*",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "GOPROXY",
        "GOSUMDB",
    ),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"),
    "NODE_EXTRA_CA_CERTS",
)
"""The same for pip, uv, npm and git, which run code from the packages that they build."""


def child_variables(named: Iterable[str] = (), own: Mapping[str, str] | None = None) -> dict[str, str]:
    # Without this variable, results of Python readers that iterate over a set of names would vary.
    return {"PYTHONHASHSEED": "0", **_chosen((*FOR_TESTED, *named)), **(own or {})}


def checked_names(names: Iterable[str]) -> tuple[str, ...]:
    distinct = tuple(dict.fromkeys(names))
    for name in distinct:
        if "=" in name or not name:
            raise ValueError(
                f"{name.partition('=')[0]!r}: give only the name of a variable that is set, without a value"
            )
        if name not in os.environ:
            raise ValueError(f"{name}: this variable does not exist; set it for this command")
    return distinct


def installer_variables() -> dict[str, str]:
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
