"""Splits leave out what they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from synthetic import on_both, table

from solkit.datasets.kernels import select_kernels
from solkit.errors import InputError
from solkit.surrogate.evaluation.splits import (
    SPLITS,
    kinds_of_rows,
    related_kinds,
    split_into_folds,
)

BOTH = table(800, devices=("h100-sxm", "h200"))


def values(result, rows, *names):
    return {tuple(str(result.about[name][row]) for name in names) for row in rows}


@pytest.mark.parametrize(
    ("split", "names"),
    [
        ("configurations", ("kernel_id", "problem_id", "params")),
        ("problems", ("problem_id",)),
        ("families", ("family",)),
        ("kinds", ("kind",)),
        ("devices", ("problem_id",)),
        ("devices", ("device",)),
    ],
)
def test_what_is_tested_was_not_learned_from(split, names):
    folds = list(split_into_folds(BOTH, split))
    assert folds
    for fold in folds:
        assert not values(BOTH, fold.train, *names) & values(BOTH, fold.test, *names)


@pytest.mark.parametrize(
    "split", [split for split in SPLITS if split not in ("styles", "transfer")]
)
def test_each_row_is_tested_once(split):
    tested = np.concatenate([fold.test for fold in split_into_folds(BOTH, split)])
    assert sorted(tested) == list(range(len(BOTH)))


def test_styles_tests_library_kernels_by_others_of_other_families():
    origin = np.array(["zoo", "library", "inductor"])[np.arange(len(BOTH)) % 3]
    changed_both = replace(BOTH, about={**BOTH.about, "origin": origin})
    folds = list(split_into_folds(changed_both, "styles"))
    tested = np.concatenate([fold.test for fold in folds])
    assert sorted(tested) == list(np.flatnonzero(origin == "library"))
    for fold in folds:
        assert not set(origin[fold.train]) & {"library"}
        assert not values(changed_both, fold.train, "family") & values(
            changed_both, fold.test, "family"
        )
        others = set(np.flatnonzero(origin != "library")) - set(fold.train)
        tested_families = values(changed_both, fold.test, "family")
        assert all((str(changed_both.about["family"][row]),) in tested_families for row in others)


def test_relatives_and_matching_templates_are_left_out_too():
    kinds = np.array(["norm", "softmax", "matmul", "inductor"])[np.arange(len(BOTH)) % 4]
    family = np.where(kinds == "inductor", "reduction", BOTH.about["family"])
    changed_both = replace(BOTH, about={**BOTH.about, "kind": kinds, "family": family})
    for fold in split_into_folds(changed_both, "kinds"):
        tested, known_value = (
            set(kinds_of_rows(changed_both)[rows]) for rows in (fold.test, fold.train)
        )
        for kind in tested:
            assert not related_kinds()[kind] & known_value


def test_the_table_of_relatives_names_kinds_that_exist():
    kernels = select_kernels(["zoo", "inductor"])
    kinds = {f"inductor/{k.family}" if k.kind == "inductor" else k.kind for k in kernels}
    assert set(related_kinds()) == kinds


def test_an_unknown_split_is_named():
    with pytest.raises(InputError, match="'rows' is no split: choose one of configurations"):
        list(split_into_folds(BOTH, "rows"))


def test_transfer_knows_the_time_on_the_other_gpu_alone():
    both = on_both(table(400))
    tested = [row for fold in split_into_folds(both, "transfer") for row in fold.test]
    assert sorted(tested) == list(range(800))
    for fold in split_into_folds(both, "transfer"):
        requested_values = values(both, fold.test, "kernel_id", "problem_id", "params")
        here = values(both, fold.test, "device")
        assert len(here) == 1
        for row in fold.train:
            same = {tuple(str(both.about[n][row]) for n in ("kernel_id", "problem_id", "params"))}
            assert not (
                same & requested_values and str(both.about["device"][row]) in {d for (d,) in here}
            )


def test_rows_without_a_time_elsewhere_are_not_asked_about_in_transfer():
    alone = table(200)
    assert all(len(fold.test) == 0 for fold in split_into_folds(alone, "transfer"))
