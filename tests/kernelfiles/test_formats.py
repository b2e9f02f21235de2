"""Kernel files of every form, read in a child process as users' files are, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import solkit
from solkit.analysis.analyser import Analyser
from solkit.analysis.study import StudyPlan
from solkit.analysis.study import study as study_of
from solkit.core import AnalysisStatus, Tolerance
from solkit.errors import KernelFileError, ParamsError, ShapeError

NATIVE = """
TOLERANCE = {"rtol": 1e-3, "atol": 0}
SHAPES = [{"M": 8}, {"M": 16, "dtype": torch.float16}]
SPACE = {"BLOCK": [32, 64]}

def reference(x, y):
    return x + y

def inputs(M=4, N=32, dtype=torch.float32, device="cuda"):
    return torch.randn(M, N, dtype=dtype, device=device), torch.randn(N, device=device)

def kernel(x, y, *, BLOCK=64, num_warps=4):
    return x + y
"""


def study(path, shapes=None, params=None, reference=None):
    with Analyser("h100") as analyser:
        return study_of(analyser, StudyPlan(path, reference, shapes, params or {}, analysing=False))


# ---------------------------------------------------------------------------------- native


def test_a_native_file_is_described(write):
    path = write(NATIVE)
    loaded = solkit.load(path)
    problem, candidate = loaded.problem, loaded.candidate
    assert (problem.name, problem.path, problem.format) == ("problem", path, "native")
    assert problem.sizes == {"M": 4, "N": 32, "dtype": "float32"}
    assert problem.shapes == ({"M": 8}, {"M": 16, "dtype": "float16"})
    assert problem.tolerance == Tolerance(1e-3, 0)
    assert candidate.params == {"BLOCK": 64, "num_warps": 4}
    assert candidate.space.values == {"BLOCK": (32, 64)}


def test_a_native_file_may_use_a_class_of_a_kernelbench_name(write):
    wrapped = "return ModelNew()(x, y)".join(NATIVE.rsplit("return x + y", 1))
    own = "\nclass ModelNew(torch.nn.Module):\n    def forward(self, x, y):\n        return x + y\n"
    problem = solkit.load(write(wrapped + own)).problem
    assert (problem.format, problem.sizes["M"]) == ("native", 4)


def test_every_shape_of_the_file_gives_a_case_with_all_its_sizes(write):
    cases = study(write(NATIVE)).cases
    assert [case.shape for case in cases] == [
        {"M": 8, "N": 32},
        {"M": 16, "N": 32, "dtype": "float16"},
    ]
    assert cases[0].work.dram_write_bytes == 4 * 8 * 32
    assert cases[1].work.dram_read_bytes == 2 * 16 * 32 + 4 * 32


def test_a_given_shape_overrides_defaults(write):
    (case,) = study(write(NATIVE), shapes=({"N": 1000, "dtype": "bf16"},)).cases
    assert case.shape == {"M": 4, "N": 1000, "dtype": "bf16"}
    assert case.work.dram_read_bytes == 2 * 4 * 1000 + 4 * 1000


def test_keyword_inputs_scalars_and_written_arguments(write):
    path = write("""
OUTPUTS = ("out",)
def reference(x, *, out, scale):
    out.copy_(x * scale)
def inputs(N=64, device="cuda"):
    x = torch.randn(N, device=device)
    return (x,), {"out": torch.empty_like(x), "scale": 2.0}
""")
    (case,) = study(path).cases
    assert (case.work.dram_read_bytes, case.work.dram_write_bytes) == (256, 256)
    assert case.tolerance == Tolerance(1e-4, 1e-4)  # fp32's own


def test_written_arguments_in_lists_count_each_tensor(write):
    path = write("""
OUTPUTS = ("params",)
def reference(params, grads):
    for param, grad in zip(params, grads):
        param.sub_(grad)
def inputs(device="cuda"):
    params, grads = ([torch.randn(n, device=device) for n in (64, 100)] for _ in range(2))
    return params, grads
