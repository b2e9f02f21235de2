"""The kernels of bench/sweeps, and the times recorded for them."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton is there on Linux only")

from solkit import kernelfiles
from solkit.datasets.kernels import kernel_at_path
from solkit.measure.benches import RecordedBench

HERE = Path(__file__).parent
BENCH = HERE.parents[1] / "bench"
NAMES = sorted(path.stem for path in (BENCH / "sweeps").glob("*.py"))


@pytest.fixture(scope="module")
def errors(interpreted):
    return interpreted(HERE, "interpreted_sweeps:errors", BENCH / "sweeps")


@pytest.mark.slow
def test_every_kernel_computes_its_reference(errors):
    assert {name.strip() for name in errors} == set(NAMES)
    assert {name: error for name, error in errors.items() if error} == {}


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_leaves_forty_to_choose_and_its_default_is_among_them(name):
    loaded = kernelfiles.load(str(BENCH / "sweeps" / f"{name}.py"))
    for shape in loaded.description.problem.shapes:
        space = loaded.space(shape)
        assert len(list(itertools.islice(space.walk(), 40))) == 40
        assert loaded.description.candidate.params in space


def test_the_recorded_times_are_of_the_kernels_as_they_are():
    """Or the figures of docs/lab/analysis_evidence.md are of others."""
    files = [*(BENCH / "sweeps").glob("*.py"), *(BENCH.parent / "examples").glob("*.py")]
    known_kernel_ids = {kernel_at_path(file).kernel_id for file in files}
    recording = RecordedBench.read(BENCH / "data" / "sweeps_h100.jsonl.gz").recording
    assert len(recording) == 2202
    assert {row.kernel_id for row in recording} <= known_kernel_ids
