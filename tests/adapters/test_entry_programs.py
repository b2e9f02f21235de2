"""Programs of references behind other kernels' entry points: where they run, and what they give.

Each original gives wrong values, of the reference's shapes. So right values come of the program,
and the original's come of the original.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from solkit.processes import jobs

pytestmark = pytest.mark.usefixtures("compiler_loaded")

HEAD = "import torch\nimport torch.nn as nn\n"
NATIVE = {
    "structure": """
        def inputs(M=6, N=40, device="cuda"):
            return torch.randn(M, N, device=device), 2.0

        def reference(x, scale):
            return [(x * scale).t(), x.sum(1)]

        def kernel(y, scale=3.0):
            wide = torch.zeros(y.shape[1], y.shape[0], device=y.device, dtype=torch.float64)
            return (wide, y[:, 0] * 0)
        """,
    "named": """
        def inputs(M=6, N=40, device="cuda"):
            xs = [torch.randn(M, N, device=device), torch.randn(N, device=device)]
            return (xs,), {"flags": (True, None), "kind": "exp"}

        def reference(xs, *, flags, kind):
            return (xs[0] + xs[1]).exp()

        def kernel(xs, *, flags, kind="none", BLOCK=4):
            return torch.zeros_like(xs[0]) + BLOCK
        """,
    "destination": """
        OUTPUTS = ("out",)

        def inputs(M=6, N=40, device="cuda"):
            return torch.randn(M, N, device=device), torch.empty(M, N, device=device)

        def reference(x, out):
            out.copy_(torch.sigmoid(x))

        def kernel(x, out):
            out.zero_()
            return out
        """,
}
NATIVE["twice"] = """
    def inputs(M=6, N=40, device="cuda"):
        x = torch.randn(M, N, device=device)
        return x, x

    def reference(x, y):
        return x + 2 * y

    def kernel(x, y):
        return torch.zeros_like(x)
    """
MODEL = """
    WIDTH = 40

    class Model(nn.Module):
        def __init__(self, width, eps):
            super().__init__()
            self.linear = nn.Linear(width, 8)
            self.eps = eps

        def forward(self, x):
            return self.linear(x) * self.eps

    class ModelNew(nn.Module):
        def __init__(self, width, eps):
            super().__init__()
            layer = nn.Linear(width, 8)
            self.weight, self.offset = layer.weight, layer.bias

        def forward(self, x):
            return torch.zeros(x.shape[0], 8, device=x.device)

    def get_inputs():
        return [torch.randn(6, WIDTH)]

    def get_init_inputs():
        return [WIDTH, 0.5]
    """
FURTHER = """
    def inputs(M=6, N=40, device="cuda"):
        return ([torch.randn(M, N, device=device), torch.randn(N, device=device)],)

    def reference(xs):
        return xs[0] * 2

    def kernel(xs):
        return torch.zeros_like(xs[0]), xs[1]
    """
CASES = {**NATIVE, "model": MODEL}
OTHER = {**{name: {"M": 7} for name in NATIVE}, "model": {"WIDTH": 41}}
SUM = NATIVE["twice"].replace("return x, x", "return x, {}")
REFUSED = {
    "enumeration": (
        SUM.format("Kind.A")
        + """
    import enum

    class Kind(enum.IntEnum):
        A = 1
    """,
        "nothing tells y, a Kind",
    ),
    "numpy": (SUM.format("__import__('numpy').float64(2)"), "nothing tells y, a float64"),
    "keys": (SUM.format("{torch.half: 2}").replace("2 * y", "2"), "nothing tells y, a dict"),
    "processor": (SUM.format("torch.tensor(2.0)"), "y is not on the GPU"),
    "values": (
        SUM.format("x.clone()").replace("zeros_like(x)", "zeros_like(x), float(x.max())"),
        "returns a number that may depend on values",
    ),
    "writes": (
        SUM.format("x.clone()").replace("return x + 2 * y", "return x.mul_(2) + y"),
        "the reference writes x, the kernel does not",
    ),
    "shared": (
        NATIVE["twice"].replace("return x + 2 * y", "return y.copy_(x.t().contiguous().t())"),
        "memory that several of its arguments share",
    ),
    "copies": (
        SUM.format("x.clone()")
        .replace("x + 2 * y", "y.view(-1)")
        .replace("like(x)", "like(x).view(-1)"),
        "returns a view of an argument",
    ),
    "merged": (
        MODEL.replace(
            "nn.Linear(width, 8)\n            self.eps", "Scaled(width)\n            self.eps"
        )
        .replace("layer = nn.Linear(width, 8)", "self.scale = nn.Parameter(torch.ones(width))")
        .replace("self.weight, self.offset = layer.weight, layer.bias", "")
        .replace("torch.zeros(x.shape[0], 8, device=x.device)", "torch.zeros_like(x)")
        + """
    class Scaled(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(width))
            self.slope = nn.Parameter(torch.ones(width))

        def forward(self, x):
            return x * self.scale + x.sin() * self.slope
    """,
        "ModelNew has no self.linear.scale",
    ),
    "weights": (
        MODEL.replace("layer = nn.Linear(width, 8)", "layer = nn.Linear(width, 8).half()"),
        "ModelNew has no self.linear",
    ),
    "views": (
        NATIVE["structure"].replace("y[:, 0] * 0", "y[:, 0]"),
        "as many new tensors",
    ),
    "launches": (
        NATIVE["destination"]
        .replace("out.copy_(torch.sigmoid(x))", "kernel(x, out)")
        .replace("out.zero_()", "fill[(1,)](out)")
        + """
        import triton

        @triton.jit
        def fill(out):
            pass
        """,
        "launches kernels itself",
    ),
}


def on_cpu(text):
    assert ".device.index == torch.cuda.current_device()" in text
    on_any = text.replace(".device.index == torch.cuda.current_device()", ".device.index is None")
    return on_any.replace(".is_cuda", ".is_cpu")


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("originals")
    texts = {**CASES, "further": FURTHER, **{name: text for name, (text, _) in REFUSED.items()}}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(HEAD + textwrap.dedent(text), encoding="utf-8")
    return {name: str(folder / f"{name}.py") for name in texts}


@pytest.fixture(scope="module")
def served(paths):
    """By name the text of each joined file, or why there is none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        texts = jobs.call("inductor_programs:served", list(paths.values()))
    return dict(zip(paths, texts, strict=True))