""")
    (case,) = study(path).cases
    assert (case.work.dram_read_bytes, case.work.dram_write_bytes) == (2 * 4 * 164, 4 * 164)


def test_params_choose_a_candidate(write):
    (case,) = study(write(NATIVE), shapes=({},), params={"BLOCK": 32}).cases
    assert case.params == {"BLOCK": 32, "num_warps": 4}


REFUSED = {
    "no reference": (
        "def inputs(device='cuda'): return torch.ones(2)\ndef kernel(x): return x",
        r"problem\.py: has no reference\(\); expected def reference",
    ),
    "no inputs": ("def reference(x): return x", r"problem\.py: has no inputs\(\)"),
    "nothing at all": ("x = 1", r"does not say what is computed.*Expected one of"),
    "syntax": ("def reference(x) return x", r"problem\.py:3: importing it raised SyntaxError"),
    "an import from a package": (
        "from .shapes import SIZES",
        r"No module named .*shapes' \(keep the file among the modules of its package",
    ),
    "an import that is missing": (
        "import nowhere_to_be_found",
        r"problem\.py:3: importing it raised ModuleNotFoundError: .*nowhere_to_be_found",
    ),
    "too few inputs": (
        "def reference(x, y):\n    return x\ndef inputs(device='cuda'): return torch.ones(2)",
        r"problem\.py:3: inputs\(\) makes 1 positional argument\(s\), but the file has "
        r"reference\(x, y\)",
    ),
    "inputs that don't fit together": (
        "def reference(x, y):\n    return x @ y\n"
        "def inputs(device='cuda'):\n"
        "    return torch.ones(2, 3, device=device), torch.ones(4, 5, device=device)",
        r"problem\.py:4: calling reference on fake inputs raised \w+: .*",
    ),
    "a size without a default": (
        "def reference(x): return x\ndef inputs(M, device='cuda'): return torch.ones(M)",
        r"problem\.py:4: inputs\(\) gives no default for 'M'",
    ),
    "an error in inputs": (
        "def reference(x): return x\ndef inputs(device='cuda'):\n    return 1 / 0",
        r"problem\.py:5: calling inputs\(\) raised ZeroDivisionError",
    ),
    "a shape that inputs() lacks": (
        "SHAPES = [{'Q': 1}]\ndef reference(x): return x\ndef inputs(M=1, device='cuda'): return 1",
        r"SHAPES has \{'Q': 1\}; expected a dict over the sizes of inputs\(\): M",
    ),
    "a tolerance that is a number": (
        "TOLERANCE = 0.1\ndef reference(x): return x\ndef inputs(device='cuda'): return 1",
        r"TOLERANCE is 0\.1; expected",
    ),
    "a tolerance that is no number": (
        "TOLERANCE = {'rtol': float('nan')}\ndef reference(x): return x\n"
        "def inputs(device='cuda'): return 1",
        r"TOLERANCE is .*nan.*; expected .* neither negative nor NaN nor infinite",
    ),
    "a negative tolerance": (
        "TOLERANCE = {'atol': -1e-3}\ndef reference(x): return x\n"
        "def inputs(device='cuda'): return 1",
        r"TOLERANCE is .*-0\.001.*; expected",
    ),
    "a space that is far too long": (
        "SPACE = {'B': list(range(200_000))}\ndef reference(x): return x\n"
        "def inputs(device='cuda'): return 1\ndef kernel(x, *, B=1): return x",
        r"SPACE\['B'\] has 200,000 values, more than 100,000: list fewer, or give a range",
    ),
    "a tolerance of words": (
        "TOLERANCE = {'rtol': 'abc'}\ndef reference(x): return x\n"
        "def inputs(device='cuda'): return 1",
        r"TOLERANCE is .*'abc'.*; expected",
    ),
    "shapes that are no list": (
        "SHAPES = 7\ndef reference(x): return x\ndef inputs(M=1, device='cuda'): return 1",
        r"SHAPES is 7; expected a list of dicts",
    ),
    "a shape of tuples": (
        "SHAPES = [{'M': (1, 2)}]\ndef reference(x): return x\n"
        "def inputs(M=1, device='cuda'): return 1",
        r"SHAPES has .*with numbers, words and dtypes for values",
    ),
    "a space of parameters that the kernel lacks": (
        "SPACE = {'BLOCKX': [1]}\ndef reference(x): return x\n"
        "def inputs(device='cuda'): return torch.ones(2, device=device)\n"
        "def kernel(x, *, BLOCK=1): return x",
        r"problem\.py:6: SPACE names BLOCKX, which kernel\(x, \*, BLOCK=1\) does not take",
    ),
    "an interrupt of its own": (
        "raise KeyboardInterrupt",
        r"problem\.py:3: importing it raised Key",
    ),
    "outputs that are no arguments": (
        "OUTPUTS = ('z',)\ndef reference(x): return x\ndef inputs(device='cuda'): return 1",
        r"problem\.py:4: OUTPUTS names 'z'; expected an argument of reference\(\): x",
    ),
    "a reference without a tensor": (
        "def reference(x): return 3\ndef inputs(device='cuda'): return torch.ones(2)",
        r"reference returns no tensor",
    ),
    "a file that exits": (
        "import sys; sys.exit(3)",
        r"problem\.py:3: importing it raised SystemExit",
    ),
}


@pytest.mark.quick(
    "an import that is missing", "a tolerance that is a number", "a tolerance of words", "no inputs"
)
@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_file_is_refused_with_its_line(write, name):
    body, message = REFUSED[name]
    with pytest.raises(KernelFileError, match=message):
        study(write(body))


def test_an_error_in_a_module_that_the_file_imports_names_the_line_there(write):
    library = write("table = {}\ntable['no such key']\n", "stranger_library.py")
    path = write("import stranger_library\n" + NATIVE)
    line = 1 + next(
        i for i, text in enumerate(Path(library).read_text().splitlines()) if "no such" in text
    )
    with pytest.raises(KernelFileError, match=r"raised KeyError: 'no such key' \(in ") as fault:
        study(path)
    assert fault.value.message.endswith(f"stranger_library.py:{line})")


def test_a_file_with_a_bare_kernel_is_told_what_writes_the_rest(write):
    with pytest.raises(KernelFileError, match=r"`solkit init /.*bare\.py` writes a file"):
        study(write("import triton\n@triton.jit\ndef copy(x): pass\n", "bare.py"))


def test_a_missing_file_is_named():
    with pytest.raises(KernelFileError, match=r"nowhere\.py: no such file"):
        solkit.load("nowhere.py")


def test_a_file_that_kills_its_process_is_an_error_that_names_it(write):
    path = write("import os; os._exit(7)")
    for read in (solkit.load, lambda path: solkit.bound(path, "h100")):
        with pytest.raises(KernelFileError, match=r"problem\.py: .*with exit code 7"):
            read(path)
    assert study(write(NATIVE, "good.py")).cases  # and the next one is served


def test_a_candidate_that_kills_its_process_costs_only_the_analysis(write):
    body = NATIVE.replace("return x + y\n", "import os; os._exit(7)\n").replace(
        "import os; os._exit(7)", "return x + y", 1
    )
    report = solkit.score(write(body), device="h100", shapes=[{}])
    (result,) = report.results
    assert result.analysis.status is AnalysisStatus.NOT_CAPTURED
    assert "exit code 7" in result.analysis.notes[0]
    assert result.bound.time_ms > 0


def test_an_unknown_size_names_the_known_ones(write):
    with pytest.raises(ShapeError, match=r"has no size 'Q' \(given as Q=3\); its sizes are: M, N"):
        study(write(NATIVE), shapes=({"Q": 3},))


def test_a_bad_dtype_is_refused(write):
    with pytest.raises(ShapeError, match="'float99' is not a dtype"):
        study(write(NATIVE), shapes=({"dtype": "float99"},))


def test_dtypes_and_objects_as_defaults(write):
    path = write("""
