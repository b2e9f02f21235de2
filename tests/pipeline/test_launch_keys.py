"""Keys of what candidates launch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solkit.core import Binding, KernelFunction, KernelProgram, Launch
from solkit.pipeline.launch_keys import are_same_launches, has_unseen_choices, key_of_launches


def key(count=1, name="aten.mm", line="k.py:3", **told):
    launch = Launch(name, (0, 0, 0), 0, 0, count=count, library=True, line=line, **told)
    return key_of_launches([launch], "", {})


def test_library_launches_at_one_line_look_the_same():
    assert key() == key()


@pytest.mark.parametrize("other", [{"count": 2}, {"name": "aten.bmm"}, {"line": "k.py:4"}])
def test_what_differs_in_library_launches_differs_in_their_key(other):
    assert key() != key(**other)


def test_a_launch_whose_code_is_unknown_has_no_key():
    launch = Launch("k", (1, 1, 1), 4, 3)
    assert key_of_launches([launch], "", {}) == ""


def launch_of(name, helper="scaled", factor=2, **changes):
    """A launch of a kernel that calls a helper, and reads a constant of its module."""
    kernel = KernelFunction(
        f"def {name}(x, n):\n    return {helper}(x.{helper}) * FACTOR",
        {helper: Binding("function", text=f"k.{helper}"), "FACTOR": Binding("constant", factor)},
    )
    helped = KernelFunction(f"def {helper}(x):\n    return x + 1")
    program = KernelProgram(f"k.{name}", {f"k.{name}": kernel, f"k.{helper}": helped})
    arguments = {"n": Binding("scalar", 8, "i32")}
    launch = Launch(name, (4, 1, 1), 4, 3, constants={"B": 2}, arguments=arguments)
    return replace(launch, **{"program": program, **changes})


def test_launches_under_other_names_are_the_same():
    assert not are_same_launches([launch_of("k")], [launch_of("k_before", "scaled_before")])
    # an attribute of the helper's name is no call of it: its text stays, and differs
    assert are_same_launches([launch_of("k")], [launch_of("k_before")])
    plain = [replace(launch_of(n), program=renamed(n, h)) for n, h in (("k", "h"), ("j", "i"))]
    assert are_same_launches(plain[:1], plain[1:])


def renamed(name, helper):
    kernel = KernelFunction(
        f"def {name}(x):\n    return {helper}({name})",
        {helper: Binding("function", text=helper), name: Binding("function", text=name)},
    )
    return KernelProgram(name, {name: kernel, helper: KernelFunction(f"def {helper}(x):\n    x")})


@pytest.mark.parametrize(
    "other",
    [
        launch_of("k", grid=(5, 1, 1)),
        launch_of("k", num_warps=8),
        launch_of("k", count=2),
        launch_of("k", constants={"B": 4}),
        launch_of("k", arguments={"n": Binding("scalar", 9, "i32")}),
        launch_of("k", factor=3),
        launch_of("k", program=renamed("k", "scaled")),
        launch_of("k", program=None),
        Launch("aten.mm", (0, 0, 0), 0, 0, library=True),
    ],
)
def test_launches_that_run_something_else_are_not_the_same(other):
    assert not are_same_launches([launch_of("k")], [other])
    assert not are_same_launches([launch_of("k")], [launch_of("k"), other])


def test_nothing_is_known_of_launches_that_are_not_seen():
    unseen = [launch_of("k", program=None)]
    assert not are_same_launches([], [])
    assert not are_same_launches(unseen, unseen)


def test_launches_of_libraries_are_the_same_wherever_they_are_called():
    both = [Launch("aten.mm", (0, 0, 0), 0, 0, library=True, line=line) for line in "ab"]
    assert are_same_launches(both[:1], both[1:])


HIDDEN = """
@triton.jit
def k(x, n, B: tl.constexpr): ...

def kernel(x, **params):
    {launch}
"""


@pytest.mark.parametrize(
    ("launch", "hides"),
    [
        ("k[(4,)](x, n=8, B=2, num_warps=4, num_stages=3)", False),
        ("helper(x, maxnreg=64)", False),
        ("k[(4,)](x, 8, B=2, maxnreg=64)", True),
        ("k[(4,)](x, 8, B=2, **params)", True),
        ("k.run(x, 8, B=2, grid=(4,), launch_pdl=True)", True),
        ("triton.Config({'B': 2}, num_warps=4, maxnreg=64)", True),
        ("triton.autotune(configs, key=['n'])(k)[(4,)](x, 8)", True),
    ],
)
def test_the_file_tells_what_no_record_of_launches_has(launch, hides):
    assert has_unseen_choices([launch_of("k")], HIDDEN.format(launch=launch)) is hides
