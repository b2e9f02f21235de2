"""``solkit evolve``, as a user runs it, on times that were measured on an H100."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from solkit.cli import app
from solkit.cli.evolve import _write_winner
from solkit.core import (
    Bred,
    Evolved,
    Stopped,
    TimedParams,
    TuneVerdict,
    Variant,
    canonical,
    variant_id,
)
from solkit.datasets.kernels import ZOO
from solkit.datasets.outcomelog import OutcomeLog
from solkit.datasets.store import shipped
from solkit.errors import InputError
from solkit.pipeline import evolving
from solkit.tuner.evolution.default_params import with_params

RUN = CliRunner()
FOLDER = ZOO / "softmax"
SHAPE = {"M": 8192, "N": 1024, "dtype": "float16"}
PER_KERNEL = 3


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    store, kept = shipped("h100"), []
    where = "implementation = 'softmax/three_pass' and verdict = 'correct'"
    for row in store.rows(store.where(where)):
        known_values = {canonical(item.params) for item in kept}
        is_there = canonical(row.shape) == canonical(SHAPE)
        if is_there and (len(known_values) < PER_KERNEL or canonical(row.params) in known_values):
            kept.append(row)
    path = tmp_path_factory.mktemp("evolve") / "recording.jsonl"
    with OutcomeLog(path) as log:
        log.append(kept)
    path.with_name("none.jsonl").touch()  # exchanges with a model that never answered
    return str(path)


def run_evolve(recording, *options):
    shape = ",".join(f"{name}={value}" for name, value in SHAPE.items())
    command = ["--recorded", recording, "--reference", str(FOLDER / "problem.py"), "--shape", shape]
    quick = ["--depth", "captured", "--stop-at", "2"]
    if not {"--no-rewriter", "--model", "--llm", "--key"} & set(options):
        quick += ["--no-rewriter", "--answers", str(Path(recording).with_name("none.jsonl"))]
    return RUN.invoke(app, ["evolve", str(FOLDER / "three_pass.py"), *command, *quick, *options])


@pytest.fixture(scope="module")
def evolve_run(recording, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out")
    files = {name: str(folder / name) for name in ("won.py", "page.html", "found.json")}
    options = (
        "--out",
        files["won.py"],
        "--html",
        files["page.html"],
        "--json",
        files["found.json"],
    )
    return run_evolve(recording, *options), files


def test_the_page_says_what_to_do(evolve_run):
    result, _ = evolve_run
    assert result.exit_code == 0, result.output
    page = " ".join(result.stdout.split())
    assert "Use the best:" in page
    assert "times as fast (95 %:" in page
    assert "stopped because" in page
    assert "was not asked again" in page


def test_json_and_html_are_written(evolve_run):
    _, files = evolve_run
    data = json.loads(Path(files["found.json"]).read_text())
    assert data["schema"] == "solkit.evolve/1"
    assert data["shape"] == SHAPE
    assert data["variants"][0]["kind"] == "original"
    assert data["out"] == files["won.py"]
    assert "Lineage" in Path(files["page.html"]).read_text()


def test_the_winner_is_written_with_its_parameters_as_defaults(evolve_run):
    _, files = evolve_run
    data = json.loads(Path(files["found.json"]).read_text())
    text = Path(files["won.py"]).read_text()
    assert data["best"]["id"] == data["variants"][0]["id"]  # the original, with other parameters
    assert text == with_params(
        (FOLDER / "three_pass.py").read_text(), "kernel", data["best"]["params"]
    )
    assert text != (FOLDER / "three_pass.py").read_text()


def kept(tmp_path, text, source):
    """What is written of a search that found nothing faster."""
    file, out = tmp_path / "given.py", tmp_path / "out.py"
    file.write_text(text)
    own = TimedParams({"BLOCK": 2}, 1.0)
    bred = Bred(Variant(variant_id(source), source))
    evolved = Evolved(
        *(str(file), "p", {}, "h100-sxm", 0.5, own, bred.variant.id, own, TuneVerdict.KEEP, None),
        *((bred,), 0, 1, 0, 1.0, Stopped.EXHAUSTED),
    )
    winner = _write_winner(evolved, str(file), str(out))
    return out.read_text() if winner.out else None


def test_of_a_reference_alone_what_torch_compile_would_run_is_written(tmp_path):
    compiled = "def kernel(x, *, BLOCK=1): ..."
    assert kept(tmp_path, "def reference(x): ...", compiled) == "def kernel(x, *, BLOCK=2): ..."
    assert kept(tmp_path, compiled, compiled) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--no-rewriter"], "leaves nobody to write variants"),
        (["--llm", "http://127.0.0.1:9/v1"], "name the endpoint's model with --model"),
        (["--key", "MY_KEY"], "--key is for an endpoint"),
        (["--log", "a", "--resume", __file__], "give one of --log FILE"),
        (["--order", "up"], "order is 'up'; expected one of: surrogate, random"),
        (["--out", "-"], "--out: name a file"),
        (["--model", "/nowhere/model.gguf"], "no such model"),
        (["--max-cost", "1", "--llm", "http://127.0.0.1:9/v1", "--model", "m"], "needs the prices"),
    ],
)
def test_bad_options_are_named(recording, options, message):
    result = run_evolve(recording, *options)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_a_file_without_its_problem_is_said_to_need_the_reference():
    command = ["evolve", str(FOLDER / "three_pass.py"), "--recorded", "h100"]
    refused = RUN.invoke(app, command)
    assert refused.exit_code == 2
    assert "no recorded row to replay" in refused.stderr
    assert "if its reference is in another file, give --reference FILE" in refused.stderr


def test_a_file_that_is_not_recorded_is_told_from_those_that_are(recording, tmp_path):
    other = tmp_path / "other.py"
    other.write_text((FOLDER / "three_pass.py").read_text() + "# changed\n")
    command = ["--recorded", recording, "--reference", str(FOLDER / "problem.py")]
    refused = RUN.invoke(app, ["evolve", str(other), *command])
    assert refused.exit_code == 2
    assert "no such source as other.py; it has: softmax/three_pass" in refused.stderr


@pytest.mark.parametrize(
    ("option", "is_compiled"), [("--compiled", True), ("--no-compiled", False)]
)
def test_references_are_compiled_where_no_model_writes_variants(monkeypatch, option, is_compiled):
    requested = {}

    def evolve(*_, parts, settings, **__):
        requested.update(proposers=parts.proposers, is_compiled=settings.compiled)
        raise InputError("that will do")

    monkeypatch.setattr(evolving, "evolve", evolve)
    result = RUN.invoke(app, ["evolve", str(FOLDER / "problem.py"), "--gpu-seconds", "1", option])
    assert "that will do" in result.output
    assert requested == {"proposers": None, "is_compiled": is_compiled}


def test_without_a_recording_a_gpu_is_needed():
    result = RUN.invoke(app, ["evolve", str(FOLDER / "three_pass.py"), "--device", "h100"])
    assert result.exit_code == 2
