"""Manifests: what they hold, where they are wrong, and what a profile can fill in."""

from __future__ import annotations

from pathlib import Path

import pytest

from solkit.core import Bound, IdleTime, Profile, ProfiledKernel, ProfiledOp
from solkit.errors import InputError
from solkit.roofline import devices
from solkit.tuner.manifest import (
    Limits,
    Manifest,
    ManifestEntry,
    Workload,
    parse_manifest,
    profiled_manifest,
    read_manifest,
    write_manifest,
)

FULL = """\
device = "h100"

[limits]
gpu_minutes = 30
held_out = "all"

[[kernels]]
path = "norm.py"
entry_point = "rms"
reference = "problem.py"
emit = ["best_config"]
held_out = [{ M = 3000 }]
shapes = [
  { sizes = { M = 4096, dtype = "bfloat16" }, calls = 64 },
  { sizes = { M = 1 }, calls = 6400, time_ms = 0.5, tensors = ["bf16[1, 4096]"] },
  { sizes = { M = 2 }, params = { B = 8 } },
]

[[kernels]]
path = "softmax"
[[kernels.shapes]]
sizes = {}
calls = 2.5
"""


def test_a_manifest_is_read(tmp_path):
    file = tmp_path / "batch.toml"
    file.write_text(FULL)
    manifest = read_manifest(file)
    first, second = manifest.kernels
    assert (manifest.device, manifest.limits) == ("h100", Limits(30, held_out="all"))
    assert (first.path, first.reference) == (
        str(tmp_path / "norm.py"),
        str(tmp_path / "problem.py"),
    )
    assert (first.entry_point, first.emit, first.line) == ("rms", ("best_config",), 7)
    assert first.held_out == ({"M": 3000},)
    assert first.shapes == (
        Workload({"M": 4096, "dtype": "bfloat16"}, 64),
        Workload({"M": 1}, 6400, ("bf16[1, 4096]",), 0.5),
        Workload({"M": 2}, params={"B": 8}),
    )
    assert second == ManifestEntry("softmax", shapes=(Workload({}, 2.5),), line=19)
    assert second.held_out is None


