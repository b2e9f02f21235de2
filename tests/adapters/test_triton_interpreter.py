"""What is mended of Triton's interpreter."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from types import SimpleNamespace
from triton.runtime import interpreter
from solkit.adapters import triton_interpreter

class Tensor:
    handle = SimpleNamespace(data=SimpleNamespace(squeeze=lambda: 3))  # `int` refuses it

triton_interpreter.install()
triton_interpreter.install()
scope = interpreter._LangPatchScope()
interpreter._patch_lang_tensor(Tensor, scope)
print(list(range(Tensor())))
scope.restore()
print(hasattr(Tensor, "__index__"))
"""


def test_scalars_bound_loops_whatever_numpy_thinks_of_arrays_of_one_element():
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == ["[0, 1, 2]", "False"]
