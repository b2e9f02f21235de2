from __future__ import annotations

import sys

import pytest

from solkit.datasets import shipped
from solkit.datasets.store import shipped as shipped_set
from solkit.errors import UnsupportedError


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """SolKit as a wheel installs it: with no ``data`` folder of its own."""
    monkeypatch.setattr(shipped, "_CHECKOUT", tmp_path / "none")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_a_checkout_has_the_sets_beside_the_code():
    names = {path.parent.name for path in shipped.folder("x").glob("*/README.md")}
    assert {"h100", "h200"} <= names


def test_an_installed_solkit_finds_the_sets_in_the_package_solkit_data(installed):
    package = installed / "solkit_data"
    package.mkdir()
    (package / "__init__.py").write_text("")
    assert shipped.folder("x") == package


@pytest.mark.usefixtures("installed")
def test_without_the_package_the_error_says_how_to_get_it():
    with pytest.raises(UnsupportedError, match=r"no store 'h100'.*pip install solkit-data"):
        shipped_set("h100")
