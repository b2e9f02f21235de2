"""Failures that have one reason, and those that prove nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import spaces

from solkit.core import Configuration, Space, Stopped, Verdict
from solkit.measure.checking.remedies import (
    is_about_form,
    name_admitting,
    remedy_of,
    wants_resources,
)
from solkit.tuner.common_failure import find_common_failure
from solkit.tuner.early_stopping import TaskSettings
from solkit.tuner.tuning_problem import TuningProblem

DTYPE = "output 0: dtype torch.float32 where the reference has torch.bfloat16"
SHAPE = "output 1: shape (64, 33) where the reference has (64, 32)"
RAISES = "running it: TypeError: unsupported operand type(s) for /: 'NoneType' and 'int'"
MEMORY = "out of resource: shared memory, Required: 294912, Hardware limit: 232448."
FAULT = "running it: RuntimeError: CUDA error: an illegal memory access was encountered"
CHANCE = np.random.default_rng(0)
ON = Configuration("softmax/rows", "kernel", spaces.SHAPE, spaces.DEFAULT)


def failing(number, params, verdict, message):
    row = spaces.row(number, params, 1.0, CHANCE)
    return replace(spaces.failed(row, verdict), message=message)


def run_until_stopped(failure_of, prior=None):
    """A task that is told one outcome after the other until it stops."""
    settings = TaskSettings(stop_at=9.0, least_gain=0.0)
    task = TuningProblem("it", ON, Space.of_points(spaces.points()), prior=prior, settings=settings)
    for number in range(60):
        if task.stopped is not None or not (requested_points := task.ask(1)):
            break
        (configuration,) = requested_points
        failure = failure_of(configuration.params)
        row = spaces.row(number, configuration.params, 1.0, CHANCE)
        reported_row = row if failure is None else failing(number, configuration.params, *failure)
        task.tell(configuration, reported_row)
    return task


@pytest.mark.parametrize("message", [DTYPE, SHAPE])
def test_six_with_outputs_of_another_form_end_it(message):
    task = run_until_stopped(lambda _: (Verdict.WRONG, message))
    assert task.stopped is Stopped.FAILS_ALIKE
    assert task.measured == 6
    assert message in task.common_failure.note


def test_an_exception_of_the_launcher_ends_it_once_it_is_seen_at_both_ends_of_each_number():
    task = run_until_stopped(lambda _: (Verdict.CRASHED, RAISES))
    assert task.stopped is Stopped.FAILS_ALIKE
    assert task.measured <= 8
    for name, ends in (("BLOCK", {16, 256}), ("num_warps", {1, 8}), ("num_stages", {1, 3})):
        assert ends <= {trial.configuration.params[name] for trial in task.standings}


@pytest.mark.parametrize(
    ("verdict", "message"),
    [
        (Verdict.DOES_NOT_COMPILE, MEMORY),
        (Verdict.OUT_OF_MEMORY, "running it: OutOfMemoryError: CUDA out of memory"),
        (Verdict.TIMED_OUT, "compiling it took over 20 s"),
        (Verdict.CRASHED, FAULT),
        (Verdict.CRASHED, "it ended its process (exit code -11)"),
    ],
)
def test_what_wants_too_much_of_the_gpu_proves_nothing(verdict, message):
    task = run_until_stopped(lambda _: (verdict, message))
    assert (task.stopped, task.measured) == (Stopped.EXHAUSTED, 60)


def test_an_exception_that_only_large_blocks_raise_proves_nothing():
    def failure_of(params):
        return (Verdict.CRASHED, "running it: AssertionError") if params["BLOCK"] < 256 else None

    task = run_until_stopped(failure_of)
    assert task.stopped is Stopped.EXHAUSTED
    assert task.best is not None


def test_messages_that_name_what_was_chosen_are_not_alike():
    def failure_of(params):
        block = params["BLOCK"]
        return Verdict.WRONG, f"output 0: shape ({block},) where the reference has (1000,)"

    requests = [failing(n, p, *failure_of(p)) for n, p in enumerate(spaces.points()) if n < 20]
    space = Space.of_points(spaces.points())
    assert find_common_failure(space, spaces.DEFAULT, requests) is None


def test_addresses_in_messages_do_not_tell_failures_apart():
    rows = [
        failing(n, p, Verdict.CRASHED, f"running it: TypeError: <object at {hex(n)}> is no tensor")
        for n, p in enumerate(spaces.points())
    ]
    space = Space.of_points(spaces.points())
    assert find_common_failure(space, spaces.DEFAULT, rows).count == 60


def test_a_default_that_fails_in_another_way_leaves_hope():
    rows = [
        failing(n, p, Verdict.WRONG, "it writes" if p == spaces.DEFAULT else DTYPE)
        for n, p in enumerate(spaces.points())
    ]
    assert find_common_failure(Space.of_points(spaces.points()), spaces.DEFAULT, rows) is None


def test_each_word_of_a_parameter_must_have_failed():
    points = [{"OUT": word, "N": n} for word in ("a", "b", "c") for n in range(4)]
    rows = [failing(n, p, Verdict.WRONG, DTYPE) for n, p in enumerate(points)]
    space = Space.of_points(points)
    assert find_common_failure(space, points[0], rows[:8]) is None  # "c" may be right
    assert find_common_failure(space, points[0], rows[:9]) is not None


class Misled:
    """A prior that believes the smallest block to be the best."""

    def log2_ms(self, points):
        return np.array([float(p["BLOCK"]) for p in points]), np.full(len(points), 0.1)

    def fails(self, points):
        return np.zeros(len(points))


def test_a_prior_does_not_keep_the_search_from_trying_other_values():
    task = run_until_stopped(lambda _: (Verdict.CRASHED, RAISES), Misled())
    assert task.stopped is Stopped.FAILS_ALIKE
    assert task.measured <= 10


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (DTYPE, "Convert the output to torch.bfloat16"),
        (SHAPE, "outputs of shape (64, 32)"),
        ("1 output(s); the reference has 2", "Return 2 output(s)"),
        (RAISES, "the function that launches the kernel"),
        ("it writes to memory outside its outputs", "OUTPUTS"),
        ("k.py:12: cannot convert", "the kernel's source"),
        ("output 0: 3 of 8 elements differ; the worst at [1]", "something else than its reference"),
        (
            f"output 0: 3 of 8 elements differ; {name_admitting('tf32', 1e-3)} (tiny)",
            '"rtol": 0.001',
        ),
    ],
)
def test_the_remedy_follows_from_the_reason(message, words):
    assert words in remedy_of(message)


def test_which_messages_are_about_resources_or_form():
    assert all(map(wants_resources, [MEMORY, FAULT, "ptxas: 'k' uses too much shared data"]))
    assert not any(map(wants_resources, [DTYPE, RAISES]))
    assert [is_about_form(m) for m in (DTYPE, SHAPE, RAISES)] == [True, True, False]
