import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import types
from dataclasses import replace
from pathlib import Path

import pytest
from cli_reports import NOT_MEASURED, report_of, solkit

from solkit.cli import _base, _saves
from solkit.cli._base import check_readable
from solkit.core import Verdict
from solkit.errors import KernelFileError

POLL_S = 0.01
LIMIT_S = 120


@pytest.fixture
def kernel(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text("x = 1\n")
    return path


def by_rename(path, text):
    draft = path.with_suffix(".tmp")
    draft.write_text(text)
    draft.replace(path)


def in_two_steps(path, text):
    """As editors do that truncate a file first; slower than they are."""
    path.write_text("")
    time.sleep(5 * POLL_S)
    path.write_text(text)


def away_and_back(path, text):
    path.unlink()
    time.sleep(5 * POLL_S)
    path.write_text(text)


def in_place(path, text):
    path.write_text(text)


# ----------------------------------------------------------------------------- saves


@pytest.mark.parametrize("save", [in_place, by_rename, in_two_steps, away_and_back])
def test_a_save_counts_once_and_as_a_whole(kernel, save, monkeypatch):
    monkeypatch.setattr(_saves, "_EMPTY_S", 60.0)  # however long this machine takes for a save
    results = _saves.watch_saves([str(kernel)], POLL_S)
    next(results)
    before = time.time()
    threading.Timer(3 * POLL_S, save, (kernel, "x = 2\n")).start()
    assert before < next(results) <= time.time()
    assert kernel.read_text() == "x = 2\n"
    threading.Timer(20 * POLL_S, in_place, (kernel, "x = 3\n")).start()
    next(results)
    assert kernel.read_text() == "x = 3\n"  # nothing was left of the first save


def test_a_save_while_a_page_is_made_is_not_missed(kernel):
    results = _saves.watch_saves([str(kernel)], POLL_S)
    next(results)
    kernel.write_text("x = 22\n")
    next(results)  # without another save


def test_sources_beside_the_kernel_are_watched_and_notes_are_not(kernel):
    results = _saves.watch_saves([str(kernel)], POLL_S)
    next(results)
    (kernel.parent / "notes.txt").write_text("later")
    helper = kernel.parent / "helper.py"
    threading.Timer(10 * POLL_S, in_place, (helper, "y = 1\n")).start()
    next(results)
    assert helper.exists()


def test_a_file_that_stays_empty_is_scored_all_the_same(kernel, monkeypatch):
    monkeypatch.setattr(_saves, "_EMPTY_S", 5 * POLL_S)
    results = _saves.watch_saves([str(kernel)], POLL_S)
    next(results)
    kernel.write_text("")
    start = time.monotonic()
    next(results)
    assert time.monotonic() - start >= 5 * POLL_S  # an editor had time to write it


def test_a_file_that_does_not_exist_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_base, "check_readable", check_readable)
    ended = solkit("watch", tmp_path / "none.py", "--device", "h100")
    assert ended.exit_code == 2
    assert "none.py: no such file" in ended.stderr


# ------------------------------------------------------------------------- the command


@pytest.fixture
def pages(monkeypatch):
    """Watch a file that is saved as often as there are reports; what it is scored with."""
    from solkit import pipeline

    requests = []

    def show(*reports, arguments=()):
        remaining_reports = list(reports)

        def saves(paths):
            requests.append(paths)
            while remaining_reports:
                yield time.time()
            raise KeyboardInterrupt

        def score(*args, **kwargs):
            requests.append((args, kwargs))
            result = remaining_reports.pop(0)
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(_saves, "watch_saves", saves)
        monkeypatch.setattr(pipeline, "score", score)
        return solkit("watch", "softmax.py", "--device", "h100", *arguments)

    return types.SimpleNamespace(show=show, asked=requests)


def slower():
    return replace(NOT_MEASURED, bound=replace(NOT_MEASURED.bound, time_ms=0.03))


def test_the_first_page_is_scores_and_later_ones_show_changes(pages):
    ended = pages.show(report_of(NOT_MEASURED), report_of(slower()))
    assert ended.exit_code == 0  # Ctrl-C is how watching ends
    first, _, later = ended.stdout.partition("─" * 20)
    assert "softmax  softmax.py · native" in first
    assert "20.0 µs → 30.0 µs" in later
    assert ended.stderr == ""


