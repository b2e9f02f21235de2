"""The sets that SolKit ships."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("polars")
pytest.importorskip("pyarrow")

import polars as pl
import pyarrow.parquet as pq

from solkit.core import ROW_KEY, Depth
from solkit.datasets import shipped
from solkit.datasets.facts import facts_key
from solkit.datasets.store import shipped as shipped_set
from solkit.errors import UnsupportedError

VERSION_1 = Path(__file__).parent / "data" / "version1.parquet"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """SolKit as a wheel installs it: with no ``data`` folder of its own."""
    monkeypatch.setattr(shipped, "_CHECKOUT", tmp_path / "none")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_a_checkout_has_the_sets_beside_the_code():
    names = {path.parent.name for path in shipped.folder("x").glob("*/README.md")}
    assert set(shipped.LEARNED_FROM) <= names


def test_an_installed_solkit_finds_the_sets_in_the_package_solkit_data(installed):
    package = installed / "solkit_data"
    package.mkdir()
    (package / "__init__.py").write_text("")
    assert shipped.folder("x") == package


@pytest.mark.usefixtures("installed")
def test_without_the_package_the_error_says_how_to_get_it():
    with pytest.raises(UnsupportedError, match=r"no store 'h100'.*pip install ./packaging"):
        shipped_set("h100")


def digest(column: pl.Series) -> str:
    """Of a column's values: the same whatever the files hold them in."""
    result = hashlib.sha256(column.is_null().to_numpy().tobytes())
    column = column.drop_nulls()
    if column.dtype == pl.List:
        result.update(column.list.len().cast(pl.Int64).to_numpy().tobytes())
        column = pl.from_arrow(column.to_arrow().flatten())
    if column.dtype == pl.String:
        result.update("\0".join(column).encode())
    else:
        result.update(column.to_physical().to_numpy().tobytes())
    return result.hexdigest()


def test_one_set_has_times_of_another_triton_beside_the_same_configurations():
    keys = ("kernel_id", "problem_id", "params")
    pairs = (
        shipped_set("h100_triton371").scan().join(shipped_set("h100").scan(), on=keys, how="left")
    )
    result = pairs.select("triton_version", "triton_version_right", "facts_id", *keys).collect()
    assert set(result["triton_version"]) == {"3.7.1"}
    assert set(result["triton_version_right"]) == {"3.6.0"}  # none is without a partner
    assert result.select(keys).n_unique() == 2_048
    assert result.unique(keys)["facts_id"].null_count() == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [
        ("h100", 89_307, "9f59f6b1f8ec4098cde79bbeb853594aeac4c5acc3c15ec6263a63c3445c02aa"),
        ("h200", 76_193, "31278bc70244297d69993ddf7f5d93604f327e71d7e34fdd6ff33c2b52e74ad2"),
    ],
)
def test_giving_facts_to_a_set_changed_nothing_else(name, rows, columns):
    """Recorded when no row had facts: row keys, and all columns of version 1 but ``launches``."""
    names = [name for name in pq.read_schema(VERSION_1).names if name != "launches"]
    then = shipped_set(name).scan().filter(pl.col("run_id") < "20261123")  # later runs came since
    held = then.select(names).sort(ROW_KEY).collect()
    assert len(held) == rows
    text = "".join(f"{item.name} {digest(item)}\n" for item in held.iter_columns())
    assert hashlib.sha256(text.encode()).hexdigest() == columns


def test_rows_of_library_launchers_have_facts_and_hold_no_package_s_text():
    store = shipped_set("h200_libraries")
    names = ("kernel_id", "params", "shape", "triton_version")
    rows = store.scan().select("origin", "facts_id", "source_sha256", *names).collect()
    assert set(rows["origin"]) == {"library"}
    assert rows["facts_id"].null_count() == 0
    facts = store.facts().collect()
    with_text = set(facts.filter(pl.col("text").str.contains("tl.", literal=True))["id"])
    sources = pl.concat(pl.read_parquet(path) for path in store.folder.glob("sources/*.parquet"))
    assert set(rows["source_sha256"]) <= set(sources["sha256"])
    imports_a_package = sources["text"].str.contains("check_installed(", literal=True)
    assert imports_a_package.sum() >= 20
    ours = ~sources.filter(imports_a_package)["text"].str.contains("@triton.jit", literal=True)
    assert ours.all()  # a launcher, not the kernel
    own = rows.join(sources.filter(~imports_a_package), left_on="source_sha256", right_on="sha256")
    captured = {
        facts_key(
            row["kernel_id"],
            json.loads(row["params"]),
            json.loads(row["shape"]),
            (9, 0),
            132,
            row["triton_version"],
            depth=Depth.CAPTURED,
        )
        for row in own.iter_rows(named=True)
    }
    assert with_text == captured


def test_rows_of_languages_are_their_own_kernels_and_name_their_compiler():
    store = shipped_set("h200_languages")
    names = ("implementation", "origin", "facts_id", "triton_version", "extra", "params", "path")
    rows = store.scan().select("problem_id", *names).collect()
    assert set(rows["origin"]) == {"language"}
    assert rows["facts_id"].null_count() == 0
    assert rows["path"].null_count() == len(rows)
    assert not rows["params"].str.contains('"config"', literal=True).any()
    by_triton = rows["implementation"].str.contains("/triton_", literal=True)
    assert (by_triton == rows["triton_version"].is_not_null()).all()
    assert (by_triton != rows["extra"].str.contains('"compiler"', literal=True)).all()
    languages = rows.with_columns(
        language=pl.col("implementation").str.extract(r"/([a-z]+)_"),
    )
    by_problem = languages.group_by("problem_id").agg(pl.col("language").unique())
    assert len(by_problem) == 8
    assert all({"triton", "tilelang", "cutile"} <= {*row} for row in by_problem["language"])
