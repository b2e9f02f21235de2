"""Replays of recorded spaces: what is read, and how it is scored."""

from __future__ import annotations

import gzip
import json

import pytest

from solkit.core.space import point_key
from solkit.errors import InputError
from solkit.tuner import search_replay as replaying
from solkit.tuner.search_replay import RecordedSpace, read_spaces, replay_method

COLUMNS = ["X", "HOW", "time_ms"]
ROWS = [[x, how, x * (1 + (how == "b"))] for x in range(1, 21) for how in ("a", "b")]


def written(folder, name="k", rows=ROWS, columns=COLUMNS, kernel="k", device="GPU A"):
    path = folder / f"{name}.json.gz"
    fields = {"kernel": kernel, "device": device, "params": {}, "columns": columns, "rows": rows}
    path.write_bytes(gzip.compress(json.dumps(fields).encode()))
    return path


class Listed:
    """Asks for given points."""

    def __init__(self, points):
        self.points, self.told = list(points), []

    def ask(self, number=1):
        requested_points, self.points = self.points[:number], self.points[number:]
        return requested_points

    def tell(self, params, time_ms):
        self.told.append((params, time_ms))


def of(times):
    points = tuple({"X": at} for at in range(len(times)))
    return RecordedSpace("k", "g", dict(zip(map(point_key, points), times)), points)


def test_the_score_is_the_best_time_over_the_best_found():
    space = of([4.0, None, 2.0, 1.0])
    asks = Listed(space.points)
    result = replay_method(space, [1, 2, 3, 4], 1, ("listed", lambda *_: asks))
    assert result.medians() == {1: 0.25, 2: 0.25, 3: 0.5, 4: 1.0}
    assert asks.told[1] == ({"X": 1}, None)


def test_a_failure_costs_a_measurement_and_a_repeat_does_not():
    space = of([4.0, None, 2.0, 1.0])
    points = [space.points[at] for at in (1, 0, 0, 0, 2)]
    result = replay_method(space, [1, 2, 3], 1, ("listed", lambda *_: Listed(points)))
    assert result.medians() == {1: 0.0, 2: 0.25, 3: 0.5}


def test_scores_are_medians_over_seeds():
    space = of([4.0, 2.0, 1.0])
    result = replay_method(
        space, [1], 3, ("listed", lambda _, __, seed: Listed(space.points[seed : seed + 1]))
    )
    assert result.fractions == {1: (0.25, 0.5, 1.0)}
    assert result.to_json() == {
        "schema": "solkit.replay/1",
        "space": "k on g",
        "method": "listed",
        "seeds": 3,
        "fraction_of_optimum": {"1": 0.5},
    }


def test_a_budget_beyond_the_space_scores_all_of_it():
    space = of([4.0, 2.0, 1.0])
    assert replay_method(space, [50], 2, "random").medians() == {50: 1.0}


def test_reads_columns_with_failures(tmp_path):
    (space,) = read_spaces(written(tmp_path, rows=[*ROWS, [99, "a", None]]))
    assert space.name == "k on GPU A"
    assert len(space.points) == 41
    assert space.best_ms == 1
    assert space.time_ms({"X": 99, "HOW": "a"}) is None
    assert space.time_ms({"X": 3, "HOW": "b"}) == 6


def test_several_rows_of_a_configuration_are_one_with_their_median_time(tmp_path):
    (space,) = read_spaces(written(tmp_path, rows=[[1, "a", 3.0], [1, "a", 9.0], [1, "a", 4.0]]))
    assert len(space.points) == 1
    assert space.best_ms == 4.0


def test_the_search_beats_chance(tmp_path):
    (space,) = read_spaces(written(tmp_path))
    ours, chance = (
        replay_method(space, [10], 9, method).medians()[10] for method in ("solkit", "random")
    )
    assert ours == 1.0
    assert chance < 0.6


def test_other_gpus_tell_where_to_start(tmp_path):
    (space,) = read_spaces(written(tmp_path))
    there = [[x, how, 7 * t**0.5 if t else t] for x, how, t in ROWS]
    prior = replaying.prior_from_recordings(
        space, [written(tmp_path, "there", there, device="GPU B")]
    )
    assert replay_method(space, [1], 3, prior=prior).medians() == {1: 1.0}


def test_a_prior_of_other_parameters_is_refused(tmp_path):
    (space,) = read_spaces(written(tmp_path))
    other = written(tmp_path, "other", [[1, 2.0]], ["Y", "time_ms"], kernel="other")
    with pytest.raises(InputError, match="no recording of k with the parameters X, HOW"):
        replaying.prior_from_recordings(space, [other])


def test_a_space_in_which_nothing_ran_is_refused(tmp_path):
    with pytest.raises(InputError, match="no recorded space: 1 configurations"):
        read_spaces(written(tmp_path, rows=[[1, "a", None]]))


def test_a_file_cannot_be_filtered(tmp_path):
    with pytest.raises(InputError, match="only a store can be filtered"):
        read_spaces(written(tmp_path), where="family = 'gemm'")


def test_a_shipped_set_has_a_space_for_each_kernel_shape_and_gpu():
    spaces = read_spaces("h100", where="family = 'gemm_int8'", least=70)
    assert spaces
    for space in spaces:
        assert space.name.startswith("gemm_int8/")
        assert space.name.endswith(" on h100-sxm")
        assert len(space.points) >= 70
        assert space.best_ms > 0


def test_an_unknown_method_is_named_with_the_known_ones():
    with pytest.raises(InputError, match="no method 'best'; choose one of: solkit, random, tpe"):
        replay_method(of([1.0]), [1], 1, "best")


@pytest.mark.parametrize("method", ["tpe", "optuna-gp"])
def test_optunas_samplers_ask_for_each_point_once(method):
    pytest.importorskip("optuna")
    space = of([float(1 + (at - 5) ** 2) if at % 4 else None for at in range(12)])
    asks = replaying.METHODS[method](space, None, 0)
    requests = []
    for _ in range(12):
        requests += asks.ask()
        asks.tell(requests[-1], space.time_ms(requests[-1]))
    assert sorted(request["X"] for request in requests) == list(range(12))
    assert asks.ask() == []