@pytest.fixture(scope="module")
def results(paths, served, interpreted, tmp_path_factory):
    """By name how each joined file differs from its reference, and elsewhere from its original."""
    folder, cases = tmp_path_factory.mktemp("joined"), []
    for name in CASES:
        text, why = served[name]
        assert why == "", (name, why)
        (folder / f"{name}.py").write_text(on_cpu(text), encoding="utf-8")
        cases.append((paths[name], str(folder / f"{name}.py"), OTHER[name]))
    differences = interpreted(Path(__file__).parent, "inductor_programs:called", cases)
    return dict(zip(CASES, differences, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_program_runs_at_its_shape_and_the_original_elsewhere(name, results):
    assert results[name] == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_an_entry_point_that_cannot_be_served_is_refused_with_the_reason(name, served):
    text, why = served[name]
    assert text == ""
    assert REFUSED[name][1] in why


@pytest.mark.slow
def test_what_the_original_returns_keeps_its_form(served):
    returned = served["structure"][0].rstrip().splitlines()[-1].strip()
    assert returned.startswith("return (_laid_out(")
    assert ".to(torch.float64)" in returned


@pytest.mark.slow
def test_what_differs_from_what_was_compiled_goes_to_the_original(
    paths, served, interpreted, tmp_path
):
    (tmp_path / "joined.py").write_text(on_cpu(served["structure"][0]), encoding="utf-8")
    places = paths["structure"], str(tmp_path / "joined.py")
    runs = interpreted(Path(__file__).parent, "inductor_programs:runs_program", *places)
    assert [name for name, is_program in runs.items() if is_program] == ["same"]


@pytest.mark.slow
def test_a_tensor_that_was_two_arguments_may_be_two_tensors(paths, served, interpreted, tmp_path):
    (tmp_path / "joined.py").write_text(on_cpu(served["twice"][0]), encoding="utf-8")
    places = paths["twice"], str(tmp_path / "joined.py")
    error = interpreted(Path(__file__).parent, "inductor_programs:sum_of_two", *places)
    assert error < 1e-5


@pytest.mark.slow
def test_an_argument_that_the_original_returns_is_returned(paths, served, interpreted, tmp_path):
    (tmp_path / "joined.py").write_text(on_cpu(served["further"][0]), encoding="utf-8")
    places = paths["further"], str(tmp_path / "joined.py")
    returned = interpreted(Path(__file__).parent, "inductor_programs:returned_with_twice", *places)
    assert returned == (True, True)
