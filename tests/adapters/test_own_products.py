"""Products as kernels of a program: right in Triton's interpreter, with what surrounds them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from solkit.processes import jobs

pytestmark = pytest.mark.usefixtures("compiler_loaded")

WHOLE = {
    "bias": (
        "x: (37, 50); w: (41, 50); b: (41,)",
        "return torch.relu(F.linear(x, w, b)) * 2",
    ),
    "scaled_addend": (
        "b: (1, 30); x: (20, 40); w: (40, 30)",
        "return torch.addmm(b, x, w, beta=2.0, alpha=0.5)",
    ),
    "batches": (
        "x: (3, 20, 33); w: (3, 18, 33); s: (3, 18)",
        "return torch.bmm(x, (w * s[..., None]).transpose(1, 2)) - 1",
    ),
    "int8": (
        "x: (5, 64) half; w: (24, 64) int8; s: (24, 2) half",
        "q = (w.view(24, 2, 32).half() * s[..., None]).view(24, 64)\n    return F.linear(x, q)",
    ),
    "int4": (
        "x: (6, 32) half; w: (20, 16) uint8",
        "q = torch.stack((w & 15, w >> 4), -1).view(20, 32).half() - 2\n    return x @ q.t()",
    ),
    "words": (
        "x: (6, 128) half; w: (20, 16) int32; s: (20, 2) half",
        "shifts = torch.arange(0, 32, 4, device=x.device, dtype=torch.int32)\n"
        "    q = ((w[:, :, None] >> shifts) & 15).reshape(20, 128).half()\n"
        "    return x @ (q * s.repeat_interleave(64, 1)).t()",
    ),
    "rows_of_words": (
        "x: (6, 128) half; w: (16, 20) int32; s: (20,) half",
        "shifts = torch.arange(0, 32, 4, device=x.device, dtype=torch.int32)[:, None]\n"
        "    q = ((w[:, None] >> shifts) & 15).reshape(128, 20).half()\n"
        "    return x @ (q * s)",
    ),
    "integers": (
        "x: (20, 128) int8; w: (18, 128) int8; s: (18,)",
        "return (x.float() @ w.float().t()) * s",
    ),
    "widened": (
        "x: (18, 40) half; w: (40, 20) half",
        "return (x.float() @ w.float()).relu()",
    ),
    "row": ("x: (1, 70) half; w: (30, 70) half", "return F.linear(x, w) + 1"),
    "columns": ("x: (2, 30, 70); w: (2, 70, 1)", "return torch.bmm(x, w) + 1"),
    "tokens": ("x: (2, 9, 24); w: (24, 40)", "return (x @ w).sigmoid()"),
    "two": ("x: (17, 24); w: (24, 40); v: (40, 18)", "return (x @ w).relu() @ v"),
}
"""Integers on which sums are exact: inputs, and a body."""

LONG = {"long": ("x: (3, 1100) half; w: (50, 1100) half", "return F.linear(x, w).relu()")}
PRECISE = {"precise": ("x: (20, 1100); w: (1100, 18)", "return x @ w")}


def _text(inputs: str, body: str) -> str:
    lines, names = [], []
    for part in inputs.split("; "):
        name, _, rest = part.partition(": ")
        shape, _, dtype = rest.rpartition(") ") if not rest.endswith(")") else (rest, "", "float32")
        shape = shape if shape.endswith(")") else f"{shape})"
        least, most = {"uint8": (0, 255), "int32": (-(2**31), 2**31 - 1)}.get(dtype, (-3, 4))
        names.append(name)
        lines.append(
            f"        torch.randint({least}, {most}, {shape}, device=device).to(torch.{dtype}),\n"
        )
    head = "import torch\nimport torch.nn.functional as F\n\n"
    function = f'def inputs(device="cuda"):\n    return (\n{"".join(lines)}    )\n'
    return f"{head}{function}\n\ndef reference({', '.join(names)}):\n    {body}\n"


def _written(folder: Path, cases, settings) -> dict[str, tuple[str, str, str]]:
    paths = {name: folder / f"{name}.py" for name in cases}
    for name, path in paths.items():
        path.write_text(_text(*cases[name]), encoding="utf-8")
    listed = list(map(str, paths.values()))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        texts = jobs.call("inductor_programs:written", listed, settings)
    return {n: (str(p), *text) for (n, p), text in zip(paths.items(), texts, strict=True)}


QUICK = ("bias", "words", "integers")


@pytest.fixture(
    scope="module",
    params=["quick", pytest.param("all", marks=pytest.mark.slow)],
)
def written(request, tmp_path_factory):
    """By name the reference's path, the kernel file's text, and why there is none."""
    folder = tmp_path_factory.mktemp("products")
    own, split = ({f"solkit.{name}_products": "tf32"} for name in ("own", "split"))
    if request.param == "quick":
        return _written(folder, {name: WHOLE[name] for name in QUICK}, own)
    return {
        **_written(folder, WHOLE, own),
        **_written(folder, LONG, split),
        **_written(folder, PRECISE, {"solkit.own_products": "tf32x3"}),
    }


def kernels(text):
    return [
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.decorator_list
    ]


def test_they_compute_their_references(written, interpreted):
    pairs = []
    for path, text, why in written.values():
        assert why == ""
        kernel = Path(path).with_suffix(".kernel.py")
        kernel.write_text(text, encoding="utf-8")
        pairs.append((path, str(kernel)))
    results = interpreted(Path(__file__).parent, "inductor_programs:compared", pairs, 1)
    assert dict(zip(written, results, strict=True)) == dict.fromkeys(written, "")


def test_operands_and_results_are_computed_in_the_products_launch(written):
    counts = {name: len(kernels(text)) for name, (_, text, _) in written.items()}
    assert counts == {**dict.fromkeys(counts, 1), **{n: 2 for n in ("two", "long") if n in counts}}
    assert not any("torch.mm(" in text or "torch.bmm(" in text for _, text, _ in written.values())


def test_what_is_masked_is_zero_before_it_becomes_an_operand(written):
    masked = [
        line
        for _, text, _ in written.values()
        for line in text.splitlines()
        if "tl.load(" in line and ("a_mask" in line or "b_mask" in line)
    ]
    assert masked
    assert all("other=0.0" in line for line in masked)


def test_what_several_elements_share_is_loaded_once(written):
    expected = {"words": 2, "rows_of_words": 1}
    texts = {name: written[name][1] for name in written.keys() & expected.keys()}
    counts = {name: text.count(".reshape([BLOCK_") for name, text in texts.items()}
    assert counts == {name: expected[name] for name in texts}


def test_three_passes_are_summed_in_parts(written):
    texts = [written[name][1] for name in PRECISE if name in written]
    assert all('part += tl.dot(a, b, input_precision="tf32x3")' in text for text in texts)
    assert all("acc += part" in text for text in texts)


def test_precision_is_asked_for_where_operands_are_wide(written):
    dots = {
        name: text.partition("tl.dot(")[2].partition("\n")[0]
        for name, (_, text, _) in written.items()
    }
    wide = {name for name, dot in dots.items() if 'input_precision="tf32"' in dot}
    assert wide == {"bias", "scaled_addend", "batches", "tokens", "two"} & dots.keys()
    assert {name for name, dot in dots.items() if not dot} == {"row", "columns"} & dots.keys()
