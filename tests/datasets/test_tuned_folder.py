"""Tuned folders: what is written comes back; what is damaged is named."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from solkit.core.kernel_programs import Binding, TensorLayout
from solkit.core.launches import Launch
from solkit.core.tuned import (
    LaunchBucket,
    Speedup,
    TunedEntry,
    TunedFolder,
    bucket_of_launch,
)
from solkit.datasets.tuned_folder import read_tuned_folder, write_tuned_folder
from solkit.errors import InputError

C = "constexpr"
BUCKET = LaunchBucket(
    {"CAUSAL": True, "OUT": None}, {"M": 4096, "stride": 1}, {"x": (4096, 128)}, {"x": "bf16"}
)
ENTRY = TunedEntry(
    "kernel", "ab" * 32, "autotuner", BUCKET, {"BLOCK": 64, "num_warps": 4},
    {"BLOCK": 128, "num_warps": 4}, Speedup(1.2, 1.1, 1.3), True, 7, "kernels/kernel.py",
)  # fmt: skip
FOLDER = TunedFolder("h200", "2.11.0", "3.6.0", (ENTRY, replace(ENTRY, kernel="another")))


def test_what_is_written_comes_back_in_one_order(tmp_path):
    write_tuned_folder(tmp_path / "a", FOLDER)
    write_tuned_folder(tmp_path / "b", replace(FOLDER, entries=FOLDER.entries[::-1]))
    texts = [(tmp_path / name / "tuned.json").read_bytes() for name in "ab"]
    assert texts[0] == texts[1]
    assert read_tuned_folder(tmp_path / "a") == replace(FOLDER, entries=FOLDER.entries[::-1])


def test_only_what_differs_is_a_change():
    assert ENTRY.changes == {"BLOCK": 128}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "tuned.json is no JSON"),
        ("[]", "has the schema None; expected 'solkit.tuned_folder/1'"),
        ('{"schema": "solkit.tune/1"}', "has the schema 'solkit.tune/1'"),
        ('{"schema": "solkit.tuned_folder/1"}', "is damaged: .*device"),
        (
            json.dumps(
                {"schema": "solkit.tuned_folder/1", "device": "h200", "entries": [{"kernel": 3}]}
            ),
            "is damaged: .*entries",
        ),
    ],
)
def test_a_damaged_or_foreign_folder_is_named(tmp_path, text, message):
    (tmp_path / "tuned.json").write_text(text)
    with pytest.raises(InputError, match=message):
        read_tuned_folder(tmp_path)


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere is no tuned folder: .*No such file[^;]*$"):
        read_tuned_folder(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("size", "is_alike"),
    [
        (4096, True),
        (4080, True),  # also a multiple of 16 that rounds up to 4096
        (4081, False),  # no multiple of 16
        (2048, False),  # rounds up to itself
        (4112, False),  # rounds up to 8192
        (16, False),
        (1, False),
    ],
)
def test_sizes_are_alike_within_a_power_of_two_and_a_specialisation(size, is_alike):
    live = replace(BUCKET, scalars={"M": size, "stride": 1})
    assert BUCKET.holds(live) is is_alike


@pytest.mark.parametrize(
    "live",
    [
        replace(BUCKET, constants={"CAUSAL": False, "OUT": None}),
        replace(BUCKET, constants={"CAUSAL": 1, "OUT": None}),
        replace(BUCKET, dtypes={"x": "fp16"}),
        replace(BUCKET, shapes={"x": (4096, 128, 1)}),
        replace(BUCKET, shapes={}),
        replace(BUCKET, scalars={"M": 4096, "stride": 2}),
        replace(BUCKET, scalars={"M": 4096}),
    ],
)
def test_another_constant_dtype_rank_or_small_size_is_another_bucket(live):
    assert not BUCKET.holds(live)


def test_the_distance_counts_factors_of_two():
    live = replace(BUCKET, scalars={"M": 2048, "stride": 1}, shapes={"x": (1024, 128)})
    assert BUCKET.distance(BUCKET) == 0
    assert BUCKET.distance(live) == pytest.approx(3)


def test_a_recorded_launch_has_its_bucket_without_what_tuning_sets():
    tensor = TensorLayout("bf16", 2, (64, 128), (128, 1))
    launch = Launch(
        "kernel",
        (1, 1, 1),
        4,
        3,
        signature={
            "x": "*bf16",
            "n": "i32",
            "one": "constexpr",
            "eps": "fp32",
            "BLOCK": "constexpr",
        },
        arguments={
            "x": Binding("tensor", tensor=tensor),
            "n": Binding("scalar", 100),
            "one": Binding("constant", 1),  # Triton makes a size of 1 a constant
            "eps": Binding("scalar", 0.5),
            "BLOCK": Binding("constant", 64),
        },
    )
    assert bucket_of_launch(launch, ("BLOCK", "num_warps")) == LaunchBucket(
        {"one": 1}, {"n": 100}, {"x": (64, 128)}, {"x": "bf16"}
    )


def test_an_extended_folder_keeps_what_it_knows_itself():
    own = replace(ENTRY, program="p", params={"BLOCK": 32})
    further = replace(ENTRY, program="q")
    mine = TunedFolder("h200", entries=(own,), programs=("r",))
    both = mine.extended(TunedFolder("h200", entries=(replace(own, params={}), further)))
    assert both.entries == (own, further)
    assert both.programs == ("p", "q", "r")
    assert both.known_programs() == {"p", "q", "r"}


def test_a_recording_that_is_not_tuned_yet_says_how_to_go_on(tmp_path):
    (tmp_path / "launches-1-0-a.jsonl").touch()
    with pytest.raises(InputError, match=r"; it is recorded, but neither tuned \(`solkit batch"):
        read_tuned_folder(tmp_path)