def test_an_error_is_shown_and_watching_goes_on(pages):
    error = KernelFileError("importing it raised SyntaxError", "softmax.py", 3)
    ended = pages.show(report_of(NOT_MEASURED), error, report_of(slower()))
    assert ended.exit_code == 0
    assert "solkit: softmax.py:3: importing it raised SyntaxError" in ended.stderr
    assert "20.0 µs → 30.0 µs" in ended.stdout


def test_options_are_those_of_score(pages):
    arguments = ("--shape", "M=64", "--params", "BLOCK=8", "--reference", "a.py", "--protocol=warm")
    pages.show(report_of(NOT_MEASURED), arguments=arguments)
    paths, ((path,), options) = pages.asked
    assert paths == ["softmax.py", "a.py"]
    assert (path, options["reference"], options["device"]) == ("softmax.py", "a.py", "h100")
    assert (options["shapes"], options["params"]) == ([{"M": 64}], {"BLOCK": 8})
    assert (options["settings"].protocol, options["measure"]) == ("warm", False)


def test_a_measured_page_follows_where_it_is_asked_for(pages):
    correct = replace(NOT_MEASURED, verdict=Verdict.CORRECT)
    ended = pages.show(
        report_of(NOT_MEASURED), report_of(correct),
        report_of(NOT_MEASURED), report_of(replace(correct, verdict=Verdict.WRONG)),
        arguments=["--measure"],
    )  # fmt: skip
    assert [options["measure"] for _, options in pages.asked[1:]] == [False, True] * 2
    assert "verdict: correct → wrong" in ended.stdout  # measured pages have measured ones before
    assert "verdict: not_measured" not in ended.stdout


def test_a_second_page_without_a_measurement_is_not_shown(pages):
    ended = pages.show(report_of(NOT_MEASURED), report_of(NOT_MEASURED), arguments=["--measure"])
    assert ended.stdout.count("softmax  softmax.py") == 1


# ---------------------------------------------------------------------------- for real

ADD = """
import torch
import triton
import triton.language as tl
from scale import FACTOR

def inputs(N=4096, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * FACTOR

@triton.jit
def scale_kernel(x, out, N, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < N) * FACTOR, mask=i < N)

def kernel(x, *, BLOCK=1024, num_warps=4):
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), BLOCK),)
    scale_kernel[grid](x, out, x.numel(), FACTOR, BLOCK=BLOCK, num_warps=num_warps)
    return out
"""


@pytest.fixture
def watching(kernel):
    """A watched kernel: its file, and a function that reads its pages up to a line with a text.

    A shell's background jobs ignore Ctrl-C, and what they start does too: so it is turned on again.
    """
    kernel.write_text(ADD)
    kernel.with_name("scale.py").write_text("FACTOR = 3.0\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "solkit", "watch", str(kernel), "--device", "h100"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}, cwd=Path.cwd(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    killing = threading.Timer(LIMIT_S, process.kill)
    killing.start()

    def until(text):
        seen = []
        for line in process.stdout:
            seen.append(line)
            if text in line:
                return "".join(seen)
        raise AssertionError(f"ended without {text!r}:\n{''.join(seen)}")

    yield process, until
    killing.cancel()
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    process.communicate()


@pytest.mark.slow
def test_a_kernel_is_watched_from_first_page_to_ctrl_c(watching, kernel):
    process, until = watching
    first = until("modelled time by line")
    assert re.search(r"launch +scale_kernel  [\d.]+ µs, mostly", first)
    assert re.search(r"expected +[\d.]+ µs", first)
    by_rename(kernel, ADD.replace("num_warps=4", "num_warps=8"))
    assert "warps: 4 → 8" in until("modelled time by line")
    kernel.write_text(ADD.replace("def kernel", "def def kernel"))
    assert "kernel.py:18: importing it raised SyntaxError" in until("SyntaxError")
    kernel.write_text(ADD.replace("BLOCK=1024", "BLOCK=512"))
    assert "grid: 4 → 8" in until("modelled time by line")
    kernel.with_name("scale.py").write_text("FACTOR = 4.0\n")
    assert "kernel.py" in until("modelled time by line")
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 0
