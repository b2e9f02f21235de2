"""Whose claims about autotuners' choices count, and for which file."""

from __future__ import annotations

import pytest

from solkit.core.tuned import TunerChoice
from solkit.measure.guarded.messages import Request
from solkit.measure.guarded.tuner_choices import TunerChoices

BEST, OTHER = TunerChoice("k.py:1", "('8',)", "BLOCK: 32"), TunerChoice("k.py:1", "('8',)", "16")


class Process:
    """Stands for a candidate's process."""


@pytest.fixture
def files(tmp_path):
    for name in ("problem.py", "one.py", "two.py"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    return tmp_path


def run(choices, process, path, chosen, problem, params=None):
    reference = None if path == problem else str(problem)
    request = Request(str(path), reference, {}, params or {}, 1.0, 0)
    choices.note_run([process], [request])
    choices.keep("gpu", [process], [request], [chosen])


def test_the_first_choice_stays_for_the_same_text_and_parameters(files):
    choices, original = TunerChoices(), files / "problem.py"
    run(choices, Process(), original, [BEST], original)
    run(choices, Process(), original, [OTHER], original)
    assert choices.of("gpu", str(original), {}) == (BEST,)
    assert choices.of("gpu", str(original), {"BLOCK": 16}) == ()
    assert choices.of("another", str(original), {}) == ()
    original.write_text("changed", encoding="utf-8")
    assert choices.of("gpu", str(original), {}) == ()


def test_no_candidate_has_a_say_in_what_another_launches(files):
    choices, original, process = TunerChoices(), files / "problem.py", Process()
    run(choices, process, files / "one.py", [BEST], original)
    run(choices, process, original, [OTHER], original)
    run(choices, process, files / "two.py", [OTHER], original)
    assert choices.of("gpu", str(files / "one.py"), {}) == (BEST,)
    assert choices.of("gpu", str(original), {}) == ()
    assert choices.of("gpu", str(files / "two.py"), {}) == ()


def test_the_file_of_the_problem_may_have_run_before(files):
    choices, original, process = TunerChoices(), files / "problem.py", Process()
    run(choices, process, original, [BEST], original)
    run(choices, process, files / "one.py", [OTHER], original)
    assert choices.of("gpu", str(files / "one.py"), {}) == (OTHER,)
