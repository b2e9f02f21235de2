"""Choices of other tools' files: nearest sizes first, under the kernel's names, in its space."""

from __future__ import annotations

import json

import pytest

from solkit.core import Space
from solkit.errors import InputError
from solkit.tuner.transferred_choices import ChoicesElsewhere

NAME = "E=8,N=512,device_name=NVIDIA_H100_80GB_HBM3.json"
VALUES = {"BLOCK_M": [16, 32, 64, 128], "num_warps": [4, 8], "num_stages": [2, 3], "SPLIT": [1]}
DEFAULT = {"BLOCK_M": 16, "num_warps": 4, "num_stages": 2, "SPLIT": 1}
SHAPE = {"E": 8, "N": 512, "num_tokens": 100}


def choice(block, warps=8, **more):
    return {"BLOCK_SIZE_M": block, "GROUP_SIZE_M": 1, "num_warps": warps, "num_stages": 3, **more}


def point(block, warps=8):
    return {"BLOCK_M": block, "num_warps": warps, "num_stages": 3, "SPLIT": 1}


@pytest.fixture
def file(tmp_path):
    """A file of SGLang or vLLM: four batch sizes, one with a block that the space lacks."""

    def write(choices, name=NAME):
        path = tmp_path / name
        path.write_text(json.dumps(choices))
        return str(path)

    return write


CHOICES = {"16": choice(16), "64": choice(32), "128": choice(64), "4096": choice(256)}


def nearest(*files, shape=SHAPE, names=None, **settings):
    elsewhere = ChoicesElsewhere(files, names or {})
    return elsewhere.nearest(shape, Space(VALUES), DEFAULT, **settings)


def test_choices_for_the_nearest_sizes_come_first_and_the_space_has_all(file):
    path = file(CHOICES)
    assert nearest(path) == (point(64), point(32), point(16))
    assert nearest(path, shape={**SHAPE, "num_tokens": 20}, most=1) == (point(16),)


def test_equal_choices_and_the_one_in_use_come_once(file):
    same = {"16": choice(16), "32": choice(16), "64": {**choice(16, 4), "num_stages": 2}}
    assert nearest(file(same)) == (point(16),)


def test_another_matrix_is_further_away_than_another_batch_size(file):
    other = file({"100": choice(128)}, "E=8,N=4096,device_name=NVIDIA_H100_80GB_HBM3.json")
    assert nearest(other, file(CHOICES))[:3] == (point(64), point(32), point(16))


def test_the_users_names_go_before_usual_ones(file):
    shape = {"E": 8, "N": 512, "rows": 16, "num_tokens": 128}
    assert nearest(file(CHOICES), shape=shape, most=1) == (point(64),)
    by_name = nearest(file(CHOICES), shape={"E": 8, "rows": 16}, names={"M": "rows"}, most=1)
    assert by_name == (point(16),)


def test_of_equally_near_choices_those_of_the_first_file_come_first(file):
    one = file({"100": choice(32)}, "E=8,N=512,device_name=NVIDIA_A100-SXM4-80GB.json")
    two = file({"100": choice(64)})
    assert nearest(one, two) == (point(32), point(64))
    assert nearest(two, one) == (point(64), point(32))


def test_a_file_without_choices_is_named(file, tmp_path):
    with pytest.raises(InputError, match=r"nothing\.json"):
        nearest(str(tmp_path / "nothing.json"))
    with pytest.raises(InputError, match=r"other\.json"):
        nearest(file({"hello": 1}, "other.json"))
