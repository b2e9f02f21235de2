"""Whose code a file is."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from solkit.measure.anti_cheating import probes


@pytest.fixture
def anew():
    """What was found out before is forgotten, before and after."""
    known_values = probes._library_roots, probes.is_library, probes.is_standard
    for known_value in known_values:
        known_value.cache_clear()
    yield
    for known_value in known_values:
        known_value.cache_clear()


def test_what_is_installed_is_a_library_and_a_candidate_is_none(tmp_path):
    assert probes.is_library(str(torch.__file__))
    assert probes.is_library(json.__file__)
    assert probes.is_standard(json.__file__)
    assert not probes.is_standard(str(torch.__file__))
    assert not probes.is_library(str(tmp_path / "kernel.py"))


@pytest.mark.usefixtures("anew")
def test_so_is_what_pip_puts_into_a_folder_of_the_user_s_choice(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    installed = SimpleNamespace(locate_file=lambda path: folder / path)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: installed)
    assert probes.is_library(str(folder / "pydantic" / "main.py"))
    assert not probes.is_library(str(Path(f"{folder}s") / "kernel.py"))
