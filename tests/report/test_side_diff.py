"""The page and the JSON of a diff."""

from __future__ import annotations

import io
import json
from datetime import datetime, timezone

from rich.console import Console

from solkit.core import CandidateDiff, Change, Diff, Side, Standing
from solkit.report import side_diff
from solkit.report.html import side_diff_page

SIDES = Side("Triton 1.0", "h100-sxm", "1.0"), Side("Triton 2.0", "h100-sxm", "2.0")
SPILLS = Change("spills", "f", "", 0, 8, True, float("inf"), "spilled words per thread 0 → 8")
FEWER = Change("registers", "f", "", 64, 32, False, 0.5, "registers per thread 64 → 32")


def row(name, *changes, before=1.0, after=1.0, **more):
    states = Standing(before, registers=64), Standing(after, **more)
    return CandidateDiff(f"{name}.py", name, {"N": 8}, {"B": 2}, *states, changes)


DIFFS = [
    Diff(
        *SIDES,
        (
            row("worse<script>", SPILLS, after=2.0),
            row("same"),
            row("better", FEWER),
            row("unknown", after=None, unknown="not analysed"),
        ),
        {"bad.py": "no such"},
    )
]


def printed(top=20):
    console = Console(file=io.StringIO(), width=120, highlight=False, markup=False)
    side_diff.render(DIFFS, 0.05, top, console)
    return console.file.getvalue()


def test_json_says_what_exceeds_and_is_valid():
    document = json.loads(side_diff.dumps(DIFFS, 0.05))
    assert document["schema"] == "solkit.diff/1"
    (diff,) = document["diffs"]
    assert diff["exceeding"] == 1
    (change,) = diff["candidates"][0]["changes"]
    assert (change["name"], change["factor"], change["exceeds"]) == ("spills", "Infinity", True)
    assert diff["candidates"][0]["ratio"] == 2.0


def test_the_page_shows_losses_gains_and_what_could_not_be_compared():
    text = printed()
    assert "3 candidates compared: 1 are worse in a figure by over 5 %" in text
    assert "worse   f: spilled words per thread 0 → 8" in text
    assert "better  f: registers per thread 64 → 32" in text
    assert "1 could not be analysed on both sides" in text
    assert "not compared: bad.py: no such" in text


def test_the_page_says_how_many_it_leaves_out():
    assert "1 more have changes" in printed(top=1)


def test_html_escapes_names():
    document = side_diff.as_json(DIFFS, 0.05)
    page = side_diff_page(document, 20, written=datetime.now(timezone.utc))
    assert "worse&lt;script&gt;" in page
    assert "<script>" not in page


def test_every_name_of_a_change_has_words():
    from solkit.roofline.kernel.changes import CHANGES

    assert set(side_diff._WORDS) == set(CHANGES)