def reference(x): return x
def inputs(N=4, device="cuda"): return torch.ones(N, device=device)
def kernel(x, *, acc=torch.float32, f=lambda x: x, BLOCK=2):
    assert acc in (torch.float32, torch.float16), acc
    return f(x)
""")
    assert solkit.load(path).candidate.params == {"acc": "float32", "BLOCK": 2}
    assert study(path, params={"acc": "float16"}).cases[0].params["acc"] == "float16"


def test_an_unknown_parameter_names_the_known_ones(write):
    with pytest.raises(ParamsError, match=r"no parameter 'TILE'.*: BLOCK, num_warps"):
        study(write(NATIVE), params={"TILE": 3})


# ----------------------------------------------------------------------------- KernelBench

MODEL = """
batch = 8
class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, 16)
    def forward(self, x):
        return self.linear(x)
def get_inputs():
    return [torch.rand(batch, 32)]
def get_init_inputs():
    return [32]
"""
MODEL_NEW = MODEL[MODEL.index("class") : MODEL.index("def get_inputs")].replace(
    "Model(", "ModelNew("
)


def test_a_kernelbench_reference_alone(write):
    path = write(MODEL)
    loaded = solkit.load(path)
    assert (loaded.problem.format, loaded.candidate) == ("kernelbench", None)
    assert loaded.problem.sizes == {"batch": 8}
    (case,) = study(path).cases
    assert case.work.operations["contraction.fp32"] == 2 * 8 * 32 * 16
    assert case.work.dram_read_bytes == 4 * (8 * 32 + 32 * 16 + 16)


def test_a_kernelbench_pair_in_one_file_and_in_two(write):
    one = write(MODEL + MODEL_NEW)
    assert solkit.load(one).candidate.name == "ModelNew"
    candidate, reference = write(MODEL_NEW, "new.py"), write(MODEL, "model.py")
    loaded = solkit.load(candidate, reference=reference)
    assert (loaded.problem.path, loaded.candidate.path) == (reference, candidate)


def test_a_kernelbench_size_is_a_number_at_the_top_of_the_file(write):
    (case,) = study(write(MODEL), shapes=({"batch": 4},)).cases
    assert case.work.dram_write_bytes == 4 * 4 * 16


def test_a_candidate_without_its_reference_says_what_to_do(write):
    with pytest.raises(KernelFileError, match=r"has no Model.*--reference"):
        study(write(MODEL_NEW))


# ------------------------------------------------------------------------ Triton with LAUNCH

TRITON = """
import triton
import triton.language as tl

