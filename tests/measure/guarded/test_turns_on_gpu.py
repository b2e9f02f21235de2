"""Sessions that share a GPU, where there is one (``pytest -m gpu``)."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from solkit.core import Verdict
from solkit.measure import Session, is_available

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not is_available(), reason="no GPU"),
]

KERNEL = """
import torch

def inputs(N=1 << 22, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2

def kernel(x):
    return x + x
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(KERNEL)
    return str(path)


def measured_with_pauses(path, pause_s, both_have_begun):
    """Verdicts of four measurements, the longest wait for one, and how often the GPU was left."""
    outcome, waits_s, verdicts = [], [], []
    with Session() as session:
        session.on_leave = lambda: outcome.append(1)
        for number in range(4):
            begun_s = time.monotonic()
            session.await_gpu()
            verdicts.append(session.measure(path, {}, {}).verdict)
            waits_s.append(time.monotonic() - begun_s)
            if number == 0:
                both_have_begun.wait(60)
            time.sleep(pause_s)
    return verdicts, max(waits_s), len(outcome)


def test_two_sessions_alternate_while_each_is_idle_and_disturb_each_other_never(path):
    both_have_begun = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(measured_with_pauses, path, 4.0, both_have_begun) for _ in range(2)]
        results = [run.result(120) for run in runs]
    print(results)
    for verdicts, longest_s, _ in results:
        assert verdicts == [Verdict.CORRECT] * 4
        assert longest_s < 30
    assert sum(outcome for _, _, outcome in results) >= 2


def test_a_session_that_is_alone_keeps_its_processes(path):
    with Session() as session:
        session.measure(path, {}, {})
        before = session.pids
        time.sleep(4.0)
        session.await_gpu()
        assert session.pids == before
