"""How much memory all processes of a measurement take together, in sizes of the inputs."""

from __future__ import annotations

import contextlib
import threading
from textwrap import dedent

import pytest
import torch
from live import Live, Moved
from simulated import HEAD, NoGuard, reference

from solkit.core import Verdict
from solkit.errors import UnsupportedError
from solkit.kernelfiles import Workload
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.checking import chunked_tensors, distributions, inputs, tolerance
from solkit.measure.checking.inputs import digest_inputs
from solkit.measure.checking.trials import TrialCache
from solkit.measure.guarded import correctness, examination
from solkit.measure.guarded.candidate import serve
from solkit.measure.guarded.correctness import Setup
from solkit.measure.guarded.examination import examine
from solkit.measure.guarded.messages import Request
from solkit.processes.channel import Channel, connected_pair

SHAPE = (64, 512, 9)
BYTES = 4 * 64 * 512 * 9
PART = BYTES // 4 // 64
CONSTANT = HEAD.replace("return x * 2", "return (x - x).relu()")
FEW = {"one-hot rows", "ramps", "zeros", "subnormal", "infinities", "swapped values"}


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Measure a kernel on inputs that are large: in proportion, as 8 GB on a GPU are."""
    for name in ("_MOST_TIMED_BYTES", "_MOST_KEPT_BYTES", "_MOST_IDLE_BYTES"):
        monkeypatch.setattr(correctness, name, BYTES // 8)
    monkeypatch.setattr(tolerance, "_CHUNK", PART)
    monkeypatch.setattr(tolerance, "_SAMPLED", PART)
    monkeypatch.setattr(inputs, "_CHUNK_BYTES", 4 * PART)
    monkeypatch.setattr(chunked_tensors, "ELEMENTS", PART)
    monkeypatch.setattr("solkit.measure.checking.redrawing.SLOW_S", 1e9)
    few = tuple(
        distribution for distribution in distributions.DISTRIBUTIONS if distribution.name in FEW
    )
    monkeypatch.setattr("solkit.measure.checking.trials.DISTRIBUTIONS", few)
    monkeypatch.setattr("solkit.measure.guarded.candidate.CheatDetector", NoGuard)

    def measured(body, cache=None, moved=None, **machine):
        path = tmp_path / "mine.py"
        path.write_text(
            dedent(f"""
            import torch

            def inputs(N=1, device="cuda"):
                return (torch.rand({SHAPE}, device=device),)

            def reference(x):
                return {body}

            def kernel(x):
                return {body}
            """)
        )
        live = Live(monkeypatch)
        ours, other = connected_pair()

        def candidate():
            with live.counting():
                serve(Channel(other, trusting=True), lambda _: reference())

        thread = threading.Thread(target=candidate, daemon=True)
        thread.start()
        with ours:
            channel = Channel(ours, trusting=False)
            channel.receive()  # it is ready
            request = Request(str(path), None, {}, {}, 600.0, 5, "cpu")
            counting = live.counting() if moved is None else moved
            with contextlib.ExitStack() as blocks, counting:
                setup = Setup(reference(**machine), live.say, blocks, cache or TrialCache(0))
                outcome = examine(request, [channel], setup)
        thread.join()
        return outcome, {stage: most / BYTES for stage, most in live.peaks.items()}

    return measured


@pytest.mark.slow
def test_inputs_beside_a_small_output(measured):
    """8 GiB of inputs take less than half of 80."""
    outcome, peaks = measured("x.amax(dim=1)")
    assert (outcome.verdict, outcome.errors) == (Verdict.CORRECT, ())
    assert peaks.pop("reading the outputs") < 4.6  # inputs, the candidate's, both wide, a part
    assert max(peaks.values()) < 3.7


@pytest.mark.slow
def test_outputs_of_the_inputs_size(measured):
    """6 GB of each: 54 while the candidate is checked, and 72 where timed calls are judged."""
    outcome, peaks = measured("x.log_softmax(dim=1)")
    assert (outcome.verdict, outcome.errors) == (Verdict.CORRECT, ())
    assert peaks.pop("reading the outputs") < 12.6
    assert max(peaks.values()) < 9.5


@pytest.mark.slow
def test_outputs_of_the_inputs_size_where_memory_is_short(measured):
    """Without wide arithmetic: two copies of the inputs, five of the outputs at most."""
    outcome, peaks = measured("x.log_softmax(dim=1)", free=0.0)
    assert outcome.verdict is Verdict.CORRECT
    assert max(peaks.values()) < 7.5


@pytest.mark.slow
@pytest.mark.parametrize(("most_bytes", "first"), [(1 << 30, "swapped values"), (0, "inputs()")])
def test_large_inputs_leave_memory_to_the_other_trials(run, monkeypatch, most_bytes, first):
    dropped = []
    drop = correctness.Checks._drop_inputs

    def drop_and_note(self, shared, blocks):
        dropped.append(shared.trial.name)
        drop(self, shared, blocks)

    monkeypatch.setattr(correctness, "_MOST_TIMED_BYTES", most_bytes)
    monkeypatch.setattr(correctness.Checks, "_drop_inputs", drop_and_note)
    outcome = run("def kernel(x): return x + x")
    assert (outcome.verdict, outcome.errors) == (Verdict.CORRECT, ())
    assert dropped[0] == first
    usual = [item for item in dropped if item.startswith("inputs()")]
    assert usual == (["inputs()", "inputs(), seed 1"] if most_bytes == 0 else [])
    digest = run("def kernel(x): return x + x").samples.inputs_digest
    monkeypatch.setattr(correctness.Checks, "_drop_inputs", drop)
    if most_bytes == 0:  # only the second is timed; it is the same once more
        seed_everything(6)
        x = torch.randn(16)
        assert digest == digest_inputs(Workload((x,), {}, torch.relu, None))
    outcome = run("def kernel(x): return torch.zeros_like(x)", head=CONSTANT)
    assert outcome.verdict is Verdict.DEGENERATE_PROBLEM


@pytest.mark.parametrize("most_bytes", [1 << 30, 0])
def test_tolerances_alone_decide_where_memory_is_short(run, monkeypatch, most_bytes):
    monkeypatch.setattr(correctness, "_MOST_TIMED_BYTES", most_bytes)
    outcome = run("def kernel(x): return x + x", mine=reference(free=0.0))
    assert outcome.verdict is Verdict.CORRECT
    (note,) = {error for error in outcome.errors if "memory" in error}
    assert note.startswith("Tolerances alone decide: the reference in wide arithmetic needs")
    wrong = run("def kernel(x): return x * 2.1", mine=reference(free=0.0))
    assert wrong.verdict is Verdict.WRONG


@pytest.mark.slow
def test_bytes_that_the_referee_moves_for_a_candidate(measured, monkeypatch):
    """Of trials that candidates share, the reference in wide arithmetic runs for the first alone.

    On fp32 inputs beside a small output, in sizes of the inputs: before any of this was looked at,
    1,500 for each candidate.
    """
    monkeypatch.setattr("solkit.measure.timing.sampling.COSTLY_DRAW_S", 0.0)
    monkeypatch.setattr(examination, "_FEW_LOOKS", 0)  # or chance decides
    cache, moved = TrialCache(BYTES), [Moved(), Moved()]
    for count in moved:
        outcome, _ = measured("x.amax(dim=1)", cache, count)
        assert outcome.verdict is Verdict.CORRECT
        assert outcome.measurement.samples == 8, "their interval is narrow"
    first, later = (count.bytes / BYTES for count in moved)
    assert first < 690
    assert later < 520


def test_a_lack_of_memory_says_what_is_needed_and_what_there_is(run):
    """The second of the file's own inputs, of 64 bytes as the outputs, does not fit."""
    head = HEAD.replace(
        "return x * 2",
        """
    if torch.initial_seed() == 6:
        raise torch.OutOfMemoryError("CUDA out of memory")
    return x * 2""",
    )
    with pytest.raises(UnsupportedError) as caught:
        run("def kernel(x): return x + x", head=head, mine=reference(free=3e9, total=80e9))
    text = str(caught.value)
    assert "running the reference: OutOfMemoryError: CUDA out of memory" in text
    assert "inputs of 0.0 GB and outputs of 0.0 GB need at least 0.0 GB" in text
    assert "the GPU has 80.0 GB, of which 3.0 GB are free; choose a smaller shape" in text


