"""The examples compute what they say (through Triton's interpreter), and their parts agree."""

import importlib.util
import inspect
from pathlib import Path

import pytest

triton = pytest.importorskip("triton", reason="triton is there on Linux only")

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
NATIVE = sorted(path.stem for path in EXAMPLES.glob("*.py"))

# The rounding of one result, with a little for sums in another order.
LARGEST_ERROR = {"float32": 3e-6, "float16": 1e-3}


def version(module):
    return tuple(int(part) for part in module.__version__.split(".")[:2])


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def errors(interpreted):
    return interpreted(HERE, "interpreted:errors", EXAMPLES)


@pytest.mark.parametrize("name", [*NATIVE, "kernelbench"])
def test_numerics(name, errors):
    cases = {label: error for label, error in errors.items() if label.split()[0] == name}
    assert cases
    for label, (error, same_kind) in cases.items():
        assert same_kind, f"{label}: dtype or shape differs from the reference's"
        assert error < LARGEST_ERROR[label.split()[-1]], f"{label}: off by {error:.2g}"


@pytest.fixture(scope="module", params=NATIVE)
def module(request):
    return load(request.param)


def defaults(function):
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}


def test_first_line_says_what_it_is(module):
    first, *rest = module.__doc__.splitlines()
    assert first.endswith(".")
    assert not rest or rest[0] == ""


def test_shapes_are_sizes(module):
    sizes = set(defaults(module.inputs)) - {"dtype", "device"}
    assert 2 <= len(module.SHAPES) <= 3
    assert all(set(shape) == sizes for shape in module.SHAPES)


def test_first_shape_is_the_default(module):
    assert module.SHAPES[0].items() <= defaults(module.inputs).items()


def test_some_shape_is_awkward(module):
    assert any(any(size % 16 for size in shape.values() if size > 16) for shape in module.SHAPES)


def test_space_is_of_the_kernels_parameters_and_holds_the_defaults(module):
    chosen = defaults(module.kernel)
    assert set(module.SPACE) == set(chosen)
    assert all(chosen[name] in values for name, values in module.SPACE.items())


def test_defaults_are_valid_at_every_shape(module):
    chosen = defaults(module.kernel)
    assert all(module.valid(chosen, shape) for shape in module.SHAPES)


def test_tolerance(module):
    assert set(module.TOLERANCE) == {"rtol", "atol"}
    assert all(0 < value < 0.1 for value in module.TOLERANCE.values())
