"""The two files of the shipped surrogate."""

from __future__ import annotations

import json
import zipfile

import pytest

from solkit.core import SOURCE_DEPTHS, Depth
from solkit.datasets import shipped as sets
from solkit.errors import InputError
from solkit.surrogate import shipped
from solkit.surrogate.model import Surrogate
from tools.ship_surrogate import write_shipped_files


def archive(path, card, *names):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("card.json", json.dumps(card))
        for name in names:
            file.writestr(name, name)
    return path


def names(path):
    return sorted(zipfile.ZipFile(path).namelist())


WHOLE = [
    "captured/0.ubj", "captured/gpu_s.json", "captured/stacked.json",
    "captured/language/model.safetensors", "captured/stacked_sizes.ubj",
]  # fmt: skip
CARD = {"depths": ["captured", "lowered"], "facts_version": 2}


def card_of(path):
    return json.loads(zipfile.ZipFile(path).read("card.json"))


@pytest.fixture
def both(tmp_path):
    """The two files of a model with a language regressor."""
    trained = archive(tmp_path / "trained", CARD | {"language": ["captured"]}, *WHOLE)
    write_shipped_files(trained, tmp_path / "trees", tmp_path / "language")
    return tmp_path / "trees", tmp_path / "language"


def test_trees_are_shipped_apart_from_the_language_regressor(both):
    trees, language = both
    assert names(trees) == ["captured/0.ubj", "captured/gpu_s.json", "card.json"]
    assert names(language) == sorted(["card.json", *WHOLE[2:]])
    assert card_of(trees) == card_of(language) == CARD | {"language": ["captured"]}


def test_the_language_regressor_stays_beside_the_trees_it_is_stacked_on(both, tmp_path):
    newer = CARD | {"facts_version": 3}
    plain = archive(tmp_path / "plain", newer, *WHOLE[:2], "lowered/0.ubj")
    write_shipped_files(plain, *both)
    trees, language = both
    assert "lowered/0.ubj" in names(trees)
    assert names(language) == sorted(["card.json", *WHOLE[2:]])
    assert card_of(trees) == card_of(language) == newer | {"language": ["captured"]}


def test_the_language_regressor_goes_where_the_trees_changed(both, tmp_path):
    changed = archive(tmp_path / "changed", CARD, "captured/1.ubj", "captured/gpu_s.json")
    trees, language = both
    write_shipped_files(changed, trees, language)
    assert card_of(trees) == CARD
    assert not language.exists()


def test_a_file_that_is_no_surrogate_is_named(tmp_path):
    (tmp_path / "text").write_text("text")
    with pytest.raises(InputError, match="text holds no surrogate"):
        write_shipped_files(tmp_path / "text", tmp_path / "a", tmp_path / "b")


def test_a_language_regressor_counts_beside_the_trees_of_its_training_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(sets, "_CHECKOUT", tmp_path)
    assert shipped.language_file_of(shipped.shipped_trees_file()) is None
    archive(tmp_path / shipped.LANGUAGE_FILE, {"another": "training"})
    assert shipped.language_file_of(shipped.shipped_trees_file()) is None
    card = dict(Surrogate.load().card)
    result = archive(tmp_path / shipped.LANGUAGE_FILE, card)
    assert shipped.language_file_of(shipped.shipped_trees_file()) == result
    mine = archive(tmp_path / "mine.solkit", {})
    assert shipped.language_file_of(mine) == mine


def test_the_trees_need_no_measured_sets(tmp_path, monkeypatch):
    monkeypatch.setattr(sets, "_CHECKOUT", tmp_path / "nothing")
    spec = sets.importlib.util.find_spec("xgboost")
    only_xgboost = {"xgboost": spec}.get
    monkeypatch.setattr(sets.importlib.util, "find_spec", only_xgboost)
    model = Surrogate.load(shipped.shipped_trees_file())
    assert set(model.depths) == set(SOURCE_DEPTHS)
    assert model.stacked(Depth.CAPTURED) is None
    assert len(model.trees(Depth.CAPTURED).members) == 5