WRONG = {
    "in a timed call": "return x * 2 if len(calls) < 20 else torch.zeros_like(x)",
    "at once": "return x * 2.1",
    "when called again": "return x * 2 + (len(calls) == 2)",
    "on inputs that are not usual": "return x * 2 if 0.1 < x.abs().max() < 9 else x",
    "in what it leaves of its inputs": "y = x * 2; x[3] += 1; return y",
    "in inputs, from the second call on": "y = x * 2; x[15] *= 1 + (len(calls) == 2); return y",
    "in a late write": "y = x * 2; x[15] *= 1 + (len(calls) > 20); return y",
}


@pytest.mark.quick("at once", "when called again", "in what it leaves of its inputs")
@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_large_inputs_are_checked_as_strictly(run, monkeypatch, body):
    for name in ("_MOST_TIMED_BYTES", "_MOST_KEPT_BYTES", "_MOST_IDLE_BYTES"):
        monkeypatch.setattr(correctness, name, 0)
    for name in ("_LOOKS", "_FEW_LOOKS"):
        monkeypatch.setattr(examination, name, 1000)
    kernel = "calls = []\ndef kernel(x):\n    calls.append(1)\n    " + body
    assert run(kernel).verdict is Verdict.WRONG


def test_a_held_out_shape_that_does_not_fit_is_left_out_and_that_is_said(run):
    head = HEAD.replace(
        "    return (torch.randn",
        "    if N == 64:\n        raise torch.OutOfMemoryError('CUDA out of memory')\n"
        "    return (torch.randn",
    )
    outcome = run("HELD_OUT_SHAPES = [{'N': 64}]\ndef kernel(x): return x + x", head=head)
    assert outcome.verdict is Verdict.CORRECT
    assert "Not checked on held-out N=64: its inputs do not fit into memory." in outcome.errors
