"""Keys of what candidates launch."""

from __future__ import annotations

import pytest

from solkit.core import Launch
from solkit.pipeline.launch_keys import key_of_launches


def key(count=1, name="aten.mm", line="k.py:3", **fields):
    launch = Launch(name, (0, 0, 0), 0, 0, count=count, library=True, line=line, **fields)
    return key_of_launches([launch], "", {})


def test_library_launches_at_one_line_look_the_same():
    assert key() == key()


@pytest.mark.parametrize("other", [{"count": 2}, {"name": "aten.bmm"}, {"line": "k.py:4"}])
def test_what_differs_in_library_launches_differs_in_their_key(other):
    assert key() != key(**other)


def test_a_launch_whose_code_is_unknown_has_no_key():
    launch = Launch("k", (1, 1, 1), 4, 3)
    assert key_of_launches([launch], "", {}) == ""
