"""Tables of stores."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone

import numpy as np
import pytest
from synthetic import KERNEL

from solkit.core import (
    Binding,
    Depth,
    Facts,
    Launch,
    LiveLaunch,
    Outcome,
    Source,
    StoredFacts,
    TensorLayout,
    Verdict,
)
from solkit.datasets.facts import facts_id, facts_to_json
from solkit.datasets.store import Store
from solkit.errors import InputError
from solkit.surrogate.launch_calls import program_of_text
from solkit.surrogate.table import Table, table_of_entries, table_of_stores

pytest.importorskip("polars")

SIZE = 1 << 20
ROW = Outcome(
    "k", "double", "elementwise", "zoo", "double/N=1048576", "h100-sxm", {}, Verdict.CORRECT,
    datetime(2026, 1, 1, tzinfo=timezone.utc), "random", 0.5, 0.25, run_id="run",
    limiter="dram", read_bytes=4 * SIZE, write_bytes=4 * SIZE, shape={"N": SIZE},
    source_sha256="s", triton_version="3.6.0",
)  # fmt: skip
TYPES = {"x_ptr": "*fp32", "out_ptr": "*fp32", "N": "i32", "BLOCK": "constexpr"}


def launch(block, form=Launch):
    constants = {"BLOCK": block, "STORE": ""}
    fields = {"name": "double", "grid": (SIZE // block, 1, 1), "num_warps": 4, "num_stages": 3}
    return form(**fields, num_ctas=1, constants=constants, signature=TYPES)


ZERO = Launch("aten.zero_", (0, 0, 0), 0, 0, library=True)


@pytest.fixture
def store(tmp_path):
    """One row with facts and two without: the launches of one were recorded."""
    rows = [
        replace(ROW, sequence=0, params={"BLOCK": 512}, facts_id="f"),
        replace(ROW, sequence=1, params={"BLOCK": 1024},
                live_launches=(launch(1024, LiveLaunch),)),
        replace(ROW, sequence=2, params={"BLOCK": 2048}),
    ]  # fmt: skip
    facts = facts_to_json([Facts(launch(512)), Facts(ZERO)])
    store = Store(tmp_path / "store", create=True)
    store.add(rows, [Source("s", "double.py", KERNEL)], [StoredFacts("f", facts)])
    return store


def test_no_candidates_make_an_empty_table():
    empty = table_of_entries([])
    assert (len(empty), empty.names, empty.values.shape) == (0, (), (0, 0))


def test_the_captured_depth_needs_no_facts(store):
    table = table_of_stores([store], Depth.CAPTURED)
    blocks = [json.loads(param)["BLOCK"] for param in table.about["params"]]
    assert sorted(blocks) == [512, 1024]
    order = np.argsort(blocks)
    np.testing.assert_allclose(table.column("geometry.blocks")[order], [11, 10])
    # what it loads for certain: without a record of the arguments its masks are not known
    np.testing.assert_allclose(table.column("tiles.load_traffic"), 0, atol=1e-6)
    assert np.isnan(table.modelled_ms).all()


def test_operators_that_were_not_recorded_are_those_of_other_configurations(store):
    table = table_of_stores([store], Depth.CAPTURED)
    np.testing.assert_array_equal(table.column("geometry.launches"), [2, 2])
    np.testing.assert_array_equal(table.column("geometry.kernels"), [2, 2])


def test_the_compiled_depth_needs_facts(store):
    table = table_of_stores([store], Depth.COMPILED)
    assert [json.loads(param)["BLOCK"] for param in table.about["params"]] == [512]


def facts(depth, registers):
    return Facts(launch(512), depth, registers=registers, spills=0, shared_bytes=0)


def test_cuda_is_compiled_at_the_lowered_depth(tmp_path):
    """Beside it, Triton's kernels have their lowered facts, and none without these."""
    on = replace(ROW, compute_capability=(9, 0), sm_count=132, cuda_version="13.0")
    triton = replace(on, sequence=0, kernel_id="t", facts_id="t")
    alone = replace(on, sequence=1, kernel_id="a", facts_id="a")
    cuda = replace(on, sequence=2, kernel_id="c", facts_id="c", source_sha256="c")
    stored = {
        "t": facts(Depth.COMPILED, 100),
        facts_id(triton, KERNEL, Depth.LOWERED): facts(Depth.LOWERED, 80),
        "a": facts(Depth.COMPILED, 60),
        "c": facts(Depth.COMPILED, 40),
    }
    store = Store(tmp_path / "cuda", create=True)
    sources = [Source("s", "double.py", KERNEL), Source("c", "c.py", "__global__ void f() {}")]
    store.add(
        [triton, alone, cuda],
        sources,
        [StoredFacts(name, facts_to_json([item])) for name, item in stored.items()],
    )

    def registers(depth):
        table = table_of_stores([store], depth)
        known_values = table.column("machine.registers").tolist()
        return dict(zip(table.about["kernel_id"].tolist(), known_values, strict=True))

    assert registers(Depth.LOWERED) == {"t": 80, "c": 40}
    assert registers(Depth.COMPILED) == {"t": 100, "a": 60, "c": 40}


