"""Which Triton compiles: versions, folders, interpreters, and what is said of those that do not."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys

import pytest

from solkit.adapters.compilers import find_compiler, installed_compiler
from solkit.errors import InputError

OWN = importlib.metadata.version("triton")


def folder_with_triton(place, version, size=10):
    (place / "triton" / "_C").mkdir(parents=True)
    (place / "triton" / "_C" / "libtriton.so").write_bytes(bytes(size))
    info = place / f"triton-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: triton\nVersion: {version}\n")
    return place


def test_this_environments_version_needs_nothing_else():
    assert find_compiler(OWN) == installed_compiler()
    assert find_compiler(OWN).python.is_own


def test_another_version_is_refused_with_the_command_that_makes_a_folder():
    with pytest.raises(InputError, match=f"has {OWN}.*--target triton-9.8.7 triton==9.8.7"):
        find_compiler("9.8.7")


def test_what_is_neither_version_nor_place_is_refused():
    with pytest.raises(InputError, match="no Triton 'newest': expected a version, a folder"):
        find_compiler("newest")


def test_a_folder_says_its_version_and_goes_first(tmp_path):
    compiler = find_compiler(str(folder_with_triton(tmp_path, "4.5.6")))
    assert compiler.version == "4.5.6"
    assert compiler.python.module_path() == [str(tmp_path), *sys.path]
    assert compiler.python.path().split(os.pathsep)[0] == str(tmp_path)


def test_two_builds_of_one_version_are_told_apart(tmp_path):
    one = find_compiler(str(folder_with_triton(tmp_path / "one", "4.5.6")))
    other = find_compiler(str(folder_with_triton(tmp_path / "other", "4.5.6", size=11)))
    assert one.version == other.version
    assert one.identity != other.identity


def test_a_folder_without_triton_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no Triton"):
        find_compiler(str(tmp_path))


def test_an_interpreter_says_what_it_has():
    compiler = find_compiler(sys.executable)
    assert (compiler.version, compiler.python.executable) == (OWN, sys.executable)


def test_an_interpreter_without_libraries_is_refused(tmp_path):
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(InputError, match="lacks torch and triton and numpy"):
        find_compiler(str(bare))


def test_a_file_that_is_no_interpreter_is_refused(tmp_path):
    (tmp_path / "text").write_text("nothing")
    with pytest.raises(InputError, match="is no Python interpreter"):
        find_compiler(str(tmp_path / "text"))


def test_another_interpreter_runs_this_copy_of_solkit():
    python = find_compiler(sys.executable).python
    code = "import solkit.core, sys; print(solkit.__file__); print(solkit.core.Side.__module__)"
    env = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(python.command(code), capture_output=True, text=True, env=env, cwd="/")
    import solkit

    assert done.stdout.split() == [solkit.__file__, "solkit.core.diffs"], done.stderr
