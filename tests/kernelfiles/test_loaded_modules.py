"""Modules are looked through once, and then only those imported since: the answers are the same."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from solkit.kernelfiles import _loaded_modules
from solkit.kernelfiles._loaded_modules import (
    holders_of_autotuners,
    look_ahead,
    modules_in_folder,
)

FOLDER = "/made_up_folder"


class Autotuner:
    """As Triton's by its name: Triton need not be loaded."""


@pytest.fixture(params=["before", "between", "after"])
def add(request, monkeypatch):
    """Import modules, and look ahead before, between or after them."""
    monkeypatch.setattr(_loaded_modules, "_preloaded", _loaded_modules._Preloaded())
    place = ["before", "between", "after"].index(request.param)
    count = 0

    def imported(name, file, **members):
        nonlocal count
        if count == place:
            look_ahead()
        count += 1
        module = ModuleType(name)
        vars(module).update(members, __file__=file)
        monkeypatch.setitem(sys.modules, name, module)
        return module

    yield imported
    monkeypatch.undo()
    _loaded_modules._modules_in_folder.cache_clear()
    _loaded_modules._holders_of_autotuners.cache_clear()


def test_a_folders_modules_are_those_right_in_it(add):
    for name in ("first", "second", "third"):
        add(f"made_up_{name}", f"{FOLDER}/{name}.py")
        add(f"made_up_{name}.inner", f"{FOLDER}/{name}/inner.py")
    listed = [f"made_up_{name}" for name in ("first", "second", "third")]
    assert modules_in_folder(FOLDER) == listed


def test_modules_that_hold_autotuners_are_all_but_the_libraries_own(add):
    modules = [
        add(f"made_up_{name}", f"{FOLDER}/{name}.py", kernel=kernel)
        for name, kernel in (("a", Autotuner()), ("b", SimpleNamespace()), ("c", Autotuner()))
    ]
    add("torch.made_up", f"{FOLDER}/torch.py", kernel=Autotuner())
    holders = [module for module in holders_of_autotuners() if module.__name__[:8] == "made_up_"]
    assert holders == [modules[0], modules[2]]


def test_after_a_module_was_removed_the_others_are_there(add, monkeypatch):
    for name in ("first", "second", "third"):
        add(f"made_up_{name}", f"{FOLDER}/{name}.py")
    monkeypatch.delitem(sys.modules, "made_up_first")
    assert modules_in_folder(FOLDER) == ["made_up_second", "made_up_third"]
    add("made_up_fourth", f"{FOLDER}/fourth.py")
    assert modules_in_folder(FOLDER)[-1] == "made_up_fourth"
