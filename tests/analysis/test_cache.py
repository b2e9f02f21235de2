"""What a cache keeps, how much, and what becomes of entries that are damaged."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from solkit.analysis.cache import Cache
from solkit.analysis.dependencies import Files, Stamps, stamp_of_file
from solkit.core import Tolerance


def key(number: int) -> str:
    """All are of one shard."""
    return f"aa{number:062x}"


def sizes(folder):
    return [path.stat().st_size for path in folder.glob("*/*")]


def test_an_answer_is_found_again_by_its_key_alone(tmp_path):
    Cache(tmp_path).put(key(1), Tolerance(0.5, 0.25), {})
    assert Cache(tmp_path).get(key(1)) == Tolerance(0.5, 0.25)
    assert Cache(tmp_path).get(key(2)) is None


def test_a_file_that_changed_while_it_was_read_is_not_trusted(tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text("old")
    then = stamp_of_file(str(file))
    file.write_text("newer")
    cache = Cache(tmp_path / "cache")
    cache.put(key(1), 1, {str(file): then})
    assert cache.get(key(1)) is None
    cache.put(key(1), 1, {str(file): stamp_of_file(str(file))})
    assert cache.get(key(1)) == 1
    os.utime(file, ns=(1, 1))  # what it holds counts, not when it was saved
    assert cache.get(key(1)) == 1
    file.unlink()
    assert cache.get(key(1)) is None


@pytest.fixture
def package(tmp_path):
    """Many files of an installed package."""
    folder = tmp_path / "site-packages" / "package"
    folder.mkdir(parents=True)
    results = [folder / f"module{number}.py" for number in range(300)]
    for result in results:
        result.write_text(f"VALUE = {result.name!r}")
    return [str(item) for item in results]


def stamps(files):
    return {file: stamp_of_file(file) for file in files}


def test_entries_share_the_list_of_the_files_of_installed_packages(tmp_path, package):
    folder = tmp_path / "cache"
    cache = Cache(folder)
    for number in range(10):
        cache.put(key(number), number, stamps(package))
    results = sorted(sizes(folder))
    assert len(results) == 11
    assert results[-2] < 500  # bytes of an entry
    assert results[-1] > 300 * 64  # the list has a digest of each file
    again = Cache(folder)
    assert [again.get(key(number)) for number in range(10)] == list(range(10))


def test_a_change_of_an_installed_file_is_noticed_after_two_seconds(tmp_path, package, monkeypatch):
    cache = Cache(tmp_path / "cache")
    cache.put(key(1), 1, stamps(package))
    then = stamps(package)
    now_s = time.monotonic()
    Path(package[7]).write_text("VALUE = 'another'")
    monkeypatch.setattr(time, "monotonic", lambda: now_s + 2.1)
    assert cache.get(key(1)) is None
    cache.put(key(2), 2, then)  # it was read before the change
    assert cache.get(key(2)) is None
    cache.put(key(3), 3, stamps(package))
    assert cache.get(key(3)) == 3
    assert Cache(tmp_path / "cache").get(key(1)) is None


def test_files_are_looked_up_once_in_a_second(tmp_path, package, monkeypatch):
    now_s, looked = time.monotonic(), []
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    real = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **how: looked.append(path) or real(path, **how))
    read = stamps(package)
    cache = Cache(tmp_path / "cache")
    for number in range(20):
        cache.put(key(number), number, read)
        assert cache.get(key(number)) == number
    # by the test; before and after it is read; for the next second
    assert {looked.count(file) for file in package} == {4}


def test_a_file_that_changes_between_looks_is_not_kept(tmp_path, monkeypatch):
    file = tmp_path / "kernel.py"
    file.write_text("x = 1")
    then = stamps([str(file)])
    real, reads = Path.read_bytes, []

    def changing(path):
        if path == file and not reads:
            reads.append(path)
            file.write_text("x = 22")
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", changing)
    cache = Cache(tmp_path / "cache")
    cache.put(key(1), "of x = 1", then)
    assert cache.get(key(1)) is None


def test_a_list_that_is_gone_counts_as_a_change(tmp_path, package):
    folder = tmp_path / "cache"
    Cache(folder).put(key(1), 1, stamps(package))
    max(folder.glob("*/*"), key=lambda path: path.stat().st_size).unlink()
    assert Cache(folder).get(key(1)) is None


def test_what_was_not_asked_for_longest_goes_first(tmp_path):
    cache = Cache(tmp_path, most_bytes=256 * 10_000)  # 10 kB a shard
    for number in range(8):
        cache.put(key(number), "x" * 1000, {})
        os.utime(tmp_path / "aa" / key(number)[2:], ns=(number, number))
    cache.get(key(0))
    for number in range(8, 12):
        cache.put(key(number), "x" * 1000, {})
    kept = [number for number in range(12) if cache.get(key(number)) is not None]
    assert sum(sizes(tmp_path)) <= 10_000
    assert 0 in kept
    assert 1 not in kept
    assert set(range(8, 12)) <= set(kept)


@pytest.mark.parametrize("data", [b"", b"torn", pickle.dumps(((), os.system)), pickle.dumps(5)])
def test_an_entry_that_is_damaged_or_forged_counts_as_none(tmp_path, data):
    cache = Cache(tmp_path)
    cache.put(key(1), 1, {})
    (tmp_path / "aa" / key(1)[2:]).write_bytes(data)
    assert cache.get(key(1)) is None
    cache.put(key(1), 2, {})
    assert cache.get(key(1)) == 2


def test_a_full_disk_loses_the_answer_and_leaves_no_part_of_it(tmp_path, monkeypatch):
    cache = Cache(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("solkit.analysis.cache.Path.replace", full)
    cache.put(key(1), "x" * 100, {})
    assert cache.get(key(1)) is None
    assert not list(tmp_path.glob("*/*"))


def _fill(folder, seed):
    cache = Cache(folder, most_bytes=256 * 20_000)
    for number in range(60):
        cache.put(key((number * 7 + seed) % 40), "x" * 1000, {})
        result = cache.get(key(number % 40))
        assert result in (None, "x" * 1000)


def test_processes_and_threads_share_a_folder(tmp_path):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_fill, args=(tmp_path, seed)) for seed in range(3)]
    for process in processes:
        process.start()
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(lambda seed: _fill(tmp_path, seed), (3, 4))) == [None, None]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 3
    assert all(len(path.name) == 62 for path in tmp_path.glob("*/*"))


def test_stamps_of_packages_are_compared_as_one(tmp_path):
    own, package = tmp_path / "mine.py", tmp_path / "site-packages" / "theirs.py"
    package.parent.mkdir()
    for item in (own, package):
        item.write_text("x = 1")
    read = Stamps.of({str(items): stamp_of_file(str(items)) for items in (own, package)})
    assert (list(read.own), list(read.installed)) == ([str(own)], [str(package)])
    assert dict(read) == {str(items): stamp_of_file(str(items)) for items in (own, package)}
    assert read.are_current()
    assert read.and_({}) is read
    other = read.and_({str(tmp_path / "gone.py"): None})
    assert other.name == read.name
    assert len(other) == 3
    assert other.are_current()
    own.write_text("x = 12")
    assert not read.are_current()
    assert read.and_({str(own): stamp_of_file(str(own))}).are_current()
    assert not read.and_({str(package): (0, 0)}).are_current()


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        ("import os\nN = os.environ['N']", True),
        ("from os import environ as of\nN = of['N']", True),
        ("from os import *\nN = getenv('N')", True),
        ("import os\nN = getattr(os, 'environ')['N']", True),
        ("N = os.environ[", True),  # nobody can tell
        ("# depends on the environment\nN = 1", False),
        ('"""Reads no environ."""\nimport package.environ', False),
        ("stubs = {'package.environ': 1}", False),
    ],
)
def test_code_that_names_the_environment_reads_it(tmp_path, code, reads):
    path = tmp_path / "kernel.py"
    path.write_text(code)
    *_, is_self_contained = Files().read(str(path))
    assert is_self_contained is not reads
