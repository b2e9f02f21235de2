from __future__ import annotations

import pytest

from solkit.core import Source
from solkit.datasets import identifiers
from solkit.errors import InputError


def test_a_kernels_name_depends_on_all_it_is_made_of():
    names = {
        identifiers.kernel_id(*item)
        for item in [("a", "b", "c"), ("ab", "", "c"), ("a", "bc", ""), ("a", "b", "d")]
    }
    assert len(names) == 4
    assert identifiers.kernel_id("a", "b", "c") in names


def test_a_problems_name_is_readable_and_unambiguous():
    name = identifiers.problem_id("layer norm", {"N": 1000, "M": 4, "eps": 1e-5, "causal": True})
    assert name == "layer norm/M=4,N=1000,causal=true,eps=1e-05"
    assert identifiers.problem_id("f", {"a": "1,b=2"}) != identifiers.problem_id(
        "f", {"a": 1, "b": 2}
    )
    assert identifiers.problem_id("f", {"M": 1, "N": 2}) == identifiers.problem_id(
        "f", {"N": 2, "M": 1}
    )


def test_a_source_is_known_by_the_sha256_of_its_bytes():
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert identifiers.source_of(b"", "x.py") == Source(empty, "x.py", "")
    with pytest.raises(InputError, match=r"k\.cubin is machine code alone: it can be scored"):
        identifiers.source_of(b"\x7fELF\xbe", "k.cubin")
    with pytest.raises(InputError, match=r"x\.py is not UTF-8"):
        identifiers.source_of(b"\xff", "x.py")
