"""Cubins of other compilers and of warp-specialised kernels, made from own kernels, as recorded.

``triton_warp_specialised_100``: Triton 3.9.0, a persistent product by TMA with ``warp_specialize``,
for sm_100. ``cutile_matmul_100`` (one kernel) and ``cutile_softmax_90`` (two): cuTile 1.7, tileiras
13.5.37. Paths in the line tables were made neutral.
"""

from __future__ import annotations

import functools
import lzma
from pathlib import Path

import pytest

from solkit.adapters import cubin, sass
from solkit.analysis.common.instructions import instruction_mix
from solkit.errors import UnsupportedError

DATA = Path(__file__).parent / "data"
FILES = "triton_warp_specialised_100", "cutile_matmul_100", "cutile_softmax_90"
TOOLS = {"UTCHMMA": 8, "UTMALDG": 2, "UTMASTG": 1, "LDTM": 1}
"""Of Triton's kernel, as `nvdisasm` lists them: all were lost behind an indirect branch once."""


@functools.cache
def read(name):
    data = lzma.decompress((DATA / f"{name}.cubin.xz").read_bytes())
    architecture = f"{name.rpartition('_')[2]}a"
    functions = cubin.parse_functions(data)
    codes = sass.machine_code(list(functions.values()), architecture)
    return data, functions, dict(zip(functions, codes, strict=True))


@pytest.mark.parametrize("name", FILES)
def test_places_are_those_that_nvdisasm_shows(name):
    data, _, codes = read(name)
    try:
        listed = sass.parse_listing(sass.disassemble(data))
    except UnsupportedError as error:
        pytest.skip(str(error))
    assert set(listed) == set(codes)
    for function, code in codes.items():
        shown = [(i.address, i.opcode, i.lines) for i in listed[function].instructions]
        assert [(i.address, i.opcode, i.lines) for i in code.instructions] == shown
        assert all(i.lines for i in code.instructions)


@pytest.mark.parametrize("name", FILES)
def test_all_code_is_reached_but_padding(name):
    _, functions, codes = read(name)
    for function, code in codes.items():
        size = len(functions[function].code) // 16
        assert size - 16 <= sum(1 for _ in code.instructions) <= size


def test_products_and_bulk_copies_behind_an_indirect_branch_are_found():
    (code,) = read("triton_warp_specialised_100")[2].values()
    names = [instruction.name for instruction in code.instructions]
    assert {name: names.count(name) for name in TOOLS} == TOOLS


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        ("triton_warp_specialised_100", {"computes+stores", "products", "loads"}),
        ("cutile_matmul_100", {"computes", "loads", "products", "stores"}),
        ("cutile_softmax_90", {"computes", "loads", "stores"}),
    ],
)
def test_roles_of_warps_are_told_apart(name, roles):
    for code in read(name)[2].values():
        mix = instruction_mix(code)
        assert {role.name for role in mix.roles} == roles
        products = [role for role in mix.roles if "products" in role.name]
        assert sum(role.tensor for role in products) == mix.of("tensor")
