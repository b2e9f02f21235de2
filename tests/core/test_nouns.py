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
    homes = {name.name: part.module for part in listed.body for name in part.names}
    assert sorted(homes) == sorted(core.__all__) == sorted(core._HOMES)
    assert {name: f"solkit.core.{home}" for name, home in core._HOMES.items()} == homes
    for name in core.__all__:
        assert getattr(core, name) is vars(sys.modules[homes[name]])[name]
    assert set(core.__all__) <= set(dir(core))


def test_a_noun_imports_only_what_it_needs():
    code = (
        "import sys; from solkit.core import Device; print('solkit.core.analysis' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "False"
