"""The spaces that other tools' files describe or have recorded."""

from __future__ import annotations

import json

import pytest

from solkit.core import Count
from solkit.datasets.formats import read_space
from solkit.errors import InputError

# AutoTuningAssociation/benchmark_hub, kernels/convolution_milo.json (MIT): its spaces were
# measured whole, 4362 configurations on each of six GPUs
CONVOLUTION = {
    "TuningParameters": [
        {"Name": "block_size_x", "Type": "int", "Values": "[16 * i for i in range(1, 17)]"},
        {"Name": "block_size_y", "Type": "int", "Values": "[1, 2, 4, 8, 16]", "Default": 16},
        {"Name": "tile_size_x", "Type": "int", "Values": "[1, 2, 3, 4]"},
        {"Name": "tile_size_y", "Type": "int", "Values": "[1, 2, 3, 4]"},
        {"Name": "read_only", "Type": "int", "Values": "[0, 1]"},
        {"Name": "use_padding", "Type": "int", "Values": "[0, 1]"},
        {"Name": "use_shmem", "Type": "int", "Values": "[0, 1]"},
        {"Name": "use_cmem", "Type": "int", "Values": "[1]"},
        {"Name": "filter_height", "Type": "int", "Values": "[15]"},
        {"Name": "filter_width", "Type": "int", "Values": "[15]"},
    ],
    "Conditions": [
        {
            "Expression": "use_padding==0 or block_size_x % 32 != 0",
            "Parameters": ["use_padding", "block_size_x"],
        },
        {
            "Expression": "block_size_x*block_size_y<=1024",
            "Parameters": ["block_size_x", "block_size_y"],
        },
        {
            "Expression": "use_padding==0 or use_shmem != 0",
            "Parameters": ["use_padding", "use_shmem"],
        },
        {
            "Expression": "use_shmem == 0 or (((block_size_x*tile_size_x+(filter_width-1)))"
            "*((block_size_y*tile_size_y+(filter_height-1)))) < 12*1024",
            "Parameters": [
                "use_shmem", "block_size_x", "tile_size_x", "block_size_y", "tile_size_y",
            ],
        },
    ],
}  # fmt: skip


@pytest.fixture
def space_of(tmp_path):
    def read(result):
        path = tmp_path / "problem.json"
        path.write_text(json.dumps(result))
        return read_space(path)

    return read


def described(parameters, conditions=()):
    listed = [{"Name": name, "Type": kind, "Values": values} for name, kind, values in parameters]
    results = [{"Expression": text, "Parameters": []} for text in conditions]
    return {"ConfigurationSpace": {"TuningParameters": listed, "Conditions": results}}


def test_the_space_of_a_t1_file_is_the_one_that_was_measured(space_of):
    space = space_of({"ConfigurationSpace": CONVOLUTION, "KernelSpecification": {}})
    assert (space.size, space.count()) == (10240, Count(4362, 4362, 4362))


def test_t1_has_values_of_every_type(space_of):
    space = space_of(
        described(
            [
                ("N", "uint", "range(1, 10**8)"),
                ("SPEED", "float", "[0.5, 1]"),
                ("FAST", "bool", "[true, false]"),
                ("HOW", "string", "['a', 'b']"),
                ("LISTED", "int", [1, 2]),
            ]
        )
    )
    assert space.values == {
        "N": range(1, 10**8),
        "SPEED": (0.5, 1),
        "FAST": (True, False),
        "HOW": ("a", "b"),
        "LISTED": (1, 2),
    }


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (described([("N", "int", "[1, 0.5]")]), "N has the value 0.5, which is no int"),
        (described([("N", "int", "16")]), "N has the values 16; expected a list"),
        (described([("N", "complex", "[1]")]), "N has the type 'complex'; choose one of: int"),
        (described([("N", "int", "open('x')")]), r"open\('x'\): may call only"),
        (described([("N", "int", "[1]")], ["M < 2"]), "'M < 2' names M; the parameters are: N"),
        (described([("N", "int", "[1]"), ("N", "int", "[2]")]), "N is listed twice"),
        ({"ConfigurationSpace": {}}, "lacks 'TuningParameters'"),
    ],
)
def test_what_t1_does_not_have_is_refused(space_of, message, why):
    with pytest.raises(InputError, match=rf"problem.json is no T1 file: .*{why}"):
        space_of(message)


def t4(*results):
    return {
        "schema_version": "1.0.0",
        "results": [
            {
                "timestamp": "2023-12-22 09:54:05+00:00",
                "configuration": configuration,
                "times": {},
                "invalidity": invalidity,
                "measurements": [{"name": "time", "value": 1.5, "unit": "ms"}][
                    : invalidity == "correct"
                ],
            }
            for configuration, invalidity in results
        ],
    }


def test_the_space_of_t4_results_is_what_was_tried(space_of):
    space = space_of(t4(({"A": 1}, "correct"), ({"A": 2}, "compile"), ({"A": 3}, "constraints")))
    assert list(space.walk()) == [{"A": 1}, {"A": 2}]


def test_results_of_two_spaces_are_refused(space_of):
    with pytest.raises(
        InputError, match=r"rows of several spaces: .*B=2 does not have those of A=1"
    ):
        space_of(t4(({"A": 1}, "correct"), ({"B": 2}, "correct")))
