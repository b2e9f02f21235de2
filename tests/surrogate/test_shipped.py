"""The two files of the shipped surrogate."""

from __future__ import annotations

import json
import zipfile

import pytest

from solkit.core import Depth
from solkit.datasets import shipped as sets
from solkit.errors import InputError
from solkit.surrogate import shipped
from solkit.surrogate.model import Surrogate


def archive(path, card, *names):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("card.json", json.dumps(card))
        for name in names:
            file.writestr(name, name)
    return path


def names(path):
    return sorted(zipfile.ZipFile(path).namelist())


def test_trees_are_shipped_apart_from_the_language_regressor(tmp_path):
    whole = ["captured/0.ubj", "captured/gpu_s.json", "captured/stacked.json"]
    whole += ["captured/language/model.safetensors", "captured/stacked_sizes.ubj"]
    trained = archive(tmp_path / "trained", {"a": 1}, *whole)
    trees, language = tmp_path / "trees", tmp_path / "language"
    shipped.ship(trained, trees, language)
    assert names(trees) == ["captured/0.ubj", "captured/gpu_s.json", "card.json"]
    assert names(language) == sorted(["card.json", *whole[2:]])
    first = trees.read_bytes()
    shipped.ship(archive(tmp_path / "plain", {"a": 1}, *whole[:2]), trees, language)
    assert trees.read_bytes() == first
    assert not language.exists()


def test_a_file_that_is_no_surrogate_is_named(tmp_path):
    (tmp_path / "text").write_text("text")
    with pytest.raises(InputError, match="text holds no surrogate"):
        shipped.ship(tmp_path / "text", tmp_path / "a", tmp_path / "b")


def test_a_language_regressor_counts_beside_the_trees_of_its_training_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(sets, "_CHECKOUT", tmp_path)
    assert shipped.language_of(shipped.trees()) is None
    archive(tmp_path / shipped.LANGUAGE_FILE, {"another": "training"})
    assert shipped.language_of(shipped.trees()) is None
    card = dict(Surrogate.load().card)
    found = archive(tmp_path / shipped.LANGUAGE_FILE, card)
    assert shipped.language_of(shipped.trees()) == found
    mine = archive(tmp_path / "mine.solkit", {})
    assert shipped.language_of(mine) == mine


def test_the_trees_need_no_measured_sets(tmp_path, monkeypatch):
    monkeypatch.setattr(sets, "_CHECKOUT", tmp_path / "nothing")
    monkeypatch.setattr(sets.importlib.util, "find_spec", lambda _: None)
    model = Surrogate.load(shipped.trees())
    assert set(model.depths) == set(Depth)
    assert model.stacked(Depth.CAPTURED) is None
    assert len(model.trees(Depth.CAPTURED).members) == 5
