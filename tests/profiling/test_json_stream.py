"""Members of a JSON file one by one, whatever part of it is in memory."""

from __future__ import annotations

import gzip
import json

import pytest

from solkit.errors import InputError
from solkit.profiling import json_stream

DOCUMENT = {
    "schemaVersion": 12345,
    "deviceProperties": [{"name": 'a "quoted" ] } name', "id": 0}],
    "traceEvents": [{"name": "é" * 40, "args": {"x": [1, [2.5e-3, None]]}}, {}, 17, "text"],
    "empty": [],
    "last": -1.25e2,
}


@pytest.mark.parametrize("chunk", [1, 2, 7, 1 << 20])
@pytest.mark.parametrize("indent", [None, 2])
def test_what_is_read_is_what_was_written(tmp_path, monkeypatch, chunk, indent):
    monkeypatch.setattr(json_stream, "_CHUNK", chunk)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(DOCUMENT, indent=indent, ensure_ascii=False), encoding="utf-8")
    members = list(json_stream.read_members(str(path), "traceEvents"))
    events = [("traceEvents", event) for event in DOCUMENT["traceEvents"]]
    rest = [(k, v) for k, v in DOCUMENT.items() if k != "traceEvents"]
    assert members == [*rest[:2], *events, *rest[2:]]


def test_gzip_is_told_by_its_content(tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(b'{"traceEvents": [1, 2]}', mtime=0))
    assert list(json_stream.read_members(str(path), "traceEvents")) == [
        ("traceEvents", 1),
        ("traceEvents", 2),
    ]


def test_a_bare_list_is_the_list(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text("[1, {}]")
    assert [value for _, value in json_stream.read_members(str(path), "traceEvents")] == [1, {}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "the file is cut off"),
        (b"   ", "the file is cut off"),
        (b"# README", "expected a JSON object, found '#'"),
        (b'{"traceEvents": [{"a": 1}, {"b"', "after 1 events"),
        (b'{"traceEvents": [{"a": 1}, {"b": 2}', "cut off after 2 events"),
        (b'{"traceEvents": [{"a": 1} {"b": 2}]}', "expected ',', found '{' after 1 events"),
        (b'{"a" 1}', "expected ':'"),
        (b"\xff\xfe{}", "cannot read"),
        (b"\x1f\x8b broken", "cannot read"),
        (gzip.compress(b'{"traceEvents": [' + b"1, " * 9999, mtime=0)[:-30], "cannot read"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_fault_is_told_with_the_file(tmp_path, text, said):
    path = tmp_path / "trace.json"
    path.write_bytes(text)
    with pytest.raises(InputError, match=r"trace\.json") as error:
        list(json_stream.read_members(str(path), "traceEvents"))
    assert said in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        list(json_stream.read_members(str(tmp_path / "none.json"), "traceEvents"))


def test_no_more_is_held_than_a_value_and_a_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "_CHUNK", 1000)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [{"name": "x" * 50}] * 2000}))
    held = []
    fill = json_stream._Window._fill_window

    def watched(window, *args):
        fill(window, *args)
        held.append(len(window._text))

    monkeypatch.setattr(json_stream._Window, "_fill_window", watched)
    assert sum(1 for _ in json_stream.read_members(str(path), "traceEvents")) == 2000
    assert max(held) < 2500
