from __future__ import annotations

from pathlib import Path

import pytest

from solkit import userdata


@pytest.fixture
def nobody(monkeypatch):
    """A user without a home."""

    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(userdata.Path, "home", home)
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "SOLKIT_CACHE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("nobody")
def test_a_user_without_a_home_gets_a_temporary_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(userdata.tempfile, "tempdir", str(tmp_path))
    assert userdata.cache_folder("analysis", "SOLKIT_CACHE") == tmp_path / ".cache/solkit/analysis"


@pytest.mark.parametrize("free", [0, 1 << 40])
def test_full_caches_are_replaced(monkeypatch, tmp_path, free):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "torch"))
    usage = type("Usage", (), {"free": free})
    monkeypatch.setattr(userdata.shutil, "disk_usage", lambda _: usage)
    names = set(userdata.replaced_caches("/instead"))
    assert names == (set() if free else {"TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR"})


def test_a_cache_below_a_file_is_replaced(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "file"))
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    results = userdata.replaced_caches("/instead")
    assert {name: Path(path).parent for name, path in results.items()} == {
        "TRITON_CACHE_DIR": Path("/instead")
    }


def test_asking_for_room_creates_nothing(tmp_path):
    assert userdata.has_room(tmp_path / "missing" / "cache")
    assert list(tmp_path.iterdir()) == []


def test_threads_may_write_one_file_at_a_time(tmp_path, monkeypatch):
    path, write_bytes = tmp_path / "cache" / "entry.json", Path.write_bytes

    def write_later(draft, data):
        monkeypatch.setattr(Path, "write_bytes", write_bytes)
        userdata.write_atomically(path, b"by another thread")
        assert path.read_bytes() == b"by another thread"
        write_bytes(draft, data)

    monkeypatch.setattr(Path, "write_bytes", write_later)
    userdata.write_atomically(path, b"by this one")
    assert path.read_bytes() == b"by this one"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "entry.json"
    path.write_bytes(b"old")

    def fill_disk(draft, data):
        draft.touch()
        raise OSError(f"no space for {len(data)} bytes")

    monkeypatch.setattr(Path, "write_bytes", fill_disk)
    with pytest.raises(OSError, match="no space"):
        userdata.write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
