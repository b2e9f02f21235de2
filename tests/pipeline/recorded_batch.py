"""A recording of two kernels at several shapes, for tests of a batch."""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from pathlib import Path

from solkit.datasets.identifiers import problem_id
from solkit.datasets.outcomelog import OutcomeLog
from solkit.measure.benches import RecordedBench
from solkit.tuner.manifest import Manifest, ManifestEntry, Workload

sys.path.insert(0, str(Path(__file__).parent.parent / "tuner"))
import spaces

FLAT, STEEP = "flat/rows", "softmax/rows"
SHAPES = ({"M": 64, "N": 32}, {"M": 128, "N": 32}, {"M": 4096, "N": 32})


def flat_ms(params):
    """All are alike, and at the speed of light."""
    return 0.5 + 0.001 * (params["num_warps"] == 2)


def rows(times=None, repeats=2):
    """Of each kernel at each shape; `times` gives other formulas, by kernel and M."""
    return list(_usual(repeats) if times is None else _made(times, repeats))


@functools.cache
def _usual(repeats):
    return _made({}, repeats)


def _made(times, repeats):
    results = []
    for number, (name, usual) in enumerate({STEEP: spaces.true_ms, FLAT: flat_ms}.items()):
        for shape in SHAPES:
            time_of = times.get((name, shape["M"]), usual)
            family = name.partition("/")[0]
            for row in spaces.recording(time_of, repeats, seed=number):
                own = {"kernel_id": str(number) * 16, "implementation": name, "family": family}
                own |= {"shape": shape, "problem_id": problem_id(family, shape)}
                results.append(replace(row, sequence=len(results), **own))
    return results


def bench(**fields):
    return RecordedBench(rows(**fields), cores=4)


def manifest(held_out=(), held_out_rule="nearest", **limits):
    """The steep kernel at two shapes, with 1000 and 10 calls, and the flat one at one."""
    from solkit.tuner.manifest import Limits

    steep = ManifestEntry(
        STEEP,
        shapes=(Workload(SHAPES[0], 1000), Workload(SHAPES[1], 10)),
        held_out=tuple(held_out),
        line=1,
    )
    flat = ManifestEntry(FLAT, shapes=(Workload(SHAPES[0], 500),), line=2)
    return Manifest("m.toml", (steep, flat), Limits(held_out=held_out_rule, **limits))


def written(folder, **fields):
    """The recording as a file."""
    path = folder / "recording.jsonl"
    with OutcomeLog(path, {}) as log:
        log.append(rows(**fields))
    return path


TEXT = """
[limits]
gpu_minutes = 2
[[kernels]]
path = "softmax/rows"
held_out = [{ M = 4096 }]
shapes = [{ sizes = { M = 64 }, calls = 1000 }, { sizes = { M = 128 }, calls = 10 }]
[[kernels]]
path = "flat/rows"
shapes = [{ sizes = { M = 64 }, calls = 500 }]
[[kernels]]
name = "aten::mm"
path = ""
"""
