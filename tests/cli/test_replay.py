"""``solkit replay``, as a user runs it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from solkit.cli import app

RUN = CliRunner()


@pytest.fixture
def space(tmp_path):
    def written(name, device, factor):
        rows = [[x, y, factor * (1 + abs(x - 8) + y)] for x in range(16) for y in (0, 1)]
        rows[3][-1] = None
        fields = {"kernel": "k", "device": device, "columns": ["X", "Y", "time_ms"], "rows": rows}
        (tmp_path / name).write_text(json.dumps(fields))
        return str(tmp_path / name)

    return written


def test_the_json_is_the_contract(space):
    priors = ["--prior", space("b.json", "GPU B", 2.0), "--prior", space("c.json", "GPU C", 3.0)]
    here, options = space("here.json", "GPU A", 1.0), "--budget 2,5 --seeds 2 --json -".split()
    ran = RUN.invoke(app, ["replay", here, *priors, *options])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout) == {
        "schema": "solkit.replay/1",
        "space": "k on GPU A",
        "method": "solkit",
        "seeds": 2,
        "fraction_of_optimum": {"2": 1.0, "5": 1.0},
    }


def test_the_table_shows_each_budget(space):
    ran = RUN.invoke(
        app, ["replay", space("a.json", "GPU A", 1), "--budget", "3,30", "--seeds", "2"]
    )
    assert ran.exit_code == 0, ran.output
    assert "@30" in ran.stdout
    assert "k on GPU A" in ran.stdout
    assert "1 recorded space" in ran.stderr


def test_several_spaces_are_a_line_of_json_each():
    options = "--method random --seeds 1 --json -".split()
    ran = RUN.invoke(app, ["replay", "h100", "--where", "family = 'gemm_int8'", *options])
    assert ran.exit_code == 0, ran.output
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(lines) > 1
    assert all(line["schema"] == "solkit.replay/1" for line in lines)
    assert all(line["fraction_of_optimum"]["200"] == 1.0 for line in lines)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budget", "ten"], "--budget ten: expected numbers of measurements"),
        (["--budget", "0,5"], "--budget 0,5: expected numbers of measurements"),
        (["--method", "best"], "no method 'best'; choose one of: solkit, random"),
        (["--where", "X = 1"], "only a store can be filtered"),
        (["--least", "100"], "no recorded space: 32 configurations"),
    ],
)
def test_mistakes_are_told(space, options, message):
    ran = RUN.invoke(app, ["replay", space("a.json", "GPU A", 1.0), *options])
    assert ran.exit_code == 2
    assert message in ran.stderr
