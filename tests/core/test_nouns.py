"""The page of nouns lists, for readers and type checkers, what it imports on first use."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from solkit import core


def test_each_listed_noun_is_imported_from_the_page_that_is_named():
    tree = ast.parse(Path(core.__file__).read_text())
    (listed,) = (node for node in tree.body if isinstance(node, ast.If))
    pages = {part.module for part in listed.body}
    assert pages == {f"solkit.core.{home}" for home in core._HOMES.values()}
    for name, home in core._HOMES.items():
        assert getattr(core, name) is vars(sys.modules[f"solkit.core.{home}"])[name]
    assert core.__all__ == sorted(core._HOMES)
    assert set(core.__all__) <= set(dir(core))


def test_a_noun_imports_only_what_it_needs():
    code = (
        "import sys; from solkit.core import Device; print('solkit.core.analysis' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "False"
