"""What a command writes to a file takes the place of what was there whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
from datetime import datetime, timezone
from pathlib import Path

import pytest

from solkit.cli import _base
from solkit.cli._base import check_readable
from solkit.core import Outcome, Verdict
from solkit.datasets import outcomelog
from solkit.errors import InputError

ROW = Outcome(
    *("k", "softmax", "reduction", "zoo", "softmax/M=8", "h200", {"BLOCK": 8}, Verdict.CORRECT),
    *(datetime(2026, 11, 22, tzinfo=timezone.utc), "random", 0.5),
)


@contextlib.contextmanager
def files_end_at(size):
    """A disk on which no file gets larger, in bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("before", ["what was there", None])
def test_a_full_disk_leaves_what_was_there(tmp_path, before):
    path = tmp_path / "out.json"
    if before is not None:
        path.write_text(before)
    with files_end_at(1000), pytest.raises(InputError, match=r"DESTINATION: cannot write .*out"):
        _base.write_destination(str(path), lambda: "x" * 5000, "DESTINATION")
    there = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert there == ({} if before is None else {"out.json": before})


def test_what_was_there_is_replaced(tmp_path):
    (tmp_path / "kept").mkdir()
    path, link = tmp_path / "kept" / "out.json", tmp_path / "link.json"
    path.write_text("before")
    path.chmod(0o604)
    link.symlink_to(path)
    _base.write_destination(str(link), lambda: "after")
    assert path.read_text() == "after\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert link.is_symlink()
    assert [item.name for item in path.parent.iterdir()] == ["out.json"]


def test_a_pipe_is_written_to_not_replaced(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        _base.write_destination(str(path), lambda: "told")
        assert os.read(reader, 100) == b"told\n"
    finally:
        os.close(reader)
    _base.write_destination(os.devnull, lambda: "told")
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize("count", [0, 1])
def test_a_run_is_not_overwritten(tmp_path, count):
    path = tmp_path / "run.jsonl"
    with outcomelog.OutcomeLog(path, resume=True) as log:
        log.append([ROW] * count)
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"DESTINATION: .*run\.jsonl is a log"):
        _base.check_writable(str(path), "DESTINATION")
    assert path.read_bytes() == before


def test_what_was_exported_before_is_overwritten(tmp_path):
    path = tmp_path / "tried.jsonl"
    for result in (outcomelog.log_of_tried([ROW]), "{}", "\xff\n", ""):
        path.write_text(result, encoding="latin-1")
        _base.check_writable(str(path), "DESTINATION")
        assert path.read_text(encoding="latin-1") == result  # which stays till there is another
        _base.write_destination(str(path), lambda: "new", "DESTINATION")
        assert path.read_text() == "new\n"


def test_no_python_file_is_overwritten(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text("x = 1\n")
    for file in (path, tmp_path / "new.py"):
        with pytest.raises(InputError, match=r"--json: .*\.py is a Python file"):
            _base.check_writable(str(file))
    assert path.read_text() == "x = 1\n"


def test_no_input_is_overwritten_by_whatever_name(tmp_path):
    report, link = tmp_path / "report.json", tmp_path / "link.json"
    report.write_text("{}")
    link.symlink_to(report)
    with pytest.raises(InputError, match=r"--html: .*link\.json is an input"):
        _base.check_writable(str(link), "--html", [str(report)])
    _base.check_writable(str(tmp_path / "other.html"), "--html", [str(report), None])


def test_two_outputs_are_two_files(tmp_path):
    file = str(tmp_path / "out")
    with pytest.raises(InputError, match=r"--json and --html both name .*out"):
        _base.check_distinct(json=file, html=str(tmp_path / "x" / ".." / "out"))
    _base.check_distinct(json="-", html="-", figures=None)


def test_a_missing_input_is_reported_before_anything_starts(tmp_path):
    with pytest.raises(InputError, match=r"gone\.py: no such file"):
        check_readable(str(tmp_path), None, str(tmp_path / "gone.py"))


def test_a_name_that_is_not_utf8_is_refused(tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.py")
    Path(path).touch()
    with pytest.raises(InputError, match=r"\\udcff\.py' is not a name in UTF-8"):
        check_readable(path)


def test_a_recording_may_be_a_shipped_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert _base.find_recording(None) is None
    assert Path(_base.find_recording("h100")).name == "h100"
    with pytest.raises(InputError, match=r"no set 'h10'.*did you mean h100"):
        _base.find_recording("h10")
    (tmp_path / "h100").mkdir()
    assert _base.find_recording("h100") == "h100"  # a folder of one's own goes before it
