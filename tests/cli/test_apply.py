"""``solkit apply``: what would be applied, what a program gains, what others read."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

from solkit.cli import app
from solkit.core.tuned import LaunchBucket, Speedup, TunedEntry, TunedFolder
from solkit.datasets.tuned_folder import read_tuned_folder, write_tuned_folder
from solkit.roofline import nvml

MOE = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}
OLD, NEW = {**MOE, "num_warps": 4, "num_stages": 3}, {**MOE, "num_warps": 8, "num_stages": 4}
ENTRIES = (
    TunedEntry(
        *("moe", "ab", "jit", LaunchBucket({}, {"M": 64, "N": 512, "E": 8})),
        *(OLD, NEW, Speedup(1.25, 1.2, 1.3), True, 100),
    ),
    TunedEntry(
        "softmax", "cd", "jit", LaunchBucket(scalars={"n": 100}), {"BLOCK": 64}, {"BLOCK": 128}
    ),
)


@pytest.fixture
def folder(tmp_path):
    write_tuned_folder(tmp_path / "tuned", TunedFolder("h200", "2.11.0", "3.6.0", ENTRIES))
    return tmp_path / "tuned"


def apply(folder, *arguments):
    return CliRunner().invoke(app, ["apply", str(folder), *arguments])


def test_a_check_says_what_would_be_applied_and_why_not(folder):
    ran = apply(folder, "--check", "--device", "h200", "--triton", "3.6.0+git1")
    assert ran.exit_code == 0
    assert ran.stdout.splitlines() == [
        "1 of 2 entries would be applied on h200 with Triton 3.6.0+git1",
        "+ moe (jit) at E=8,M=64,N=512: num_stages=4,num_warps=8, 1.250 times as fast",
        "- softmax (jit) at n=100: the caller's code may use BLOCK elsewhere, as in its grid",
    ]


def test_without_a_gpu_the_folders_own_is_meant(folder, monkeypatch):
    monkeypatch.setattr(nvml, "live_devices", lambda: ())
    monkeypatch.delenv("SOLKIT_DEVICE", raising=False)
    ran = apply(folder, "--triton", "3.6.0")
    assert ran.stdout.startswith("1 of 2 entries would be applied on h200 with Triton 3.6.0")


def test_another_gpu_or_triton_applies_nothing(folder):
    for arguments, why in (
        (("--device", "a100", "--triton", "3.6.0"), "it was tuned on h200, and this is a100"),
        (("--device", "h200", "--triton", "3.7.1"), "with Triton 3.6.0, and this is 3.7.1"),
    ):
        document = json.loads(apply(folder, *arguments, "--json", "-").stdout)
        assert document["schema"] == "solkit.apply/1"
        assert [entry["applied"] for entry in document["entries"]] == [False, False]
        assert all(why in entry["why"] for entry in document["entries"])


PROGRAM = """
import json, os, pathlib
folder = os.environ["SOLKIT_APPLY"]
names = []
if folder != "0":
    tuned = json.loads(pathlib.Path(folder, "tuned.json").read_text())
    names = [entry["kernel"] for entry in tuned["entries"]]
print("time", 10 - 2 * ("moe" in names) + 3 * ("softmax" in names))
"""


@pytest.mark.slow
def test_verifying_removes_what_does_not_gain(folder, tmp_path):
    out = tmp_path / "verified.json"
    ran = apply(
        *(folder, "--verify", "--time-from", "time ([0-9.]+)", "--rounds", "6"),
        *("--json", str(out), "--", sys.executable, "-c", PROGRAM),
    )
    assert ran.exit_code == 0, ran.output
    assert [entry.kernel for entry in read_tuned_folder(folder).entries] == ["moe"]
    groups = json.loads(out.read_text())["groups"]
    assert [(group["kernels"], group["kept"]) for group in groups] == [
        (["moe", "softmax"], False), (["moe"], True), (["softmax"], False),
    ]  # fmt: skip
    assert groups[1]["ratio"]["value"] == pytest.approx(0.8)


def test_files_of_others_are_written(folder, tmp_path):
    out = tmp_path / "best.json"
    ran = apply(folder, "--device", "h200", "--triton", "3.6.0", "--emit", f"best-config:{out}")
    assert ran.exit_code == 2  # two kernels are more than a file holds
    write_tuned_folder(folder, TunedFolder("h200", "2.11.0", "3.6.0", ENTRIES[:1]))
    moe = tmp_path / "configs"
    ran = apply(folder, "--device", "h200", "--triton", "3.6.0", "--emit", f"vllm-moe:{moe}")
    assert ran.exit_code == 0, ran.output
    (path,) = moe.iterdir()
    assert path.name == "E=8,N=512,device_name=NVIDIA_H200.json"
    assert json.loads(path.read_text())["64"] == NEW


def test_a_result_that_no_comparison_confirmed_is_what_was_in_use(folder, tmp_path):
    write_tuned_folder(folder, TunedFolder("h200", "2.11.0", "3.6.0", ENTRIES[1:]))
    out = tmp_path / "best.json"
    command = ["emit", str(folder), "--format", "best-config", "--out", str(out)]
    assert CliRunner().invoke(app, command).exit_code == 0
    (config,) = json.loads(out.read_text())["configs"]
    assert config["params"] == {"BLOCK": 64}
    assert config["shape"] == {"n": 100}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--verify",), "--verify needs a program"),
        (("--", "python"), "to compare it with and without, add --verify"),
        (("--check", "--verify", "--", "python"), "give one of them"),
        (("--emit", "best"), "'best' is not FORMAT:PATH"),
        (("--device", "gtx1"), "gtx1"),
    ],
)
def test_options_that_do_not_fit_are_named(folder, arguments, message):
    ran = apply(folder, *arguments)
    assert ran.exit_code == 2
    assert message in ran.stderr


def test_a_folder_without_results_is_named(tmp_path):
    ran = apply(tmp_path)
    assert ran.exit_code == 2
    assert "is no tuned folder" in ran.stderr
