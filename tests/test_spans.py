"""Spans that a command's processes leave in one file."""

from __future__ import annotations

import json
import multiprocessing
import os

import pytest

from solkit import spans
from solkit.spans import SPANS_FILE, Stages, span


@pytest.fixture
def clock(monkeypatch):
    """Times that spans see, in turn."""
    times = iter([10.0, 12.5, 13.0, 14.0])
    monkeypatch.setattr(spans.time, "monotonic", lambda: next(times))


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv(SPANS_FILE, str(tmp_path / "spans"))
    return tmp_path / "spans"


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.usefixtures("clock")
def test_a_span_lasts_as_long_as_its_block(file):
    with pytest.raises(ValueError, match="the block's"), span("reading", "analyser"):
        raise ValueError("the block's own")
    assert lines(file) == [
        {
            "name": "reading",
            "process": "analyser",
            "pid": os.getpid(),
            "start_s": 10.0,
            "end_s": 12.5,
        }
    ]


def test_a_stage_lasts_until_the_next(file, monkeypatch):
    times = iter([1.0, 4.0, 4.0, 9.0, 9.0])
    monkeypatch.setattr(spans.time, "monotonic", lambda: next(times))
    stages = Stages("referee")
    for name in ("checking", "timing", ""):
        stages.begin(name)
    taken = [(line["name"], line["start_s"], line["end_s"]) for line in lines(file)]
    assert taken == [("checking", 1.0, 4.0), ("timing", 4.0, 9.0)]


def write_spans(count):
    for number in range(count):
        with span(f"part {number}"):
            pass


def test_spans_of_several_processes_stay_whole(file):
    processes = [multiprocessing.Process(target=write_spans, args=(200,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert len(lines(file)) == 600
    assert {line["pid"] for line in lines(file)} == {process.pid for process in processes}


def test_without_the_variable_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.delenv(SPANS_FILE, raising=False)
    monkeypatch.chdir(tmp_path)
    write_spans(1)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_does_not_end_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv(SPANS_FILE, str(tmp_path / "missing" / "spans"))
    write_spans(1)