@pytest.mark.parametrize("depth", Depth)
def test_a_captured_record_says_the_arguments_at_every_depth(tmp_path, depth):
    on = replace(ROW, compute_capability=(9, 0), sm_count=132, sequence=0, facts_id="f")
    tensor = Binding("tensor", tensor=TensorLayout("fp32", 4, (SIZE,), (1,)))
    arguments = {
        **dict.fromkeys(("x_ptr", "out_ptr"), tensor),
        "N": Binding("scalar", SIZE // 2),  # half of the blocks have nothing to do
        "BLOCK": Binding("constant", 512),
        "STORE": Binding("constant", ""),
    }
    program = program_of_text(KERNEL, "double")
    recorded = replace(launch(512), arguments=arguments, program=program)
    stored = {
        "f": facts(Depth.COMPILED, 100),
        facts_id(on, KERNEL, Depth.LOWERED): facts(Depth.LOWERED, 80),
        facts_id(on, KERNEL, Depth.CAPTURED): Facts(recorded, Depth.CAPTURED),
    }
    store = Store(tmp_path / "store", create=True)
    texts = [StoredFacts(name, facts_to_json([item])) for name, item in stored.items()]
    store.add([on], [Source("s", "double.py", KERNEL)], texts)
    table = table_of_stores([store], depth)
    np.testing.assert_allclose(table.column("tiles.load_traffic"), [-1])


def test_kernels_whose_program_is_not_known_teach_nothing(tmp_path):
    imported = "from package import double"
    rows = [
        replace(ROW, sequence=3, params={"BLOCK": 512}, facts_id="f", source_sha256="p"),
        replace(ROW, sequence=4, params={"BLOCK": 256}, facts_id="f"),
    ]
    facts = StoredFacts("f", facts_to_json([Facts(launch(512))]))
    own, elsewhere = (Store(tmp_path / name, create=True) for name in ("own", "elsewhere"))
    own.add(rows, [Source("p", "p.py", imported), Source("s", "s.py", KERNEL)], [facts])
    elsewhere.add(rows[:1], [Source("p", "p.py", imported)], [facts])
    assert len(table_of_stores([own], Depth.COMPILED)) == 2
    (learned,) = table_of_stores([own], Depth.COMPILED, to_learn=True).about["params"]
    assert json.loads(learned) == {"BLOCK": 256}
    assert len(table_of_stores([elsewhere], Depth.COMPILED, to_learn=True)) == 1  # or nothing


def test_a_table_is_written_and_read_again(store, tmp_path):
    table = table_of_stores([store], Depth.CAPTURED)
    table.save(tmp_path / "table.npz")
    again = Table.load(tmp_path / "table.npz")
    assert (again.names, again.sources) == (table.names, table.sources)
    for name in ("values", "time_ms", "modelled_ms", "sol_ms", "repeat_log2", "base_ms"):
        np.testing.assert_array_equal(getattr(again, name), getattr(table, name))
    assert set(again.about) == set(table.about)
    for name, column in table.about.items():
        np.testing.assert_array_equal(again.about[name], column)
    assert again.about["shape"].tolist() == [f'{{"N":{SIZE}}}'] * 2
    assert again.sources == {"k": KERNEL}


def test_what_is_no_table_is_refused(tmp_path):
    (tmp_path / "other.npz").write_bytes(b"other")
    for name in ("other.npz", "none.npz"):
        with pytest.raises(InputError, match=f"{name} holds no table"):
            Table.load(tmp_path / name)
