"""A reference alone: what `torch.compile` would run is the first kernel."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from solkit import pipeline
from solkit.cli import app
from solkit.core import AnalysisStatus, EvolveSettings, MeasureSettings
from solkit.errors import InputError
from solkit.pipeline.compiling import first_parent, write_compile_peer
from solkit.pipeline.evolve_original import Original
from solkit.pipeline.evolve_selection import Selection
from solkit.pipeline.preparing import Preparation
from solkit.roofline.devices import find

REFERENCE = """
import torch

SHAPES = [{"M": 64, "N": 96}, {"M": 32, "N": 96}]

def inputs(M=4096, N=4096, device="cuda"):
    return torch.randn(M, N, device=device), torch.randn(N, 16, device=device)

def reference(x, w):
    return torch.relu(torch.softmax(x, -1) @ w)
"""
pytestmark = pytest.mark.usefixtures("compiler_loaded")
RANDOM = REFERENCE.replace("torch.relu(", "torch.nn.functional.dropout(")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compiling")
    (folder / "problem.py").write_text(REFERENCE)
    (folder / "random.py").write_text(RANDOM)
    return folder


@pytest.fixture(scope="module")
def out(folder):
    """The kernel file that the command writes."""
    path = folder / "kernel.py"
    command = ["inductor", str(folder / "problem.py"), "--device", "h100", "--out", str(path)]
    result = CliRunner().invoke(app, [*command, "--shape", "M=48,N=80"])
    assert result.exit_code == 0, result.output
    return path


def test_the_command_writes_a_file_that_is_analysed_whole(folder, out):
    shape = {"M": 48, "N": 80}
    analysis = pipeline.analyse(out, "h100", reference=folder / "problem.py", shape=shape)
    assert analysis.status is AnalysisStatus.COMPLETE
    names = [kernel.launch.name for kernel in analysis.kernels]
    assert len(names) == 3
    assert ["softmax" in names[0], "mm" in names[1], "relu" in names[2]] == [True] * 3


def test_the_command_overwrites_nothing(folder, out):
    text = out.read_text()
    result = CliRunner().invoke(app, ["inductor", str(folder / "problem.py"), "--out", str(out)])
    assert result.exit_code == 2
    assert "exists" in result.output
    assert out.read_text() == text


@pytest.mark.slow
def test_evolve_starts_from_it_at_its_one_shape(folder):
    path = str(folder / "problem.py")
    with contextlib.closing(Preparation(find("h100-sxm"), MeasureSettings())) as prepared:
        result = Original.read(prepared, path, path, None, EvolveSettings())
        assert result.compiled == path
        assert result.problem == path
        assert Path(result.path).read_text() == result.variant.source
    assert result.shape == {"M": 64, "N": 96}
    assert result.params["num_warps_0"] in (1, 2, 4, 8, 16)
    assert result.others(EvolveSettings()) == []
    assert "holds no kernel" in result.notes[0]


def test_the_operation_in_the_way_is_named(folder):
    with pytest.raises(InputError, match=r"random\.py.*draws random numbers"):
        first_parent(folder / "random.py", "h100", {"M": 8, "N": 8})


@pytest.mark.slow
def test_settings_of_inductor_change_the_program(folder):
    fields = {"triton.cooperative_reductions": True, "triton.force_cooperative_reductions": True}
    shape = {"M": 48, "N": 80}
    plain = first_parent(folder / "problem.py", "h100", shape)
    shared = first_parent(folder / "problem.py", "h100", shape, fields)
    assert "launch_cooperative_grid=True" in shared.text
    assert "launch_cooperative_grid" not in plain.text


def test_an_unknown_setting_is_named(folder):
    with pytest.raises(InputError, match="no_such_setting"):
        first_parent(folder / "problem.py", "h100", {"M": 8, "N": 8}, {"no_such_setting": 1})


COLUMNS = """
import torch

SHAPES = [{"B": 64, "M": 2048, "N": 512}]

def inputs(B=64, M=2048, N=512, device="cuda"):
    return (torch.randn(B, M, N, device=device),)

def reference(x):
    return x.sum(1)
"""


@pytest.mark.slow
def test_of_what_inductor_would_time_the_fastest_by_the_model_is_in_use(folder):
    path = folder / "columns.py"
    path.write_text(COLUMNS)
    result = first_parent(path, "h100")
    (choices,) = result.choices
    assert len(choices) > 1
    with contextlib.closing(Preparation(find("h100-sxm"), MeasureSettings())) as prepared:
        results = Original.read(prepared, str(path), str(path), None, EvolveSettings())

        def modelled_ms(params):
            analysis = pipeline.analyse(results.path, "h100-sxm", reference=path, params=params)
            return sum(kernel.model.time_ms for kernel in analysis.kernels)

        times = [modelled_ms(choice) for choice in choices]
        assert results.params == choices[times.index(min(times))]
        assert results.params != choices[0]
        outcome = EvolveSettings(params={"num_warps": 1})
        assert Original.read(prepared, str(path), str(path), None, outcome).params["num_warps"] == 1


def test_torch_compile_itself_runs_the_reference_at_the_gate(folder):
    text = write_compile_peer(folder / "problem.py", "native")
    space = {}
    exec(text.replace("torch.compile(", "compiled("), {"compiled": lambda f: f}, space)
    assert set(space) >= {"reference", "inputs", "kernel"}
    assert "torch.compile(reference)" in text


@pytest.mark.slow
def test_the_gate_of_a_reference_is_torch_compile_with_the_references_shape(folder):
    path = str(folder / "problem.py")
    with contextlib.closing(Preparation(find("h100-sxm"), MeasureSettings())) as prepared:
        first = Original.read(prepared, path, path, None, EvolveSettings())
        world = SimpleNamespace(prepared=prepared, original=first, how=EvolveSettings())
        selection = Selection(world, None, None)
        peer = selection._compile_peer()
        assert Path(peer.path).read_text() == write_compile_peer(path, "native")
        described = prepared.analyser.describe(peer.path, path).result().candidate
        world.how = EvolveSettings(custom_kernel=True)  # compiled code would count as delegated
        assert selection._compile_peer() == first.configuration
    assert (peer.entry_point, peer.params, peer.reference) == (described.name, {}, path)
    assert peer.shape == {"M": 64, "N": 96}
