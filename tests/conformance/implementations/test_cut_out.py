"""One module of a package, imported alone while the rest of the package is absent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from safetensors_conformance.implementations.support import cut_out

MODULE = """
import whole
import whole.deep.part
from other import Base, decorate
from whole.options import level

@decorate(once=True)
def forgotten():
    pass

class Loader(Base):
    def load(self, path):
        return path, level, whole.deep.part.ANYTHING
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a package that cannot be imported as a whole, on the path of modules."""
    package = tmp_path / "whole"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('needs what is not installed')\n")
    (package / "loader.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_module_of_a_checkout_runs_without_the_rest(checkout: Path) -> None:
    names = {"whole.options": {"level": 3}}
    made = cut_out.module(None, "whole/loader.py", ("whole", "other"), names)
    assert made.__file__ == str(checkout / "whole" / "loader.py")
    path, level, anything = made.Loader().load("model.safetensors")
    assert (path, level) == ("model.safetensors", 3)
    assert isinstance(anything, type)
    assert not {"whole", "whole.deep.part", "whole.options", "other"} & set(sys.modules)
    with pytest.raises(ImportError, match="needs what is not installed"):
        __import__("whole")
    # What is not named as absent has to be there.
    with pytest.raises(ModuleNotFoundError, match="other"):
        cut_out.module(None, "whole/loader.py", ("whole",))
    assert "whole" not in sys.modules


def test_a_module_of_a_distribution_is_found_where_that_is_installed() -> None:
    import iniconfig

    made = cut_out.module("iniconfig", "iniconfig/exceptions.py")
    assert made is not sys.modules[iniconfig.__name__]
    assert issubclass(made.ParseError, Exception)
    with pytest.raises(ImportError, match=r"whole/loader\.py does not exist in any folder of PYTHONPATH"):
        cut_out.module(None, "whole/loader.py")
