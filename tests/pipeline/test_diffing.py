"""Sides of a diff, its candidates, and what is said of those that cannot be compared."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
from pathlib import Path

import pytest

from solkit.adapters.compilers import Compiler
from solkit.analysis.analyser import Analyser
from solkit.analysis.pool import Source
from solkit.analysis.study import describe
from solkit.errors import InputError
from solkit.pipeline.diff_candidates import read_tuned
from solkit.pipeline.diff_sides import DiffAxes, opened_places, pairs_of_worlds
from solkit.pipeline.diffing import DiffSettings, diff
from solkit.processes.host import Python

OWN = importlib.metadata.version("triton")
PLANTED = Path(__file__).parent / "planted"
KERNEL = """
import torch, triton, triton.language as tl
import blocks

def inputs(N=1 << 20, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return 2 * x

@triton.jit
def twice(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, at < n), at < n)

def kernel(x, *, BLOCK=blocks.SIZE):
    out = torch.empty_like(x)
    twice[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), BLOCK)
    return out
"""


def folder_of(place, version):
    (place / "triton").mkdir(parents=True)
    info = place / f"triton-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: triton\nVersion: {version}\n")
    return str(place)


def names(axes):
    return [
        (one.side.name, one.side.device, other.side.name, other.side.device)
        for one, other in pairs_of_worlds(axes)
    ]


def test_two_compilers_are_compared_on_every_device(tmp_path):
    other = folder_of(tmp_path / "t", "4.5.6")
    sides = f"Triton {OWN}", "Triton 4.5.6"
    assert names(DiffAxes(triton=(OWN, other), devices=("h100", "b200"))) == [
        (sides[0], device, sides[1], device) for device in ("h100-sxm", "b200")
    ]


def test_a_compiler_alone_is_compared_with_this_environments(tmp_path):
    other = folder_of(tmp_path / "t", "4.5.6")
    ((one, _, two, _),) = names(DiffAxes(triton=(other,), devices=("h100",)))
    assert (one, two) == (f"Triton {OWN}", "Triton 4.5.6")


def test_devices_are_compared_if_nothing_else_is():
    ((_, one, _, two),) = names(DiffAxes(devices=("h100", "a100")))
    assert (one, two) == ("h100-sxm", "a100-sxm-80gb")


def test_a_revision_is_compared_with_the_files_as_they_are():
    ((one, _, two, _),) = names(DiffAxes(revisions=("HEAD~1",), devices=("h100",)))
    assert (one, two) == ("HEAD~1", "the files as they are")


def test_one_set_of_parameters_is_compared_with_the_files_own():
    ((one, _, two, _),) = names(DiffAxes(params=({"B": 2},), devices=("h100",)))
    assert (one, two) == ("the files' own", "B=2")


@pytest.mark.parametrize(
    ("axes", "why"),
    [
        (DiffAxes(devices=("h100",)), "there is nothing to compare"),
        (DiffAxes(triton=(OWN,)), f"--triton {OWN} is this environment's own Triton, which one"),
        (
            DiffAxes(revisions=("a",), params=({"B": 1}, {"B": 2}), devices=("h100",)),
            "--rev and --params each have two values",
        ),
        (DiffAxes(params=({"B": 1}, {"B": 1}), devices=("h100",)), "B=1 is named twice"),
    ],
)
def test_sides_that_do_not_differ_in_one_thing_are_refused(axes, why):
    with pytest.raises(InputError, match=why):
        pairs_of_worlds(axes)


def git(folder, *arguments):
    own = "-c", "user.name=a", "-c", "user.email=a@b"
    subprocess.run(["git", "-C", folder, *own, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "twice.py").write_text(KERNEL)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "blocks.py").write_text("SIZE = 1024\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one")
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    return tmp_path


def test_a_revision_has_its_own_kernel_and_its_own_modules(repository):
    (repository / "lib" / "blocks.py").write_text("SIZE = 4096\n")
    path = str(repository / "kernels" / "twice.py")
    ((then, now),) = pairs_of_worlds(DiffAxes(revisions=("HEAD",), devices=("h100",)))
    with opened_places((then, now), path, 60.0) as (before, after):
        assert after.located(path) == path
        located = before.located(path)
        assert Path(located).read_text() == KERNEL
        assert describe(before.analyser, located).candidate.params == {"BLOCK": 1024}
        assert describe(after.analyser, path).candidate.params == {"BLOCK": 4096}


def test_a_file_that_a_revision_or_its_repository_lacks_is_named(repository, tmp_path_factory):
    path = repository / "kernels" / "twice.py"
    younger = path.with_name("younger.py")
    foreign = tmp_path_factory.mktemp("other") / "foreign.py"
    for file in (younger, foreign):
        file.write_text(KERNEL)
    ((then, now),) = pairs_of_worlds(DiffAxes(revisions=("HEAD",), devices=("h100",)))
    with opened_places((then, now), str(path), 60.0) as (before, _):
        with pytest.raises(InputError, match=r"younger\.py is not in revision HEAD"):
            before.located(str(younger))
        with pytest.raises(InputError, match=r"foreign\.py is not in .*, the repository"):
            before.located(str(foreign))


def test_an_unknown_revision_and_a_folder_without_one_are_refused(repository, tmp_path_factory):
    ((then, now),) = pairs_of_worlds(DiffAxes(revisions=("nosuch",), devices=("h100",)))
    for place in (repository, tmp_path_factory.mktemp("none")):
        with pytest.raises(InputError, match="--rev: git"), opened_places((then, now), place, 60.0):
            raise AssertionError


def test_answers_of_two_compilers_do_not_mix():
    plain = Analyser("h100")
    one, other = (
        Analyser("h100", compiler=Compiler("4.5.6", Python(folders=(place,)), ("4.5.6", place)))
        for place in ("/a", "/b")
    )
    request = Source.here("a.py", None), "analyse", ({}, {})
    assert len({analyser._entry(*request)[0] for analyser in (plain, one, other)}) == 3
    assert Analyser("h100", compiler=Compiler(OWN))._entry(*request) == plain._entry(*request)


def tuned_file(folder):
    place = folder / "E=8,N=4096,device_name=NVIDIA_H100_80GB_HBM3.json"
    choice = {"num_warps": 4}
    place.write_text(json.dumps({"triton_version": "3.6.0", "64": choice, "128": choice}))
    return str(place)


def test_a_tuned_file_gives_a_configuration_for_each_of_its_shapes(tmp_path):
    with Analyser("h100") as analyser:
        kernel = describe(analyser, str(PLANTED / "layer_norm.py"))
    choices = read_tuned(tuned_file(tmp_path), {}).choices(kernel)
    assert [(choice.shapes, choice.params) for choice in choices] == [
        ([{"N": 4096, "M": 64}], {"num_warps": 4}),
        ([{"N": 4096, "M": 128}], {"num_warps": 4}),
    ]


def test_a_tuned_file_that_does_not_fit_says_what_both_sides_have(tmp_path):
    settings = DiffSettings(tuned=(tuned_file(tmp_path),))
    axes = DiffAxes(devices=("h100", "a100"))
    with pytest.raises(InputError, match=r"it names E, M, N, num_warps; .* the parameters BLOCK"):
        diff([PLANTED / "added_vectors.py"], axes, settings=settings)
