"""Products of operands as they were before they were widened: the same values, in 16 bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from solkit.processes import jobs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler_loaded")]


@pytest.fixture(scope="module")
def outcomes():
    """By function whether it changed, the operators of its products, and the largest error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        return jobs.call("inductor_programs:narrowed")


def test_products_of_widened_operands_are_exact(outcomes):
    changed, names, error = outcomes["linear"]
    assert (changed, names) == (True, ["aten.bmm.dtype"])
    assert error < 1e-5


def test_an_addend_of_no_weight_may_be_infinite(outcomes):
    changed, _, error = outcomes["without_addend"]
    assert changed
    assert error < 1e-5


def test_the_other_operand_is_rounded_to_what_one_was(outcomes):
    changed, names, error = outcomes["attention"]
    assert (changed, names) == (True, ["aten.bmm.dtype", "aten.bmm.dtype"])
    assert error < 5e-3  # values of up to 1 in fp16, over five keys


@pytest.mark.parametrize("name", ["plain", "mixed"])
def test_what_was_not_widened_or_from_two_dtypes_stays(name, outcomes):
    changed, names, error = outcomes[name]
    assert (changed, names, error) == (False, ["aten.mm.default"], 0.0)
