"""Launchers in the styles of libraries: what they import, and which package must be installed."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import sys
from collections import Counter

import pytest

from solkit.datasets.kernels import LIBRARIES, ZOO, select_kernels
from solkit.datasets.libraries.packages import check_installed
from solkit.errors import InputError

KERNELS = select_kernels(["libraries"])
FEWEST_LAUNCHERS, FEWEST_OF_PACKAGES, FEWEST_PACKAGES = 40, 20, 8
OURS = {"math", "solkit", "torch", "triton"}
KINDS = {
    *("attention", "convolution", "elementwise", "indexing", "layout", "matmul", "norm"),
    *("quantisation", "reduction", "scan", "softmax", "update"),
}


def imported(kernel):
    """Top-level names of the modules that a launcher imports."""
    nodes = list(ast.walk(ast.parse(kernel.source.text)))
    named = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    named |= {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    return {name.partition(".")[0] for name in named}


def test_there_are_enough_of_packages_and_of_our_own():
    packages = Counter(name for kernel in KERNELS for name in imported(kernel) - OURS)
    assert len(KERNELS) >= FEWEST_LAUNCHERS
    assert sum(packages.values()) >= FEWEST_OF_PACKAGES
    assert len(packages) >= FEWEST_PACKAGES


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_launcher_has_its_family_kind_and_package(kernel):
    assert kernel.origin == "library"
    assert kernel.path.parent == LIBRARIES.resolve() / kernel.family
    assert kernel.kind in KINDS
    zoo = ZOO / kernel.family / "problem.py"
    if zoo.exists():
        assert f'KIND = "{kernel.kind}"' in zoo.read_text("utf-8")
    assert ("check_installed(" in kernel.source.text) == bool(imported(kernel) - OURS)


@pytest.mark.parametrize(
    "kernel", [k for k in KERNELS if not imported(k) - OURS], ids=lambda kernel: kernel.name
)
def test_our_own_have_valid_configurations_at_each_shape(kernel):
    pytest.importorskip("triton", reason="triton is there on Linux only")
    spec = importlib.util.spec_from_file_location("launcher", kernel.path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = list(module.SPACE)
    points = [dict(zip(names, values)) for values in itertools.product(*module.SPACE.values())]
    valid = getattr(module, "valid", lambda *_: True)
    defaults = module.kernel.__kwdefaults__
    for shape in module.SHAPES:
        assert sum(bool(valid(point, shape)) for point in points) >= 8, shape
        assert valid(defaults, shape), shape


def test_another_version_of_a_package_is_refused(monkeypatch):
    versions = {"liger-kernel": "0.8.5"}
    monkeypatch.setattr("importlib.metadata.version", versions.__getitem__)
    check_installed("liger-kernel", "0.8.5")
    with pytest.raises(InputError, match=r"liger-kernel 0\.9, and 0\.8\.5 is installed; pip inst"):
        check_installed("liger-kernel", "0.9")


def test_a_missing_package_is_named():
    with pytest.raises(InputError, match=r"nowhere 1\.0, and none is installed"):
        check_installed("nowhere", "1.0")


def test_listing_launchers_imports_none():
    packages = {name for kernel in KERNELS for name in imported(kernel) - OURS}
    assert packages
    assert not any(f"{name}.ops" in sys.modules for name in packages)
