"""What the distribution holds: each file of the package, and none of another's versions."""

from __future__ import annotations

import fnmatch
import subprocess
import sys
from pathlib import Path

import pytest

from solkit.adapters.versions import SUPPORTED

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS = ("solkit", "roofline", "surrogate", "tuner", "datasets")


def test_each_tracked_file_of_the_package_is_in_the_wheel():
    command = ["git", "ls-files", "--", *ROOMS]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no checkout")
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["*"]
    licences = PROJECT["project"]["license-files"]
    paths = [Path(line) for line in listed.stdout.splitlines()]
    missing = [
        str(path)
        for path in paths
        if path.suffix != ".py"
        and not (ROOT / path).is_symlink()
        and path.parts[:2] != ("datasets", "data")  # a distribution of its own
        and f"solkit/{path}" not in licences
        and not any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns)
    ]
    assert any(path.suffix == ".cuh" for path in paths)
    assert missing == []


def test_no_later_release_is_refused():
    expected = PROJECT["project"]["dependencies"]
    for library in ("torch", "triton"):
        (own,) = (item for item in expected if item.startswith(library))
        assert own.startswith(f"{library}>={SUPPORTED[library][0]}")
        assert "<" not in own.partition(";")[0]
