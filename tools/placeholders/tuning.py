"""Names that docs/tuning.md and docs/lab/tuning.md leave to their reader."""

from solkit.datasets import outcomelog as _outcomelog

_row = _outcomelog.read("run.jsonl").rows[0]
kernel_id, points = _row.kernel_id, [_row.params]


def my_time_ms(params):
    """A time that prefers four warps."""
    return 1.0 + abs(params["num_warps"] - 4) + params["BLOCK"] / 512
