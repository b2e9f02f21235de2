"""Compiling on machines without a GPU: the binaries are found beside the GPU, or made there."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from solkit import userdata
from solkit.adapters import cache_transfer
from solkit.datasets.kernels import kernel_at_path
from solkit.errors import WorkerError
from solkit.measure.benches import remote_compile
from solkit.measure.benches.remote_compile import Done, FarAhead, Job, Lender, run_helper_job
from solkit.measure.benches.source_archive import make_bundle
from solkit.measure.benches.trusted.precompile import Ahead, Compiled
from solkit.roofline.devices import find

EXAMPLE = Path(__file__).parents[3] / "examples" / "bias_gelu.py"
DEVICE = find("h100-sxm")
SHAPE = {"M": 64, "N": 64}
CHOICES = [{"BLOCK_M": 1, "BLOCK_N": n, "num_warps": 4} for n in (256, 512)]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Triton's cache beside the GPU."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(folder))
    return folder


@pytest.mark.slow
def test_what_a_helper_compiles_is_found_in_the_cache_beside_the_gpu(cache, tmp_path, monkeypatch):
    messages = []
    there = tmp_path / "there" / "examples"
    there.mkdir(parents=True)
    (there / EXAMPLE.name).write_text(EXAMPLE.read_text())
    with Ahead(DEVICE, 1) as helper:
        monkeypatch.setitem(remote_compile._aheads, (DEVICE.key, 20.0), helper)
        ahead = FarAhead(DEVICE, Lender(4, run_helper_job), 1, tell=messages.append)
        kernel = kernel_at_path(there / EXAMPLE.name)
        results = ahead.compiled(kernel, None, SHAPE, CHOICES).result()
        assert (ahead.workers, ahead.lent, messages) == (5, 2, [])
        assert [result.error for result in results] == ["", ""]
        assert all(json.loads(result.facts)["launches"] for result in results)
        at = str(there / EXAMPLE.name), None, SHAPE
        bound = ahead.bound(*at).result()
        assert (bound["shape"]["M"], bound["limiter"]) == (64, "dram")
        assert bound["bound_ms"] > 0
        landed = {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()}
        assert len([item for item in landed if item.suffix == ".cubin"]) == 2
        # the same beside the GPU, from another path: it is found, and nothing is compiled
        names = helper.environment.keys() - {"TRITON_CACHE_DIR"}
        helper.environment = {name: helper.environment[name] for name in names}
        again = helper._compile_each(kernel_at_path(EXAMPLE), None, SHAPE, CHOICES)
    assert [item.facts for item in again] == [result.facts for result in results]
    now = {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()}
    assert now == landed


def test_groups_name_the_files_in_their_new_place(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    (old / "KEY").mkdir(parents=True)
    (old / "KEY" / "k.cubin").write_bytes(b"code")
    paths = {"k.cubin": str(old / "KEY" / "k.cubin")}
    (old / "KEY" / "__grp__k.json").write_text(json.dumps({"child_paths": paths}))
    (old / "KEY" / "tmp.pid_1").write_bytes(b"half")
    files = cache_transfer.pack_cache(old)
    assert files.keys() == {"KEY/k.cubin", "KEY/__grp__k.json"}
    assert cache_transfer.add_to_cache(files, new) == 2
    data = json.loads((new / "KEY" / "__grp__k.json").read_text())
    assert data == {"child_paths": {"k.cubin": str(new / "KEY" / "k.cubin")}}
    assert (new / "KEY" / "k.cubin").read_bytes() == b"code"
    assert cache_transfer.add_to_cache(files, new) == 0  # what is there stays
    assert sorted(path.name for path in (new / "KEY").iterdir()) == ["__grp__k.json", "k.cubin"]


class Beside:
    """In place of `Ahead`: compiles nothing."""

    def __init__(self, *_):
        self.workers, self.device, self._limit_s, self.here = 2, DEVICE, 20.0, []

    def __exit__(self, *_):
        pass

    def compiled(self, *arguments):
        future = Future()
        self.here.append((arguments, future))
        return future

    def bound(self, *_):
        future = Future()
        future.set_result({"here": True})
        return future

    def _compile_each(self, *arguments):
        self.here.append((arguments, None))
        return [Compiled(1.0)] * len(arguments[-1])


@pytest.fixture
def opened(monkeypatch, cache):
    """Opens a `FarAhead` whose `Ahead` compiles nothing."""
    for name in ("__init__", "__exit__", "compiled", "bound", "_compile_each"):
        monkeypatch.setattr(Ahead, name, getattr(Beside, name))
    assert cache.exists()
    return lambda run, slots=2, messages=None: FarAhead(
        DEVICE, Lender(slots, run), tell=(messages if messages is not None else []).append
    )


def test_jobs_are_shared_out_by_cores(opened):
    may_end = threading.Event()

    def run(job):
        assert may_end.wait(10)
        return Done((Compiled(1.0),) * len(job.choices), {}, remote_compile._triton_version())

    ahead = opened(run, slots=4)
    kernel = kernel_at_path(EXAMPLE)
    futures = [ahead.compiled(kernel, None, SHAPE, CHOICES[:1]) for _ in range(6)]
    assert (ahead._far, ahead._here) == ([4, 4], [2, 2])
    may_end.set()
    beside = [future for _, future in ahead.here]
    assert [future.result(10) for future in futures if future not in beside] == [
        [Compiled(1.0)]
    ] * 4
    assert ahead.lent == 4


@pytest.mark.parametrize(
    "run",
    [
        lambda _: (_ for _ in ()).throw(WorkerError("its node is gone")),
        lambda job: Done((Compiled(0.1),) * len(job.choices), {}, "2.0.0"),
    ],
)
def test_a_helper_that_is_of_no_use_is_asked_no_more(opened, run):
    messages = []
    ahead = opened(run, messages=messages)
    kernel = kernel_at_path(EXAMPLE)
    assert len(ahead.compiled(kernel, None, SHAPE, CHOICES).result(10)) == 2
    assert ahead.lent == 0
    assert len(ahead.here) == 1  # compiled here instead
    ahead.compiled(kernel, None, SHAPE, CHOICES)
    assert len(ahead.here) == 2
    (note,) = messages
    assert note.startswith("Helpers compile no more: ")


def test_a_bound_comes_from_a_helper_or_from_here(opened):
    def run(job):
        if job.shape == {"M": 1}:
            return Done(
                (),
                {},
                remote_compile._triton_version(),
                error="k.py cannot be surveyed: no reference",
            )
        if job.shape == {"M": 2}:
            raise WorkerError("its node is gone")
        return Done((), {}, remote_compile._triton_version(), {"bound_ms": 7.0})

    ahead = opened(run)
    assert ahead.bound(str(EXAMPLE), None, {"M": 9}).result(10) == {"bound_ms": 7.0}
    with pytest.raises(WorkerError, match="no reference"):
        ahead.bound(str(EXAMPLE), None, {"M": 1}).result(10)
    assert ahead.bound(str(EXAMPLE), None, {"M": 2}).result(10) == {"here": True}
    assert ahead.bound(str(EXAMPLE), None, {"M": 9}).result(10) == {"here": True}


def test_an_extension_is_built_beside_the_gpu(opened):
    kernel = kernel_at_path(EXAMPLE)
    text = f"{kernel.source.text}\n# torch.utils.cpp_extension"
    kernel = replace(kernel, source=replace(kernel.source, text=text))
    ahead = opened(lambda _: pytest.fail("it was lent"))
    ahead.compiled(kernel, None, SHAPE, CHOICES)
    assert len(ahead.here) == 1


def test_a_helper_unpacks_files_where_the_user_keeps_caches(monkeypatch, tmp_path):
    monkeypatch.setattr(userdata, "cache_folder", lambda name: tmp_path / name)
    path, _ = make_bundle(str(EXAMPLE)).unpack(userdata.cache_folder("helping"))
    assert Path(path).read_text() == EXAMPLE.read_text()
    assert os.path.commonpath([path, str(tmp_path / "helping")]) == str(tmp_path / "helping")
    assert Job.__dataclass_fields__.keys() >= {"bundle", "choices"}