def test_a_kernel_without_shapes_uses_those_of_its_file():
    (entry,) = parse_manifest('[[kernels]]\npath = "a.py"').tunable_kernels()
    assert entry.shapes == ()


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("gpu_minutes = 30", "gpu_minutes = 0", "m.toml:4: limits.gpu_minutes: input should be gr"),
        ('"all"', '"some"', "m.toml:5: limits.held_out: input should be 'nearest' or 'all'"),
        ("calls = 2.5", "calls = -1", r"m.toml:23: kernels\[1\].shapes\[0\].calls: "),
        ("calls = 6400", 'calls = "6400"', r"m.toml:13: kernels\[0\].shapes\[1\].calls: "),
        ("M = 3000", "M = [1]", r"m.toml:12: kernels\[0\].held_out\[0\].M: "),
        ("entry_point", "entry", r"m.toml:9: kernels\[0\].entry: .*keys here are: path, name, "),
        ("time_ms", "time", r"kernels\[0\].shapes\[1\].time: .*: sizes, calls, .*, time_ms, par"),
        ("gpu_minutes", "minutes", r"m.toml:4: limits.minutes: .*: gpu_minutes, stop_at"),
        ('path = "softmax"', "", r"m.toml:19: kernels\[1\].path: field required"),
        ("[limits]", "[limits", "m.toml:3: this is not TOML: "),
        (
            "M = 1 }",
            'M = 4096, dtype = "bfloat16" }',
            "m.toml:7: norm at .* listed twice, .*line 7",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(wrong, right, message):
    assert wrong in FULL
    with pytest.raises(InputError, match=message):
        parse_manifest(FULL.replace(wrong, right, 1), "m.toml")


def test_an_empty_manifest_is_refused():
    with pytest.raises(InputError, match=r"m\.toml:1: kernels: field required"):
        parse_manifest("", "m.toml")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*none\.toml: No such file"):
        read_manifest(tmp_path / "none.toml")


PROFILED = """\
[[kernels]]
name = "aten::mm"
path = ""
shapes = [{ calls = 3 }]
[[kernels]]
path = "a.py"
shapes = [{ calls = 3, tensors = ["f32[8]"] }, { sizes = { M = 8 } }]
"""


def test_what_a_profile_cannot_know_is_left_out_by_name():
    manifest = parse_manifest(PROFILED, "m.toml")
    (entry,) = manifest.tunable_kernels()
    assert (entry.path, entry.shapes) == ("a.py", (Workload({"M": 8}),))
    assert list(manifest.left_out()) == [
        "m.toml:1: aten::mm is left out: its path is empty; name its kernel file.",
        "m.toml:5: a: 1 of 2 shapes are left out: they have no sizes.",
    ]


def test_a_manifest_of_which_nothing_can_be_tuned_says_what_is_missing():
    with pytest.raises(InputError, match=r"no kernel can be tuned. m.toml:1: aten::mm is left out"):
        parse_manifest(PROFILED.partition("[[kernels]]\npath")[0], "m.toml").tunable_kernels()


def test_what_is_written_is_read_back():
    shapes = (
        Workload({"M": 1, "dtype": "bfloat16", "causal": True, "odd name": 0.5}, 7),
        Workload(None, 2.5, ("bf16[1, 2]", 'a "quoted" \\ name'), 0.125, {"B": 8, "flag": True}),
    )
    kernel = ManifestEntry("k.py", "aten::mm", "run", "r.py", shapes, ({"M": 2},), ("vllm",))
    whole = Manifest("m.toml", (kernel, ManifestEntry("")), Limits(1.5, 0.9, 40, "all"), "h200")
    text = write_manifest(whole, ["A note."])
    manifest = parse_manifest(text, "m.toml", Path())
    assert text.startswith("# A note.\n")
    assert [vars(e) | {"line": 0} for e in manifest.kernels] == [vars(e) for e in whole.kernels]
    assert (manifest.limits, manifest.device) == (whole.limits, whole.device)


@pytest.fixture
def profile():
    bound = Bound.__new__(Bound)  # a manifest needs none
    mm, small = ("bf16[64, 64]",) * 2, ("bf16[8, 8]",) * 2

    def op(name, inputs, calls, time_ms, saving_ms):
        return ProfiledOp(name, inputs, calls, time_ms, (), bound, 0.0, saving_ms)

    return Profile(
        path="run.json",
        device=devices.find("h100"),
        span_ms=100.0,
        steps=1,
        busy_ms=90.0,
        idle=IdleTime(0.0, 0.0, 0.0),
        ops=(
            op("aten::mm", mm, 4, 40.0, 20.0),
            op("aten::relu", mm[:1], 2, 5.0, 1.0),
            op("aten::mm", small, 3, 3.0, 0.6),
            op("aten::add", small, 9, 3.0, 0.4),
        ),
        unbounded=(
            ProfiledKernel("_rms_norm_kernel", 8, 12.0, reason="launched outside of any op"),
            ProfiledKernel("Memcpy HtoD", 1, 9.0, reason="a copy that leaves the GPU"),
            ProfiledKernel("Memset (Device)", 1, 9.0, reason="launched outside of any op"),
            ProfiledKernel("ncclAllReduce", 1, 9.0, reason="communication between GPUs"),
            ProfiledKernel("tiny", 1, 0.4),
        ),
        saving_ms=22.0,
    )


def test_ops_and_kernels_worth_working_on_are_listed_with_their_calls(profile):
    manifest = parse_manifest(profiled_manifest(profile), "m.toml")
    assert manifest.device == "h100-sxm"
    assert [kernel.name for kernel in manifest.kernels] == [
        "aten::mm",
        "aten::relu",
        "_rms_norm_kernel",
    ]
    assert {kernel.path for kernel in manifest.kernels} == {""}
    assert manifest.kernels[0].shapes == (
        Workload(None, 4, ("bf16[64, 64]",) * 2, 10.0),
        Workload(None, 3, ("bf16[8, 8]",) * 2, 1.0),
    )
    assert manifest.kernels[2].shapes == (Workload(None, 8, (), 1.5),)


def test_nothing_can_be_tuned_before_files_are_filled_in(profile):
    manifest = parse_manifest(profiled_manifest(profile), "m.toml")
    with pytest.raises(InputError, match="aten::mm is left out: its path is empty"):
        manifest.tunable_kernels()


def test_a_kernel_that_is_filled_in_can_be_tuned(profile):
    text = profiled_manifest(profile).replace('path = ""', 'path = "norm.py"')
    text = text.replace("calls = 8", "sizes = { M = 4096 }, calls = 8")
    (entry,) = parse_manifest(text, "m.toml").tunable_kernels()
    assert (entry.name, entry.shapes) == (
        "_rms_norm_kernel",
        (Workload({"M": 4096}, 8, (), 1.5),),
    )
