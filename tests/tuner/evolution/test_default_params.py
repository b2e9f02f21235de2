"""Other parameters become a file's defaults, and nothing else changes."""

from __future__ import annotations

from solkit.tuner.evolution.default_params import with_params

SOURCE = '''"""ünïcode first."""
def other(x, *, BLOCK=1): ...

def kernel(
    x, ROWS=4,  # µ
    *, BLOCK=1024, é=1, KIND="a", FLAG=True, num_warps=4, FREE,
):
    return BLOCK
'''


def test_defaults_of_the_entry_point_change_and_the_rest_stays():
    params = {"BLOCK": 256, "ROWS": 1, "KIND": "bb", "FLAG": False, "é": 22, "FREE": 3}
    results = with_params(SOURCE, "kernel", params)
    assert results == SOURCE.replace("ROWS=4", "ROWS=1").replace("BLOCK=1024", "BLOCK=256").replace(
        'KIND="a"', "KIND='bb'"
    ).replace("FLAG=True", "FLAG=False").replace("é=1", "é=22")
    scope = {}
    exec(results.replace("FREE,", "FREE=0,"), scope)
    assert scope["kernel"](None) == 256


def test_an_unknown_entry_point_changes_nothing():
    assert with_params(SOURCE, "nothing", {"BLOCK": 2}) == SOURCE
