"""Kernel files of whole references: in Triton's interpreter they compute what eager does."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import re
import textwrap
from pathlib import Path

import pytest

from solkit.processes import jobs

pytestmark = pytest.mark.usefixtures("compiler_loaded")

NATIVE = {
    "chain": ("x: (37, 129); y: (37, 129)", "return torch.relu(x * 2 + y).exp() - y"),
    "softmax": ("x: (5, 70)", "return torch.softmax(x, -1)"),
    "long_rows": ("x: (1, 1100)", "return x / x.abs().amax(-1, keepdim=True)"),
    "split_sum": ("x: (20001,)", "return (x * x).sum()"),
    "product": ("x: (50, 40); w: (40, 30); b: (30,)", "return F.gelu(torch.addmm(b, x, w))"),
    "library_alone": ("x: (50, 40); w: (40, 30)", "return x @ w"),
    "two_kernels": ("x: (70, 45)", "y = x / (x.sum(0) ** 2 + 1)\n    return (y @ y.t()).sum(1)"),
    "several": ("x: (21, 34)", "return {'a': x + 1, 'b': [x.sum(1), (x.mean(0), 3, None)]}"),
    "views": ("x: (24, 36)", "return x.t().reshape(18, 48)[:, ::2] * 2, x[3:5]"),
    "transposed": ("x: (24, 36); y: (36, 24)", "return (x.t() + y).contiguous().t()"),
    "scans": ("x: (9, 70)", "return torch.cumsum(x, 1), torch.cumprod(x.t().contiguous(), 1)"),
    "indices": ("x: (3, 20)", "return x.argmax(1), torch.topk(x, 3)[0]"),
    "numbers": (
        "x: (13, 3)",
        "y = torch.tensor([0.1, -1.0, 2.0], device=x.device)\n"
        "    return torch.minimum(x, y) + torch.tensor(3)",
    ),
    "attention": (
        "q: (2, 3, 17, 8); k: (2, 3, 19, 8); v: (2, 3, 19, 8)",
        "return F.scaled_dot_product_attention(q, k, v, scale=0.3).relu()",
    ),
    "largest_of_places": (
        "x: (30, 8)",
        "places = (x[:, :1] > 0).long().expand(30, 8)\n"
        "    start = torch.zeros(2, 8, device=x.device)\n"
        "    return start.scatter_reduce(0, places, x, 'amax') + 1",
    ),
    "in_place": ("x: (13, 77); y: (13, 77)", "x.mul_(2).add_(y)\n    return x, y.sum()"),
    "in_place_composites": (
        "x: (13, 77)",
        "words = (x * 9).int()\n"
        "    words |= 1\n"
        "    words[1:] ^= words[:-1].clone()\n"
        "    words &= 255\n"
        "    words <<= 2\n"
        "    words >>= 1\n"
        "    x.square_().clip_(0, 2)\n"
        "    return words",
    ),
}
"""A body for each reference, on inputs of these shapes."""

FILES = {
    "convolution": """
        import torch.nn as nn

        SCALE = 2

        def helper(width):
            return [nn.Conv2d(width, SCALE * 4, 3, padding=1), nn.BatchNorm2d(SCALE * 4)]

        def unused():
            return SCALE

        class Model(nn.Module):
            def __init__(self, width, twice):
                super(Model, self).__init__()
                self.layers = nn.Sequential(*helper(width), nn.ReLU())
                self.scale = nn.Parameter(torch.randn(SCALE * 4, 1, 1))
                self.head = nn.Linear(SCALE * 4, 5, bias=False)
                self.offset = torch.ones(5) * twice

            def forward(self, x):
                y = self.layers(x) * self.scale
                return self.head(F.max_pool2d(y, 2).mean((2, 3))) - self.offset

        def get_inputs():
            return [torch.rand(2, 3, 5, 6)]

        def get_init_inputs():
            return [3, 2]
        """,
    "lists": """
        def inputs(device="cuda"):
            made = [torch.randn(5, n, device=device) for n in (3, 4)]
            return (made, 2), {"eps": 0.5}

        def reference(xs, times, *, eps=1.0):
            return torch.cat([x * times for x in xs], 1) + eps
        """,
    "destination": """
        OUTPUTS = ("out",)

        def inputs(device="cuda"):
            return torch.randn(7, 9, device=device), torch.empty(7, 9, device=device)

        def reference(x, out):
            out.copy_(torch.sigmoid(x))
        """,
}

REFUSED = {
    "dropout": ("return F.dropout(x, 0.5)", "draws random numbers"),
    "generator": (
        "return x[torch.randperm(4, generator=torch.Generator().manual_seed(0))]",
        "draws random numbers (aten.randperm",
    ),
    "unrolled": ("for _ in range(9000):\n        x = x * 2\n    return x", "over 8000 operators"),
    "random": ("return x + torch.rand_like(x)", "draws random numbers"),
    "value": ("return x * 2 if x.sum() > 0 else x", "depends on values"),
    "size": ("return x[x > 0]", "depends on values"),
    "held": ("return x + HELD", "no argument"),
    "broken": ("return x + torch.ones(3, 5, device=x.device)", "raises RuntimeError"),
}
"""A body and what the message says; ``x`` is (4, 6)."""

HEAD = "import torch\nimport torch.nn.functional as F\n"


def _inputs(shapes: str) -> tuple[str, str]:
    """The parameters, and ``inputs``."""
    pairs = [part.split(": ") for part in shapes.split("; ")]
    text = ", ".join(f"torch.randn({shape}, device=device)" for _, shape in pairs)
    names = ", ".join(name for name, _ in pairs)
    return names, f'def inputs(device="cuda"):\n    return ({text},)\n'


def _native(shapes: str, body: str, top: str = "") -> str:
    names, result = _inputs(shapes)
    return f"{HEAD}{top}\n{result}\ndef reference({names}):\n    {body}\n"


TEXTS = {
    **{name: _native(*parts) for name, parts in NATIVE.items()},
    **{name: HEAD + textwrap.dedent(text) for name, text in FILES.items()},
}
QUICK = ("chain", "softmax", "product", "views", "in_place", "destination", "lists", "several")
QUICK += ("in_place_composites",)
ALL = pytest.param(tuple(TEXTS), marks=pytest.mark.slow)
HELD = "HELD = torch.randn(())\n"
BAD = {name: _native("x: (4, 6)", body, HELD) for name, (body, _) in REFUSED.items()}


def _paths(folder: Path, texts: dict[str, str]) -> dict[str, str]:
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return {name: str(folder / f"{name}.py") for name in texts}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """By name the text of each kernel file, or why there is none; all in one process."""
    paths = _paths(tmp_path_factory.mktemp("references"), {**TEXTS, **BAD})
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        result = jobs.call("inductor_programs:written", list(paths.values()))
    return dict(zip(paths, result, strict=True))


@pytest.fixture(scope="module", params=[QUICK, ALL], ids=["quick", "all"])
def differences(request, written, interpreted, tmp_path_factory):
    """By name how each kernel file differs from its reference."""
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "references").mkdir()
    names = request.param
    references = _paths(folder / "references", {name: TEXTS[name] for name in names})
    kernels = _paths(folder, {name: written[name][0] for name in names})
    pairs = [(references[name], kernels[name]) for name in names]
    results = interpreted(Path(__file__).parent, "inductor_programs:compared", pairs, 1)
    return dict(zip(names, results, strict=True))


@pytest.mark.slow
def test_each_reference_has_a_kernel_file(written):
    assert {name: written[name][1] for name in TEXTS} == dict.fromkeys(TEXTS, "")


@pytest.mark.slow
def test_they_compute_their_references_with_any_parameters(differences):
    assert differences == dict.fromkeys(differences, "")


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_written_is_refused_with_the_reason(name, written):
    text, why = written[name]
    assert text == ""
    assert REFUSED[name][1] in why
    assert f"{name}.py" in why


def functions(text):
    return [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]


def launcher(text):
    return next(function for function in functions(text) if function.name == "kernel")


def jitted(text):
    return [f.name for f in functions(text) if f.decorator_list]


def calls(text):
    """What the launcher calls, in order."""
    selected_nodes = [node for node in ast.walk(launcher(text)) if isinstance(node, ast.Call)]
    selected_nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    return [ast.unparse(selected_node.func).split("[")[0] for selected_node in selected_nodes]


@pytest.mark.slow
def test_library_operators_stay_calls_and_write_where_inductor_has_them_write(written):
    text = written["product"][0]
    assert "torch.mm(x, w, out=buf0)" in text  # the bias joins the kernel
    assert len(jitted(text)) == 1


@pytest.mark.slow
def test_kernels_are_launched_in_order(written):
    text = written["two_kernels"][0]
    first, last = jitted(text)
    expected = (first, "torch.mm", last)
    assert tuple(call for call in calls(text) if call in expected) == expected


@pytest.mark.slow
def test_parameters_of_several_kernels_are_named_apart(written):
    text = written["two_kernels"][0]
    names = [argument.arg for argument in launcher(text).args.kwonlyargs]
    assert {"XBLOCK_0", "num_warps_0", "XBLOCK_1", "num_warps_1"} <= set(names)
    assert len(set(names)) == len(names)
    space = next(n for n in ast.parse(text).body if isinstance(n, ast.Assign))
    listed = ast.literal_eval(space.value)
    assert set(listed) == set(names)
    defaults = [ast.literal_eval(item) for item in launcher(text).args.kw_defaults]
    assert all(value in listed[name] for name, value in zip(names, defaults))


@pytest.mark.slow
def test_parameters_of_one_kernel_have_tritons_names(written):
    names = [argument.arg for argument in launcher(written["softmax"][0]).args.kwonlyargs]
    assert names == ["XBLOCK", "num_warps", "num_stages"]


@pytest.mark.slow
def test_a_reduction_is_persistent_looped_or_split_as_inductor_has_it(written):
    assert "for r0_offset" not in written["softmax"][0]
    assert "for r0_offset" in written["long_rows"][0]
    assert len(jitted(written["split_sum"][0])) == 2


@pytest.mark.slow
def test_attention_stays_one_library_call(written):
    text = written["attention"][0]
    assert "torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.3)" in text


@pytest.mark.slow
def test_memory_is_freed_and_reused_as_by_inductor(written):
    text = written["product"][0]
    assert calls(text).count("torch.empty_strided") == 1  # the kernel works in place
    assert "del buf1\n" in written["two_kernels"][0]


@pytest.mark.slow
def test_a_model_keeps_its_weights_and_what_makes_them(written):
    text = written["convolution"][0]
    top = [getattr(node, "name", "") for node in ast.parse(text).body]
    assert "ModelNew" in top
    assert "helper" in top
    assert "SCALE = 2" in text
    assert not {"Model", "unused", "get_inputs"} & set(top)
    assert "self.layers[0].weight" in text
    assert "self.offset" in text


@pytest.mark.slow
def test_the_header_says_what_made_it(written):
    documented = ast.get_docstring(ast.parse(written["chain"][0]))
    assert "chain, as PyTorch's Inductor compiles it." in documented
    assert "PyTorch's licence" in documented


@pytest.mark.slow
def test_a_program_without_a_kernel_has_no_space(written):
    text = written["library_alone"][0]
    assert "SPACE" not in text
    assert jitted(text) == []


@pytest.mark.slow
def test_every_point_of_a_large_programs_space_is_valid(written, tmp_path):
    from solkit.core import Space

    path = tmp_path / "program.py"
    text = written["convolution"][0]
    kept = [n for n in functions(text) if n.name in ("_fits", "valid")]
    space = next(n for n in ast.parse(text).body if isinstance(n, ast.Assign))
    path.write_text("\n".join(map(ast.unparse, [space, *kept])), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert len(jitted(text)) > 3
    points = itertools.islice(Space(module.SPACE).shuffled(0), 200)
    assert all(module.valid(point, {}) for point in points)


COOPERATIVE = {"triton.cooperative_reductions": True, "triton.force_cooperative_reductions": True}
ROWS = {
    "norm": ("x: (40000, 1100)", "return x / (x * x).sum(-1, keepdim=True).sqrt()"),
    "few": ("x: (3, 2100)", "return torch.softmax(x, -1)"),
    "whole": ("x: (100, 9000)", "return x.sum(-1)"),
}
"""Long rows: more than programs run at once, few, and as many as programs."""


@pytest.fixture(scope="module")
def cooperative(tmp_path_factory):
    """The kernel files of `ROWS` if reductions are shared by force, and their references."""
    folder = tmp_path_factory.mktemp("cooperative")
    paths = _paths(folder, {name: _native(*parts) for name, parts in ROWS.items()})
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        result = jobs.call("inductor_programs:written", list(paths.values()), COOPERATIVE)
    return {name: (paths[name], *item) for name, item in zip(paths, result, strict=True)}


@pytest.mark.slow
def test_reductions_that_nobody_shares_are_refused(cooperative):
    _, text, why = cooperative["whole"]
    assert not text
    assert "no two programs of triton_" in why


@pytest.mark.slow
def test_programs_that_wait_for_each_other_all_run_at_once(cooperative):
    _, text, why = cooperative["norm"]
    assert not text
    assert "more programs of triton_" in why
    assert "wait for each other than can run at once" in why


@pytest.mark.slow
def test_few_rows_have_a_grid_of_all_their_programs(cooperative):
    _, text, why = cooperative["few"]
    assert why == ""
    assert "launch_cooperative_grid=True" in text
    assert "[(RSPLIT, triton.cdiv(3, XBLOCK))]" in text


@pytest.mark.slow
def test_few_rows_compute_their_reference(cooperative, interpreted):
    """Shared by one program: the interpreter runs one after the other, and none may wait."""
    path, text, _ = cooperative["few"]
    kernel = Path(path).with_suffix(".kernel.py")
    kernel.write_text(re.sub(r"RSPLIT=\d+", "RSPLIT=1", text))
    pairs = [(path, str(kernel))]
    assert interpreted(Path(__file__).parent, "inductor_programs:compared", pairs, 0) == [""]
