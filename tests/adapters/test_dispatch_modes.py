"""Dispatch modes that leave torch's compiler unloaded."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

PROGRAM = """
    import sys, torch
    {before}
    from solkit.adapters.dispatch_modes import DispatchMode

    class Counting(DispatchMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {{}}))

    with Counting() as mode:
        torch.ones(3) + 1
    assert mode.names == ["ones", "add"], mode.names
    assert ("torch._dynamo" in sys.modules) is {loaded}
"""


@pytest.mark.quick("-False")
@pytest.mark.parametrize(("before", "loaded"), [("", False), ("import torch._dynamo", True)])
def test_a_mode_sees_operators_and_does_not_load_the_compiler(before, loaded):
    program = dedent(PROGRAM).format(before=before, loaded=loaded)
    subprocess.run([sys.executable, "-c", program], check=True)
