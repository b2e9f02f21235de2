"""Keys of what candidates launch."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from solkit.core import Configuration, Launch
from solkit.errors import InputError
from solkit.pipeline.launch_keys import are_same_launches, key_of_launches


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


@pytest.mark.parametrize(
    ("seen", "alike"),
    [
        (("a", "a"), True),
        (("a", "b"), False),
        (("", ""), False),  # not all is seen
        (("a", InputError("it raises")), False),
        (("a", None), False),  # not seen in time
    ],
)
def test_candidates_are_the_same_where_all_is_seen_of_both_in_time(seen, alike):
    both = [Configuration(f"{n}.py", "kernel", {"M": 7}) for n in range(2)]
    futures = {one.path: Future() for one in both}
    for future, outcome in zip(futures.values(), seen, strict=True):
        if isinstance(outcome, str):
            future.set_result(outcome)
        elif outcome is not None:
            future.set_exception(outcome)
    analyser = SimpleNamespace(launch_identity=lambda one: futures[one.path])
    assert are_same_launches(analyser, *both, 0.01) is alike


def test_both_candidates_share_the_time_for_seeing_what_they_launch():
    now, waits = [100.0], []

    def result(limit_s):
        waits.append(limit_s)
        now[0] += 3.0
        return "a"

    analyser = SimpleNamespace(launch_identity=lambda _: SimpleNamespace(result=result))
    both = [Configuration(f"{n}.py", "kernel", {"M": 7}) for n in range(2)]
    assert are_same_launches(analyser, *both, 5.0, lambda: now[0])
    assert waits == [5.0, 2.0]
