"""What is counted of a measured set, on rows made by hand."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

pytest.importorskip("polars")
pytest.importorskip("pyarrow")

from solkit.core import Facts, Launch, Outcome, StoredFacts, Verdict
from solkit.datasets.facts import facts_to_json
from solkit.datasets.kernels import select_kernels
from solkit.datasets.store import Store
from solkit.roofline import devices

ROW = Outcome(
    "k0", "softmax", "softmax", "zoo", "softmax/M=0", "h100-sxm", {"B": 0}, Verdict.CORRECT,
    datetime(2026, 1, 1, tzinfo=timezone.utc), "random", 1.0, 0.5, run_id="one",
    hard_bound_ms=0.5,
)  # fmt: skip


@pytest.fixture
def dataset(monkeypatch, pytestconfig):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath / "bench"))
    import dataset

    yield dataset
    del sys.modules["dataset"]


def rows_of(problem, times, chosen_by="random", kernel="k0"):
    return [
        replace(
            ROW, problem_id=problem, kernel_id=kernel, params={"B": b}, time_ms=time,
            chosen_by=chosen_by,
        )
        for b, time in enumerate(times)
    ]  # fmt: skip


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store", create=True)
    rows = [
        *rows_of("softmax/M=0", [1.0] * 5 + [1.05] * 2 + [2.0] * 20),  # 7 near: too few
        *rows_of("softmax/M=1", [1.0] * 8 + [3.0] * 20, chosen_by="near_best"),
        *rows_of("softmax/M=2", [1.0] * 8 + [3.0] * 20),
        *rows_of("softmax/M=3", [1.0] * 3 + [1.05] * 3 + [9.0]),  # flat
        *rows_of("softmax/M=4", [1.0], kernel="k0"),
        *rows_of("softmax/M=4", [1.0], kernel="k1"),
        *rows_of("softmax/M=4", [1.0], kernel="k2"),
        *rows_of("softmax/M=4", [1.0], kernel="k3"),
        replace(ROW, params={"B": 99}, verdict=Verdict.WRONG, time_ms=None),
        replace(ROW, params={"B": 98}, problem_id="softmax/M=5", time_ms=0.25),
        replace(
            ROW,
            origin="inductor",
            problem_id="p/N=1",
            kernel_id="i",
            family="p",
            verdict=Verdict.BEATS_ALGORITHM,
        ),
    ]
    again = [
        replace(row, time_ms=row.time_ms * 1.5, chosen_by="repeat", run_id="two",
                created=row.created + timedelta(1))
        for row in rows[:2]
    ]  # fmt: skip
    store.add([replace(row, sequence=n) for n, row in enumerate([*rows, *again])])
    return store


def test_what_a_set_holds(dataset, store):
    fields = dict(dataset.figures(store))
    assert fields["valid configurations"] == 27 + 28 + 28 + 7 + 4 + 1 + 1
    assert fields["valid rows"] == fields["valid configurations"] + 2
    assert fields["rows that failed"] == 1
    assert fields["own families with 6 problems"] == 1
    assert fields["problems"] == 7
    assert fields["problems of 4 implementations"] == 1
    assert (fields["kernels"], fields["Inductor kernels"]) == (5, 1)
    assert fields["repeated configurations"] == 2
    assert fields["repeats: median difference"] == pytest.approx(0.5)
    assert fields["rows under their hard bound"] == 1
    assert 0 < fields["largest file, MB"] <= fields["MB"] < 1


@pytest.mark.quick("counts0-4-0", "counts2-6-1", "counts4-11-1")
@pytest.mark.parametrize(
    ("counts", "between_us", "gaps"),
    [((), 4, 0), ((), 6, 1), ((1,), 6, 1), ((2, 1), 8, 0), ((2, 1), 11, 1), ((1, 40), 190, 0)],
)
def test_a_host_that_stalled_between_launches_is_found(dataset, tmp_path, counts, between_us, gaps):
    store = Store(tmp_path / "store", create=True)
    launches = [Facts(Launch("k", (1, 1, 1), 4, 2, count=count)) for count in counts]
    kernel_sum_ms = ROW.time_ms - between_us / 1000
    facts = StoredFacts("f", facts_to_json(launches))
    store.add([replace(ROW, facts_id="f", kernel_sum_ms=kernel_sum_ms)], (), [facts])
    assert dict(dataset.figures(store))["rows with gaps between launches"] == gaps


def test_how_dense_the_good_region_is(dataset, store):
    fields = dict(dataset.density(store.scan().filter(verdict="correct")))
    assert fields["problems, not flat"] == 3
    assert fields["problems, not flat, with 8 near the best"] == pytest.approx(2 / 3)
    assert fields["such, one of them found without search"] == pytest.approx(2 / 3)


def test_what_was_measured_whole(dataset, store, monkeypatch):
    sizes = {"softmax/M=0": 28, "softmax/M=1": 28, "softmax/M=2": 29, "softmax/M=3": 7}
    monkeypatch.setattr(
        dataset, "space_sizes", lambda device: sizes if device.key == "h100-sxm" else {}
    )
    fields = dict(dataset.wholly_measured(store))
    assert fields["such, measured whole, fewer near"] == 1  # M=0
    assert fields["such, 8 near or measured whole"] == 1.0
    sizes["softmax/M=0"] = 29
    fields = dict(dataset.wholly_measured(store))
    assert fields["such, measured whole, fewer near"] == 0
    assert fields["such, 8 near or measured whole"] == pytest.approx(2 / 3)


@pytest.mark.slow
def test_how_large_spaces_are(dataset, monkeypatch, pytestconfig, tmp_path):
    """Of block_pointers.py at D=128, 26 of 28 pairs of TOKENS and num_warps are valid; 4 flags."""
    zoo, folder = pytestconfig.rootpath / "datasets" / "zoo" / "rope", tmp_path / "rope"
    folder.mkdir()
    shutil.copy(zoo / "problem.py", folder)
    for name in ("one.py", "two.py"):
        shutil.copy(zoo / "block_pointers.py", folder / name)
    kernels = select_kernels([str(folder)])
    monkeypatch.setattr(dataset, "select_kernels", lambda _: kernels)
    sizes = dataset.space_sizes(devices.find("h100-sxm"))
    assert len(sizes) == 8
    assert sizes["rope/D=128,H=64,T=1,dtype=bfloat16"] == 2 * 26 * 4


def test_what_several_sets_have_in_common(dataset, store, tmp_path):
    other = Store(tmp_path / "other", create=True)
    other.add(
        replace(row, device="h200", sequence=n)
        for n, row in enumerate(rows_of("softmax/M=1", [5.0] * 30))
    )
    assert dataset.in_common([store, other]) == 28


def test_missed_targets_are_told(dataset, store, capsys):
    assert dataset.main([str(store.folder)]) == 1
    assert "missed" in capsys.readouterr().out
    assert dataset.main(["there-is-none"]) == 2
    assert "there-is-none" in capsys.readouterr().err
