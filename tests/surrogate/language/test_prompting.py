"""A language model is asked which of two candidates is faster; its answers here are made up."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from few_kernels import source
from model_fakes import Scripted, random_llama, says, serving, talks

from solkit.core import Depth, Facts, KernelAnalysis, Launch
from solkit.errors import BudgetSpentError, InputError, ModelGoneError
from solkit.llm.budget import Budget
from solkit.llm.client import Failure, Trouble
from solkit.llm.endpoint import Endpoint
from solkit.llm.retry import ParsedAnswer, Retries, RetryingChat
from solkit.llm.transcript import ReplayedChat, Transcript, read_exchanges
from solkit.roofline import devices
from solkit.surrogate.features import Problem
from solkit.surrogate.language.prompting import (
    BINS,
    Calibration,
    PromptedForecaster,
    bin_of_speed_up,
    messages_for,
    read_answer,
)
from solkit.surrogate.table import Entry

NAMES = [item.name for item in BINS]
LAUNCH = Launch("work0", (8, 1, 1), 4, 3, 1, {"PART0": 1}, {"x": "*fp32"})
PROBLEM = Problem(0.01, "dram", {"fp32": 2048.0}, 4096.0, 4096.0, {"N": 1024})


def entry(number=0, slow=False, time_ms=float("nan"), **more):
    kernels = [KernelAnalysis(Facts(LAUNCH, Depth.COMPILED, registers=40, spills=0))]
    text = source(number, slow)
    fields = {"problem": PROBLEM, "device": devices.find("h100"), "params": {"PART0": number}}
    return Entry(**{**fields, **more}, kernels=kernels, about={}, time_ms=time_ms, source=text)


def answer(*shares):
    return json.dumps(dict(zip(NAMES, shares, strict=True)))


A_FASTER = answer(0, 0, 0, 0.1, 0.2, 0.3, 0.4)
B_FASTER = answer(0.4, 0.3, 0.2, 0.1, 0, 0, 0)


def forecaster(*script, **more):
    return PromptedForecaster(RetryingChat(Scripted(*script), "v1", sleep=lambda _s: None), **more)


def test_speed_ups_fall_into_bins():
    assert [bin_of_speed_up(x) for x in (0.1, 0.6, 0.9, 1.0, 1.1, 1.5, 4.0)] == [
        0,
        1,
        2,
        3,
        4,
        5,
        6,
    ]
    assert [bin_of_speed_up(1 / x) for x in (0.1, 0.6, 0.9)] == [6, 5, 4]  # mirrored


def test_an_answer_is_read():
    answer = read_answer(A_FASTER)
    assert isinstance(answer, ParsedAnswer)
    np.testing.assert_allclose(answer.value, [0, 0, 0, 0.1, 0.2, 0.3, 0.4])
    fenced = f"<think>Perhaps {{}}.</think>\n```json\n{A_FASTER}\n```"
    assert isinstance(read_answer(fenced), ParsedAnswer)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no_json"),
        ("A is faster.", "no_json"),
        (A_FASTER + A_FASTER, "no_json"),
        ("[1, 0, 0, 0, 0, 0, 0]", "other_keys"),
        ('{"A": 1.0}', "other_keys"),
        (A_FASTER.replace("0.4", "NaN"), "no_json"),
        (A_FASTER.replace("0.4", "Infinity"), "no_json"),
        (A_FASTER.replace("0.4", "true"), "no_numbers"),
        (A_FASTER.replace("0.4", '"0.4"'), "no_numbers"),
        (A_FASTER.replace("0.4", "1e999"), "no_probabilities"),
        (A_FASTER.replace("0.4", "0.9"), "no_probabilities"),
        (answer(-0.5, 0, 0, 0.5, 0, 0, 1.0), "no_probabilities"),
        (A_FASTER[:-1] + f', "{NAMES[0]}": 0}}', "no_json"),
        ("[" * 100_000, "oversized"),
        ("[" * 19_000, "no_json"),
    ],
)
def test_nonsense_is_refused(text, reason):
    assert read_answer(text).reason == reason


def test_both_orders_are_asked_and_averaged():
    first = forecaster(A_FASTER, B_FASTER).compare(entry(0), entry(1))  # they agree
    np.testing.assert_allclose(
        first.probabilities, Calibration().of(np.array([0, 0, 0, 0.1, 0.2, 0.3, 0.4]))
    )
    assert (first.answers, first.faster > 0.9, first.speed_up_log2 > 0.5) == (2, True, True)
    biased = forecaster(A_FASTER, A_FASTER).compare(entry(0), entry(1))  # whatever stands first
    assert biased.faster == pytest.approx(0.5)
    assert biased.speed_up_log2 == pytest.approx(0.0)


def test_one_answer_is_enough_and_none_says_nothing():
    one = forecaster("nonsense", B_FASTER).compare(entry(0), entry(1))
    assert (one.answers, one.faster > 0.9) == (1, True)
    assert forecaster("nonsense", "nonsense").compare(entry(0), entry(1)) is None


def test_candidates_are_ordered_by_what_they_gain_over_the_incumbent():
    script = [B_FASTER, A_FASTER, A_FASTER, B_FASTER, "nonsense", "nonsense"]
    result = forecaster(*script).order([entry(1), entry(2), entry(3)], entry(0))
    assert result == [1, 2, 0]


def test_only_candidates_for_one_problem_on_one_gpu_are_compared():
    other = entry(1, problem=replace(PROBLEM, sol_ms=0.02))
    with pytest.raises(InputError, match="one problem on one GPU"):
        forecaster(A_FASTER).compare(entry(0), other)
    with pytest.raises(InputError, match="one problem on one GPU"):
        forecaster(A_FASTER).compare(entry(0), entry(1, device=devices.find("h200")))


def test_a_model_that_is_too_sure_is_calibrated():
    sure = np.tile([0, 0, 0, 0, 0, 0.05, 0.95], (10, 1))
    right = [6] * 6 + [5] * 2 + [3] * 2  # it is right six times in ten
    result = Calibration.fit(sure, right)
    assert result.temperature > 2
    assert 0.5 < result.of(sure)[0, 6] < 0.8
    assert Calibration.fit(np.tile([0, 0, 0, 0, 0, 0.4, 0.6], (10, 1)), [6] * 10).temperature < 1
    with pytest.raises(InputError, match="got none"):
        Calibration.fit(np.empty((0, 7)), [])


def test_pairs_that_were_timed_calibrate_it():
    pairs = [(entry(0, time_ms=1.0), entry(1, time_ms=1.0))] * 4  # they are equal, not faster
    result = forecaster(*[A_FASTER, B_FASTER] * 4).calibrated(pairs)
    assert result.calibration.temperature > 2
    with pytest.raises(InputError, match="times are known"):
        forecaster(A_FASTER).calibrated([(entry(0), entry(1))])


def test_the_model_is_told_facts_and_no_times():
    system, user = messages_for(entry(0, time_ms=1.2345), entry(1, slow=True))
    for name in NAMES:
        assert f'"{name}"' in system.content
    for fact in ("tl.erf(value)", "tl.abs(value)", "registers 40", "grid 8 x 1 x 1", '"N": 1024',
                 "limited by dram", "132 SMs"):  # fmt: skip
        assert fact in user.content.replace('{"N":1024}', '{"N": 1024}')
    assert "1.23" not in user.content


def test_an_unknown_version_is_named():
    with pytest.raises(InputError, match=r"no prompts of version 'v9'; there are: v1"):
        messages_for(entry(0), entry(1), "v9")


def test_an_endpoint_is_asked_and_replayed(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    file = tmp_path / "exchanges.jsonl"
    with serving(says({"error": "busy"}, 503), talks(A_FASTER), talks(B_FASTER)) as server:
        asking = RetryingChat(
            Endpoint(server.url, "fake-model"), "v1",
            exchanges=Transcript(file), budget=Budget(), sleep=lambda _s: None,
        )  # fmt: skip
        comparison = PromptedForecaster(asking).compare(entry(0), entry(1))
    assert (comparison.answers, comparison.faster > 0.9) == (2, True)
    assert len(read_exchanges(file)) == 3
    again = PromptedForecaster(RetryingChat(ReplayedChat(file), "v1")).compare(entry(0), entry(1))
    np.testing.assert_array_equal(again.probabilities, comparison.probabilities)


@pytest.fixture
def served(tmp_path):
    """`transformers serve` with a model of random weights: its URL and the model's name."""
    for package in ("transformers", "fastapi", "uvicorn"):
        pytest.importorskip(package)
    template = "{% for each in messages %}{{ each['content'] }}\n{% endfor %}"
    place = str(random_llama(tmp_path / "model", template, most=8192))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = Path(sys.executable).with_name("transformers")
    requests = [
        command,
        "serve",
        place,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--device",
        "cpu",
    ]
    with subprocess.Popen(requests, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(300):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                assert server.poll() is None
                time.sleep(0.2)
            else:
                pytest.fail("transformers serve does not answer")
            yield f"http://127.0.0.1:{port}/v1", place
        finally:
            server.terminate()


@pytest.mark.slow
def test_transformers_own_server_is_asked_and_its_noise_says_nothing(tmp_path, served, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    file, budget = tmp_path / "exchanges.jsonl", Budget()
    asking = RetryingChat(Endpoint(*served), "v1", exchanges=Transcript(file), budget=budget)
    assert PromptedForecaster(asking, max_tokens=24).compare(entry(0), entry(1)) is None
    both = read_exchanges(file)
    assert len(both) == 2  # a pair is asked in both orders
    assert all(item.refused for item in both)
    assert all(item.answer.tokens_in > 1000 for item in both)
    assert all(0 < item.answer.tokens_out <= 24 for item in both)
    assert budget.tokens == sum(e.answer.tokens_in + e.answer.tokens_out for e in both)


def test_a_model_that_is_gone_and_a_spent_budget_are_errors():
    gone = RetryingChat(
        Scripted(Failure(Trouble.TIME_OUT, "slow")), "v1",
        retries=Retries(attempts=2), sleep=lambda _s: None,
    )  # fmt: skip
    with pytest.raises(ModelGoneError, match="slow"):
        PromptedForecaster(gone).compare(entry(0), entry(1))
    spent = RetryingChat(Scripted(A_FASTER), "v1", budget=Budget(max_tokens=100))
    with pytest.raises(BudgetSpentError):
        PromptedForecaster(spent).compare(entry(0), entry(1))