@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x, y = tl.load(x_ptr + offsets, mask=mask), tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)
"""
LAUNCH = """
LAUNCH = {
    "args": {"x_ptr": "fp32[N]", "y_ptr": "fp32[N]", "out_ptr": "fp32[N]", "n": "N"},
    "outputs": ["out_ptr"],
    "sizes": {"N": 4096},
    "constants": {"BLOCK": 1024, "num_warps": 4},
    "grid": ["cdiv(N, BLOCK)"],
}
"""


def test_a_triton_module_with_a_launch_description(write):
    result = study(write(TRITON + LAUNCH), shapes=({"N": 1000},))
    assert result.kernel.problem.format == "triton"
    assert result.kernel.candidate.params == {"BLOCK": 1024, "num_warps": 4}
    (case,) = result.cases
    assert (case.work.dram_read_bytes, case.work.dram_write_bytes) == (8000, 4000)
    assert case.work.hard_read_bytes == case.work.hard_write_bytes == 0  # nothing is sure
    assert case.work.unmodelled == ("reference",)


def test_a_reference_beside_it_makes_it_a_whole_problem(write):
    reference = "def reference(x, y, n):\n    return x + y\n"
    (case,) = study(write(TRITON + LAUNCH + reference)).cases
    assert case.work.operations == {"fp32": 4096}
    assert case.work.unmodelled == ()


def test_the_description_may_stand_beside_an_unchanged_module(write, tmp_path):
    path = write(TRITON, "plain.py")
    (tmp_path / "plain.launch.toml").write_text(
        'outputs = ["out_ptr"]\ngrid = ["cdiv(N, BLOCK)"]\n[sizes]\nN = 64\n'
        '[constants]\nBLOCK = 64\n[args]\nx_ptr = "bf16[N]"\ny_ptr = "bf16[N]"\n'
        'out_ptr = "bf16[N]"\nn = "N"\n'
    )
    (case,) = study(path).cases
    assert case.work.dram_bytes == 3 * 2 * 64


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"grid"', '"gird"', r"lacks \['grid'\] and has unknown \['gird'\]; its keys are: args"),
        ("cdiv(N, BLOCK)", "cdiv(Q, BLOCK)", r"cannot evaluate 'cdiv\(Q, BLOCK\)'.*N, BLOCK"),
        ("cdiv(N, BLOCK)", "__import__('os')", "cannot evaluate"),
        ('"x_ptr": "fp32[N]"', '"x_ptr": "fp99[N]"', "argument x_ptr is 'fp99"),
        ('"n": "N"', '"m": "N"', r"names 'm'; add_kernel takes: x_ptr, y_ptr, out_ptr, n, BLOCK"),
    ],
)
def test_a_bad_launch_description_is_refused(write, old, new, message):
    with pytest.raises(KernelFileError, match=message):
        study(write(TRITON + LAUNCH.replace(old, new)))


@pytest.mark.slow
def test_a_launch_that_is_no_dict_or_forgets_an_argument(write):
    with pytest.raises(KernelFileError, match="LAUNCH is 3; expected a dict"):
        study(write(TRITON + "LAUNCH = 3"))
    with pytest.raises(KernelFileError, match="launching the kernel on fake inputs raised"):
        study(write(TRITON + LAUNCH.replace(', "n": "N"', "")))


def test_constants_of_the_launch_are_the_parameters(write):
    path = write(TRITON + LAUNCH)
    assert study(path, params={"BLOCK": 512}).cases[0].params["BLOCK"] == 512
    with pytest.raises(ParamsError, match="no constant 'TILE'; it has: BLOCK, num_warps"):
        study(path, params={"TILE": 1})
