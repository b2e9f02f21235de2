"""`solkit.tune` on several GPUs: worker processes with recordings of a real kernel file."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

import solkit
from solkit.core import (
    BatchSettings,
    Configuration,
    Difference,
    Outcome,
    Space,
    Stopped,
    TuneSettings,
    TuneVerdict,
    Verdict,
)
from solkit.datasets import outcomelog
from solkit.datasets.kernels import kernel_at_path
from solkit.errors import InputError, UnknownDeviceError
from solkit.measure.benches import local, multi_gpu
from solkit.measure.benches.bench_server import Recorded
from solkit.pipeline.remote_gpus import RemoteGpus

EXAMPLE = Path(__file__).parents[2] / "examples" / "bias_gelu.py"
SHAPE = {"M": 64, "N": 512}
VALUES = {"BLOCK_M": [1, 2, 4, 8, 16], "BLOCK_N": [256, 512, 1024, 2048], "num_warps": [2, 4, 8]}


LEGAL = 21  # of 60, by the file's own valid()


def time_ms(params):
    return 1e-2 * (1 + abs(params["BLOCK_M"] - 4) + abs(params["BLOCK_N"] - 512) / 256)


def rows(device):
    """The whole space, at the cost of 20 ms each."""
    kernel = kernel_at_path(EXAMPLE)
    for place, params in enumerate(Space(VALUES).walk()):
        ms = time_ms(params)
        yield Outcome(
            *(kernel.kernel_id, kernel.family, kernel.kind, "file", kernel.problem_id(SHAPE)),
            *(device, params, Verdict.CORRECT, datetime.now(timezone.utc), "exhaustive", ms),
            shape=SHAPE, low_ms=0.99 * ms, high_ms=1.01 * ms, samples_ms=(ms,) * 9,
            compile_s=0.05, gpu_s=0.02, sequence=place, method="cupti",
        )  # fmt: skip


@pytest.fixture
def gpus(monkeypatch):
    """Make worker processes replay a recording: each has one of these GPUs."""

    def give(*devices):
        kinds = [Recorded(tuple(rows(device)), pace=0.1) for device in devices]
        named = list(map("GPU {}".format, range(len(kinds))))
        monkeypatch.setattr(local, "gpus_named", lambda *_: (kinds, named))

    return give


@pytest.mark.slow
def test_a_kernel_is_tuned_on_two_gpus(gpus, tmp_path):
    gpus("h100-sxm", "h100-sxm")
    log = tmp_path / "log.jsonl"
    how = TuneSettings(gpus="2", prior=False, stop_at=9.0, least_gain=0.0, log=log)
    result = solkit.tune(EXAMPLE, gpu_seconds=60.0, shape=SHAPE, settings=how)
    assert (result.stopped, result.measured) == (Stopped.EXHAUSTED, LEGAL)
    assert time_ms(result.best.params) == pytest.approx(1e-2)
    assert (result.verdict, result.final.how) == (TuneVerdict.FASTER, "turns")
    results = outcomelog.read(log)
    measured = Counter(str(row.params) for row in results.rows if row.chosen_by == "search")
    assert set(measured.values()) == {1}
    assert len({row.run_id for row in results.rows}) == 1
    assert {source.sha256 for source in results.sources} == {kernel_at_path(EXAMPLE).source.sha256}
    again = replace(how, resume=True)
    resumed = solkit.tune(EXAMPLE, gpu_seconds=60.0, shape=SHAPE, settings=again)
    assert resumed.measured == LEGAL
    assert time_ms(resumed.best.params) == pytest.approx(1e-2)  # several are as fast


@pytest.mark.slow
def test_gpus_of_several_models_must_be_chosen_from(gpus):
    gpus("h100-sxm", "a100-sxm-80gb")
    with (
        pytest.raises(InputError, match=r"several models \(h100-sxm, a100-sxm-80gb\)"),
        RemoteGpus(TuneSettings(gpus="2"), None, print).open_workers(),
    ):
        pass
    configuration = Configuration(str(EXAMPLE), "kernel", SHAPE, next(rows("")).params)
    place = RemoteGpus(TuneSettings(gpus="2"), "a100-sxm-80gb", print)
    place.log = Log()
    with place.open_workers() as bench:
        assert bench.device.key == "a100-sxm-80gb"
        bench.submit([configuration])
        assert [got.device for _, got in bench.outcomes()] == ["a100-sxm-80gb"]
        with pytest.raises(UnknownDeviceError, match="no GPU 'l4' here; there are: h100-sxm, a100"):
            multi_gpu.OneModel(bench._bench, "l4")


def test_the_final_is_run_by_one_new_worker(gpus):
    gpus("h100-sxm", "h100-sxm")
    place = RemoteGpus(TuneSettings(gpus="2"), None, print)
    place.log = Log()
    slow, quick = ({"BLOCK_M": m, "BLOCK_N": 512, "num_warps": 4} for m in (16, 4))
    pair = [Configuration(str(EXAMPLE), "kernel", SHAPE, item) for item in (slow, quick)]
    comparison = place.head_to_head(1, *pair)
    assert (comparison.difference, comparison.params) == (Difference.FASTER, quick)


class Log:
    """Writes nothing."""

    def append(self, inputs=(), _sources=(), _facts=()):
        return tuple(inputs)


def test_gpus_are_named_in_one_way():
    with pytest.raises(InputError, match="gpus and ray name GPUs in different ways"):
        TuneSettings(gpus="2", ray="auto")


@pytest.mark.slow
def test_a_batch_is_tuned_on_two_gpus(gpus, tmp_path):
    gpus("h100-sxm", "h100-sxm")
    manifest = tmp_path / "batch.toml"
    manifest.write_text(
        f'[[kernels]]\npath = "{EXAMPLE}"\nshapes = [{{ sizes = {{ M = 64, N = 512 }} }}]\n'
        "held_out = []\n"
    )
    log = tmp_path / "log.jsonl"
    how = BatchSettings(gpus="2", prior=False, stop_at=9.0, log=log, use_database=False)
    result = solkit.batch(manifest, gpu_minutes=1.0, settings=how)
    (item,) = result.items
    assert time_ms(item.tuned.best.params) == pytest.approx(1e-2)
    assert (item.tuned.verdict, item.tuned.final.how) == (TuneVerdict.FASTER, "turns")
    rows = outcomelog.read(log).rows
    measured = Counter(str(row.params) for row in rows if row.chosen_by == "search")
    assert set(measured.values()) == {1}
    assert result.device == "h100-sxm"
