"""The same problems in several tile languages: what the set compares, without the languages."""

from __future__ import annotations

import ast
import itertools

import pytest

from solkit.datasets.kernels import LANGUAGES, select_kernels

KERNELS = select_kernels(["languages"])
IMPORTS = {
    **{"triton": "import triton\n", "tilelang": "import tilelang\n", "cutile": "import cuda.tile"},
    "cute": "import cutlass\n",
}
PROBLEMS, CONFIGURATIONS = 8, 10
EVERYWHERE = {"triton", "tilelang", "cutile"}


def assigned(kernel, name):
    """The literal that a kernel file assigns to a name."""
    for statement in ast.parse(kernel.source.text).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == name:
            return ast.literal_eval(statement.value)
    raise AssertionError(f"{kernel.name} has no {name}")


def is_valid(kernel, params):
    """The answer of the file's own ``valid``, run without the file's imports."""
    statements = ast.parse(kernel.source.text).body
    own = [s for s in statements if isinstance(s, ast.FunctionDef) and s.name == "valid"]
    names = {}
    exec(compile(ast.Module(own, []), kernel.name, "exec"), names)
    return names["valid"](params, {}) if own else True


def test_each_problem_is_there_in_each_language():
    families = {kernel.family: set() for kernel in KERNELS}
    for kernel in KERNELS:
        families[kernel.family].add(kernel.path.stem.partition("_")[0])
    assert len(families) == PROBLEMS
    assert all(EVERYWHERE <= languages <= {*IMPORTS} for languages in families.values())
    assert len(KERNELS) == sum(map(len, families.values()))  # one file a language


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_kernel_takes_the_problem_of_its_folder(kernel):
    assert kernel.origin == "language"
    assert kernel.path.parent == LANGUAGES.resolve() / kernel.family
    assert f"from solkit.datasets.languages.{kernel.family}.problem import" in kernel.source.text
    assert IMPORTS[kernel.path.stem.partition("_")[0]] in kernel.source.text


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_kernel_has_ten_valid_configurations(kernel):
    space = assigned(kernel, "SPACE")
    points = [dict(zip(space, values)) for values in itertools.product(*space.values())]
    assert sum(is_valid(kernel, point) for point in points) >= CONFIGURATIONS
