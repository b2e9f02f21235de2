"""Where a model lies, and that a GGUF file is read once."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from solkit.errors import InputError
from solkit.llm.files import check_path, read_once, source_of


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.gguf"
    path.write_bytes(b"")
    return path


def test_a_gguf_file_is_named_beside_its_folder(file):
    safe = {"local_files_only": True, "trust_remote_code": False}
    assert source_of(str(file)) == (str(file.parent), {**safe, "gguf_file": "small.gguf"})
    assert source_of(str(file.parent)) == (str(file.parent), safe)
    source = source_of("some/model", local_files_only=False)
    assert source == ("some/model", {**safe, "local_files_only": False})


def test_what_looks_like_a_file_must_be_one(file):
    for path in (file, file.parent, "some/model"):
        check_path(str(path))
    for path in ("/nowhere/model", "./model", "~/model", "model.gguf"):
        with pytest.raises(InputError, match=r"no such model; expected a folder, a GGUF file"):
            check_path(path)


def test_a_file_is_read_once_and_anew_the_next_time(file, monkeypatch):
    read = []

    def reader(path):
        read.append(path)
        return object()

    gguf = SimpleNamespace(GGUFReader=reader, get_tensor_name_map=lambda *_: object())
    monkeypatch.setitem(sys.modules, "gguf", gguf)
    for times in (1, 2):
        with read_once(str(file)):
            assert gguf.GGUFReader("a") is gguf.GGUFReader("a")
            assert gguf.get_tensor_name_map(1, 2) is gguf.get_tensor_name_map(1, 2)
        assert len(read) == times
    with pytest.raises(ValueError, match="broken"), read_once(str(file)):
        raise ValueError("broken")
    assert gguf.GGUFReader is reader


def test_other_models_need_no_package_for_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    entered = []
    for other in (str(tmp_path), "some/model"):
        with read_once(other):
            entered.append(other)
    assert entered == [str(tmp_path), "some/model"]
