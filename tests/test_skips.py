"""Tests that skip: where CI is set only those of ``skips.toml`` may. And cases that are quick."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TESTS = """
import pytest

def test_listed():
    pytest.skip("no GPU")

def test_unlisted():
    pytest.skip("no oracle")

@pytest.mark.quick("second")
@pytest.mark.parametrize("case", ["the first", "the second", "the third"])
def test_cases(case):
    assert case == "the second"
"""
MODULE = """
import pytest

pytest.importorskip("no_such_module")
"""


def outcomes(folder, **env):
    """Run pytest as CI does; gives its summary."""
    (folder / "test_two.py").write_text(TESTS, encoding="utf-8")
    (folder / "test_module.py").write_text(MODULE, encoding="utf-8")
    hooks = "runtest_makereport make_collect_report collection_modifyitems".split()
    (folder / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str(HERE)!r})\n"
        f"import importlib.util as u\n"
        f"spec = u.spec_from_file_location('house', {str(HERE / 'conftest.py')!r})\n"
        f"house = u.module_from_spec(spec)\nspec.loader.exec_module(house)\n"
        + "".join(f"pytest_{hook} = house.pytest_{hook}\n" for hook in hooks),
        encoding="utf-8",
    )
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    command = [sys.executable, "-m", "pytest", "-q", "-rfEs", "-m", "not slow"]
    command.append("--continue-on-collection-errors")
    result = subprocess.run(
        command, env={**kept, **env}, cwd=folder, capture_output=True, text=True, check=False
    )
    return result.stdout


def test_where_ci_is_set_a_skip_that_is_not_listed_fails(tmp_path):
    text = outcomes(tmp_path, CI="1")
    assert "1 skipped" in text
    assert "test_unlisted skips and is not in tests/skips.toml: no oracle" in text
    assert "could not import 'no_such_module'" in text
    assert "1 error" in text


def test_elsewhere_tests_skip_as_they_like_and_quick_cases_alone_run(tmp_path):
    assert "1 passed, 3 skipped, 2 deselected" in outcomes(tmp_path)
