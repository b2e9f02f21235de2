from __future__ import annotations

import itertools
import os
import signal
import time

import pytest

from solkit.adapters.triton_compiler import Compiled
from solkit.analysis.triton import compiling
from solkit.roofline import devices

H100 = devices.find("h100")


def compile_with(monkeypatch, compiler, kernels, jobs=2, limit_s=300.0):
    monkeypatch.setattr(compiling, "compile_for", compiler)
    return compiling.compile_all(kernels, H100, jobs, isolated=True, limit_s=limit_s)


def test_results_keep_the_order(monkeypatch):
    def slow_first(kernel, _):
        time.sleep(0.2 if kernel == 0 else 0)
        return Compiled(registers=kernel)

    results = compile_with(monkeypatch, slow_first, range(5))
    assert [result.registers for result in results] == [0, 1, 2, 3, 4]


def test_no_more_than_jobs_run_at_once(monkeypatch):
    def spell(*_):
        start = time.monotonic()
        time.sleep(0.1)
        return Compiled(seconds=start)

    starts = sorted(item.seconds for item in compile_with(monkeypatch, spell, range(3), jobs=1))
    assert all(later - earlier >= 0.1 for earlier, later in itertools.pairwise(starts))


def test_a_crash_takes_only_its_own_kernel_along(monkeypatch):
    def crash(kernel, _):
        if kernel == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return Compiled(registers=kernel)

    results = compile_with(monkeypatch, crash, range(3))
    assert [result.registers for result in results] == [0, None, 2]
    assert results[1].error == "the compiler crashed (exit code -9)"


def test_a_hang_is_stopped(monkeypatch):
    def hang(*_):
        time.sleep(600)

    (result,) = compile_with(monkeypatch, hang, [0], limit_s=0.3)
    assert result.unread == "the compiler was stopped after 0.3 s"
    assert result.is_unfinished  # on a GPU the kernel may run after a longer wait
    assert result.error is None


@pytest.mark.parametrize("kernels", [[], ()])
def test_nothing_to_compile(monkeypatch, kernels):
    assert compile_with(monkeypatch, None, kernels) == ()
