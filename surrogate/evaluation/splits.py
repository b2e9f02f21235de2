"""Splits: what a model is tested on, and what it may learn from for that.

Each goes in five folds, by a hash of what is left out. A configuration that was timed on two GPUs
is in one fold.

==============  ==================================================================================
configurations  other configurations of the same kernels and shapes are known
problems        the kernel is known at other shapes, other kernels at none of this one
families        nothing that computes the same is known
styles          nor anything written as libraries write kernels; only such kernels are tested
kinds           nor anything of its kind, of a related kind, or of a matching Inductor template
devices         neither the problem nor the GPU is known
transfer        the problem is known on no GPU, but for the same configuration's time on another GPU
==============  ==================================================================================
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from solkit.core.toml import tomllib
from solkit.errors import InputError
from solkit.surrogate.features import Array
from solkit.surrogate.table import Table

FOLDS = 5
SPLITS = ("configurations", "problems", "families", "styles", "kinds", "devices", "transfer")

_LEFT_OUT = {
    "configurations": ("kernel_id", "problem_id", "params"),
    "problems": ("problem_id",),
    "families": ("family",),
    "styles": ("family",),
    "devices": ("problem_id",),
    "transfer": ("problem_id",),
}

_BY_DEVICE = ("devices", "transfer")
_LIBRARY = "library"  # origin of launchers in `datasets/libraries`


@dataclass(frozen=True)
class Fold:
    """One fold.

    Attributes:
        train, test: indices of a table.
    """

    train: Array
    test: Array


def split_into_folds(table: Table, split: str) -> Iterator[Fold]:
    """Yield the folds of a split.

    Raises:
        InputError: there is no such split.
    """
    if split not in SPLITS:
        raise InputError(f"{split!r} is no split: choose one of {', '.join(SPLITS)}")
    if split == "kinds":
        yield from _folds_by_kind(table)
        return
    places = _hashed_folds(table.row_keys(_LEFT_OUT[split]))
    for fold in range(FOLDS):
        test = places == fold
        if split == "styles":
            in_library = table.about["origin"] == _LIBRARY
            yield _fold_of_masks(~test & ~in_library, test & in_library)
            continue
        if split not in _BY_DEVICE:
            yield _fold_of_masks(~test, test)
            continue
        for device in np.unique(table.about["device"]):
            there = table.about["device"] == device
            if split == "devices":
                yield _fold_of_masks(~test & ~there, test & there)
            else:
                paired = test & there & np.isin(here := configurations_of(table), here[~there])
                yield _fold_of_masks(~(test & there), paired)


def _folds_by_kind(table: Table) -> Iterator[Fold]:
    kinds = kinds_of_rows(table)
    places, kin = _hashed_folds(kinds), related_kinds()
    for fold in range(FOLDS):
        test = places == fold
        left_out = set(kinds[test])
        left_out |= {relative for kind in left_out for relative in kin.get(kind, ())}
        yield _fold_of_masks(~np.isin(kinds, sorted(left_out)), test)


def configurations_of(table: Table) -> Array:
    """Return the configuration of each row, whatever the GPU, (rows,)."""
    return table.row_keys(("kernel_id", "problem_id", "params"))


def kinds_of_rows(table: Table) -> Array:
    """Return the kind of each row; a template of Inductor's is a kind, ``inductor/pointwise``."""
    about = table.about
    templates = np.char.add("inductor/", about["family"].astype(str))
    return np.where(about["kind"] == "inductor", templates, about["kind"])


@functools.cache
def related_kinds() -> Mapping[str, frozenset[str]]:
    """Return the kinds that are left out with each kind; the relation goes both ways."""
    text = importlib.resources.files(__package__).joinpath("relatives.toml").read_text("utf-8")
    kin: defaultdict[str, set[str]] = defaultdict(set)
    for kind, others in tomllib.loads(text)["kinds"].items():
        for other in others:
            kin[kind].add(other)
            kin[other].add(kind)
    return {kind: frozenset(others) for kind, others in kin.items()}


def _fold_of_masks(train: Array, test: Array) -> Fold:
    return Fold(np.flatnonzero(train), np.flatnonzero(test))


def _hashed_folds(keys: Array) -> Array:
    """Return the fold of each key, by its hash."""
    distinct, where = np.unique(keys, return_inverse=True)
    folds = [int(hashlib.sha256(str(key).encode()).hexdigest(), 16) % FOLDS for key in distinct]
    return np.array(folds)[where]
