"""The kernels of bench/liger, and the figures of the batch over them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from solkit.core import Ratio, TuneVerdict
from solkit.processes import jobs
from solkit.tuner.manifest import read_manifest

# looked for, not imported: it loads torch's compiler, and a child reads the files
if importlib.util.find_spec("liger_kernel") is None:
    pytest.skip("bench/liger calls it", allow_module_level=True)

BENCH = Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))
liger_batch = importlib.import_module("liger_batch")

FILES = [
    Path(tunable_kernel.path)
    for tunable_kernel in read_manifest(liger_batch.MANIFEST).tunable_kernels()
]


def test_it_is_twelve_kernels():
    assert len({file.name for file in FILES}) == 12
    assert {file.name for file in FILES} == {p.name for p in (BENCH / "liger").glob("*.py")}


@pytest.fixture(scope="module")
def described():
    """Each kernel by its file, read in one process: to import Liger takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        files = jobs.call("described:describe_files", [str(file) for file in FILES])
        return dict(zip(FILES, files))


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_has_four_shapes_a_held_out_one_and_something_to_choose(described, file):
    result = described[file]
    assert len({str(shape) for shape in result.problem.shapes}) == 4
    assert len(result.problem.held_out_shapes) == 1
    assert result.candidate.space.size >= 7
    own = result.candidate.params
    assert all(value in (0, "auto") for value in own.values())  # Liger's own choices


def item(verdict, value=None):
    ratio = None if value is None else Ratio(value, value * 0.99, value * 1.01, 0.001, 9)
    final = None if ratio is None else SimpleNamespace(ratio=ratio)
    return SimpleNamespace(tuned=SimpleNamespace(verdict=verdict, final=final))


def test_the_mean_speedup_counts_what_is_kept_as_one():
    items = [item(TuneVerdict.FASTER, 0.5), item(TuneVerdict.KEEP, 0.5), item(TuneVerdict.KEEP)]
    value, low, high = liger_batch.speedup(items)
    assert value == pytest.approx(2 ** (1 / 3))
    assert low < value < high
    assert high / low == pytest.approx((1.01 / 0.99) ** (1 / 3), rel=1e-6)
