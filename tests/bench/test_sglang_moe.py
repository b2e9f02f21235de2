"""What bench/sglang_moe.py prints of results: rows as `solkit batch --json` writes them."""

import pytest
import sglang_moe


def row(tokens, params, time_ms, *, verdict="faster", speedup=1.25, equals=()):
    """A row of a batch's results, for as many tokens; times in milliseconds."""
    return {
        "shape": {"M": tokens, "E": 8},
        "default": {"params": {"BLOCK_SIZE_M": 16}, "time_ms": 0.4},
        "best": {"params": params, "time_ms": time_ms},
        "equals": [{"params": other} for other in equals],
        "verdict": verdict,
        "speedup": {"value": speedup},
        "measured": 12,
    }


def test_what_is_kept_counts_as_one_and_runs_are_matched_by_size(capsys):
    first = [row(8, {"BLOCK_SIZE_M": 32}, 0.32), row(64, {}, 0.4, verdict="keep", speedup=1.02)]
    second = [row(64, {}, 0.4, verdict="keep", speedup=0.9), row(8, {"BLOCK_SIZE_M": 32}, 0.2)]
    sglang_moe.summary({"model": [first, second]})
    printed = capsys.readouterr().out.splitlines()
    # 1.25, 1, 1, 1.25: the square root of 1.25
    assert printed[-2:] == [
        "4 keys: 1.118 in the geometric mean, 2 kept",
        "two runs agree on 2 of 2 keys",
    ]
    assert "400.0 us  1.250" in printed[0]
    assert "kept" in printed[1]


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        (row(8, {"B": 1}, 0.200), row(8, {"B": 2}, 0.2009), True),  # within .5 %
        (row(8, {"B": 1}, 0.200), row(8, {"B": 2}, 0.2021), False),
        (row(8, {"B": 1}, 0.2, equals=[{"B": 1}, {"B": 2}]), row(8, {"B": 2}, 0.3), True),
        (row(8, {"B": 1}, 0.2, equals=[{"B": 1}]), row(8, {"B": 2}, 0.3), False),
    ],
)
def test_choices_agree_if_equal_in_params_in_time_or_by_a_search(first, second, alike):
    assert sglang_moe.agrees(first, second) is alike


def test_one_run_is_compared_with_none(capsys):
    sglang_moe.summary({"model": [[row(8, {"B": 1}, 0.2)]]})
    assert "two runs" not in capsys.readouterr().out
