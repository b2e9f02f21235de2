"""Facts for rows that were measured before."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from datetime import datetime, timezone
from types import SimpleNamespace

import pytest

pytest.importorskip("polars")
pytest.importorskip("pyarrow")
pytest.importorskip("triton", reason="triton is there on Linux only")

from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from solkit import cli, pipeline
from solkit.collect.refill import Progress, group_rows
from solkit.core import Depth, Outcome, StoredFacts, Verdict
from solkit.datasets import outcomelog
from solkit.datasets.facts import facts_from_json, nvrtc_release
from solkit.datasets.identifiers import kernel_id, source_of
from solkit.datasets.store import Store

KERNEL = """
import torch
import triton
import triton.language as tl

SPACE = {"BLOCK": [256, 512]}

def reference(x):
    return x * 2

def inputs(N=4096, device="cuda"):
    return torch.randn(N, device=device)

@triton.jit
def double(x, out, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < N), mask=at < N)

def kernel(x, *, BLOCK=256):
    out = torch.zeros_like(x)  # PyTorch's kernel, of which no registers are known
    double[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), BLOCK)
    return out
"""
SOURCE = source_of(KERNEL.encode(), "double.py")
INLINING = source_of(("import torch._inductor\n" + KERNEL).encode(), "inlining.py")
TRITON, TORCH = (importlib.metadata.version(name) for name in ("triton", "torch"))
ROW = Outcome(
    kernel_id(SOURCE.sha256, SOURCE.sha256, "kernel"), "double", "elementwise", "file",
    "double/N=4096", "h100-sxm", {"BLOCK": 256}, Verdict.CORRECT,
    datetime(2026, 1, 1, tzinfo=timezone.utc), "random", 0.5, 0.25, run_id="run",
    entry_point="kernel", source_sha256=SOURCE.sha256, problem_sha256=SOURCE.sha256,
    shape={"N": 4096}, triton_version=TRITON, torch_version="2.0.0",
)  # fmt: skip
INLINED = replace(
    ROW,
    kernel_id=kernel_id(INLINING.sha256, INLINING.sha256, "kernel"),
    source_sha256=INLINING.sha256,
    problem_sha256=INLINING.sha256,
)
ROWS = (
    replace(ROW, sequence=1),
    replace(ROW, sequence=2, device="h200"),  # as many SMs of the same kind: the same facts
    replace(ROW, sequence=3, params={"BLOCK": 512}),
    replace(ROW, sequence=4, triton_version="2.0.0"),
    replace(ROW, sequence=5, kernel_id="unknown", source_sha256="0" * 64),
    replace(ROW, sequence=6, params={"BLOCK": 3}),  # a fact, too: it does not compile
    replace(INLINED, sequence=8),
    replace(INLINED, sequence=9, torch_version=TORCH),
)


def data(*arguments, code=0):
    done = CliRunner().invoke(cli.app, ["data", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture(scope="module")
def refilled(tmp_path_factory):
    """A store, the log of its refill, what the command said, and the store that both make."""
    folder = tmp_path_factory.mktemp("refill")
    before = Store(folder / "before", create=True)
    before.add(ROWS, [SOURCE, INLINING])
    log, after = folder / "facts.jsonl", folder / "after"
    result = data("refill", before.folder, "--out", log, "--workers", 1)
    data("merge", after, before.folder, log)
    return SimpleNamespace(before=before, log=log, told=result, after=Store(after))


def test_rows_get_the_facts_of_their_configuration(refilled):
    ids = {row.sequence: row.facts_id for row in refilled.after.rows()}
    assert ids[1] == ids[2] not in (ids[3], ids[6], None)
    assert (ids[4], ids[5], ids[8]) == (None, None, None)
    texts = dict(refilled.after.facts().collect().rows())
    assert texts.keys() == {ids[1], ids[3], ids[6], ids[9]}
    zeros, facts = facts_from_json(texts[ids[3]])
    assert zeros.launch.library
    assert facts.launch.grid == (8, 1, 1)
    _, broken = facts_from_json(texts[ids[6]])
    assert "power of 2" in broken.error


def test_they_are_the_facts_that_are_served(refilled, tmp_path):
    path = tmp_path / "another_folder.py"
    path.write_text(KERNEL)
    served = pipeline.analyse(path, "h200", shape={"N": 4096}, params={"BLOCK": 256})
    ids = {row.sequence: row.facts_id for row in refilled.after.rows()}
    text = dict(refilled.after.facts().collect().rows())[ids[1]]
    stored = facts_from_json(text.replace("double.py:", "another_folder.py:"))
    assert stored == tuple(kernel.facts for kernel in served.kernels)


def test_rows_keep_their_names_and_all_that_they_say(refilled):
    def rest(store):
        return store.scan().drop("facts_id").sort("sequence").collect()

    assert_frame_equal(rest(refilled.before), rest(refilled.after))


def test_it_says_what_was_left_out_and_why(refilled):
    assert "5 rows refilled; 0 had facts before" in refilled.told
    ours = TORCH.partition("+")[0]
    assert f"1 left out: made with torch 2.0.0, not torch {ours}" in refilled.told
    assert f"1 left out: compiled by Triton 2.0.0, not {TRITON}" in refilled.told
    assert "1 left out: the source is not known" in refilled.told


@pytest.mark.slow
def test_what_was_refilled_is_not_looked_for_again(refilled, tmp_path):
    more = Store(tmp_path / "more", create=True)
    more.add([*ROWS, replace(ROW, sequence=7)], [SOURCE, INLINING])
    log = tmp_path / "facts.jsonl"
    log.write_bytes(refilled.log.read_bytes())
    result = data("refill", more.folder, "--out", log)
    assert "1 rows refilled; 5 had facts before" in result
    before, now = outcomelog.read(refilled.log), outcomelog.read(log)
    assert now.facts == before.facts
    assert now.facts_of == {**before.facts_of, ("run", 7): before.facts_of["run", 1]}


@pytest.mark.slow
def test_a_limit_draws_rows(refilled, tmp_path):
    out = tmp_path / "few.jsonl"
    data("refill", refilled.before.folder, "--out", out, "--limit", 3, "--workers", 1)
    assert 0 < len(outcomelog.read(out).facts_of) <= 3


@pytest.mark.slow
def test_facts_of_an_older_version_are_found_again(refilled, tmp_path):
    old = Store(tmp_path / "old", create=True)
    stale = [replace(row, facts_id="0" * 64) for row in refilled.after.rows()]
    old.add(stale, [SOURCE, INLINING], [StoredFacts("0" * 64, "{}")])
    log = tmp_path / "facts.jsonl"
    assert "5 rows refilled" in data("refill", old.folder, "--out", log, "--workers", 1)
    assert outcomelog.read(log).facts_of == outcomelog.read(refilled.log).facts_of
    data("merge", tmp_path / "new", old.folder, log)
    kept = {(row.run_id, row.sequence): row.facts_id for row in Store(tmp_path / "new").rows()}
    assert kept == dict.fromkeys(kept, "0" * 64) | outcomelog.read(log).facts_of


@pytest.mark.slow
def test_rows_whose_facts_are_of_this_version_are_left_alone(refilled, tmp_path):
    out = tmp_path / "none.jsonl"
    result = data("refill", refilled.after.folder, "--out", out, code=2)
    assert "0 rows refilled" in result


@pytest.mark.slow
def test_the_first_round_has_a_few_configurations_of_each_kernel_and_shape(tmp_path):
    sizes, many = (1024, 2048, 4096), range(100, 120)
    rows = [
        replace(ROW, sequence=n * 100 + block, shape={"N": n}, params={"BLOCK": block})
        for n in sizes
        for block in many
    ]
    groups = group_rows(rows, [SOURCE], tmp_path, Progress())
    assert len(groups) == 60
    first = [group.configuration.shape["N"] for group in groups[:12]]
    assert {n: first.count(n) for n in sizes} == dict.fromkeys(sizes, 4)


@pytest.mark.slow
def test_cuda_that_is_lowered_gets_compiled_facts(tmp_path):
    text = KERNEL + 'CUDA = "__global__ void f() {}"\n'
    source = source_of(text.encode(), "cuda.py")
    row = replace(
        ROW,
        kernel_id=kernel_id(source.sha256, source.sha256, "kernel"),
        source_sha256=source.sha256,
        problem_sha256=source.sha256,
        cuda_version=nvrtc_release(),
    )

    def groups(rows, depth):
        requests = [replace(row, sequence=place) for place, row in enumerate(rows)]
        results = group_rows(requests, [SOURCE, source], tmp_path, Progress(), depth=depth)
        return {(result.facts_id, result.depth) for result in results}

    assert groups([row], Depth.LOWERED) == groups([row], Depth.COMPILED)
    assert {depth for _, depth in groups([row, ROW], Depth.LOWERED)} == {
        Depth.COMPILED,
        Depth.LOWERED,
    }
    ((known_group, _),) = groups([row], Depth.COMPILED)
    assert groups([replace(row, facts_id=known_group)], Depth.LOWERED) == set()
