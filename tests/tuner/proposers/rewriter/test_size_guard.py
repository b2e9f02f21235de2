"""Small inputs are left to the original launches."""

from __future__ import annotations

import pytest
from naive_kernels import SOFTMAX
from rewriting import HEADER, variants

from solkit.core import Binding, Facts, KernelAnalysis, Launch, TensorLayout
from solkit.errors import InputError
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.size_guard import (
    SizeBound,
    bounds_of,
    tensor_sizes,
    with_original_outside,
)
from solkit.tuner.proposers.rewriter.whole_row import WholeRow

ROWS = {"M": 4, "N": 200}


@pytest.fixture(scope="module")
def whole_rows():
    (source,) = variants(WholeRow(), SOFTMAX, **ROWS)
    return source


def joined(source, original=HEADER + SOFTMAX, params=None, least=801):
    bounds = [SizeBound("x.numel()", least)]
    return with_original_outside(source, original, params or {}, bounds)


def test_a_file_does_what_the_original_did_below_a_size(whole_rows):
    source = joined(whole_rows)
    launcher = source[source.index("def kernel(") :].splitlines()
    assert launcher[1:3] == ["    if x.numel() < 801:", "        return kernel_before(x)"]
    original = SOFTMAX[SOFTMAX.index("def kernel(") :]
    assert original.replace("def kernel(", "def kernel_before(").strip() in source


def test_functions_that_both_share_are_not_copied(whole_rows):
    assert joined(whole_rows).count("@triton.jit") == whole_rows.count("@triton.jit")


def test_functions_that_differ_get_another_name(whole_rows):
    name = next(line for line in SOFTMAX.splitlines() if line.startswith("def softmax"))
    changed = whole_rows.replace("tl.exp(", "tl.math.exp(")
    source = joined(changed)
    assert changed != whole_rows
    assert name.replace("(", "_before(", 1) in source


@pytest.mark.parametrize("least", [1, 801])
@pytest.mark.slow
def test_both_ways_are_right(whole_rows, least, is_right):
    assert is_right(joined(whole_rows, least=least), SOFTMAX, **ROWS)


def test_launchers_that_differ_are_not_joined(whole_rows):
    other = (HEADER + SOFTMAX).replace("def kernel(x", "def kernel(x, out=None")
    with pytest.raises(InputError, match="one by one"):
        joined(whole_rows, other)


def test_a_launcher_that_is_not_at_the_top_of_its_file_is_named():
    below = "if True:\n" + "".join(f"    {line}\n" for line in SOFTMAX.splitlines())
    for source in ("import torch\n", HEADER + below):
        with pytest.raises(InputError, match="no function 'kernel' is defined at the top"):
            joined(source)


def test_a_model_in_kernelbenchs_form_is_joined_too():
    model = (HEADER + SOFTMAX).replace("def kernel(", "def launched(")
    model += "\n\nclass ModelNew(torch.nn.Module):\n"
    model += "    def forward(self, x):\n        return launched(x)\n"
    source = joined(canonical_form(model), model)
    assert "return kernel_before(x)" in source
    assert source.count("class ModelNew") == 1


def test_functions_that_a_later_statement_changes_are_not_joined(whole_rows):
    again = "softmax_kernel = triton.jit(softmax_kernel.fn)\n\n\ndef kernel("
    original = (HEADER + SOFTMAX).replace("def kernel(", again)
    with pytest.raises(InputError, match="'softmax_kernel' is defined twice"):
        joined(whole_rows.replace("def kernel(", again), original)


def test_nothing_is_joined_where_no_size_is_known(whole_rows):
    with pytest.raises(InputError, match="size of a tensor"):
        with_original_outside(whole_rows, HEADER + SOFTMAX, {}, [])


# ------------------------------------------------------------------------------- the bounds


def sizes(**counts):
    return {f"{name}.numel()": count for name, count in counts.items()}


def conditions(here, *trials):
    return [bound.condition for bound in bounds_of(here, trials)]


HERE = sizes(x=4096 * 2048, w=2048 * 1024)


def test_each_tensor_must_be_as_large_as_one_that_was_tried():
    trials = [(sizes(x=1000, w=2048 * 4096), False), (sizes(x=4096 * 4096, w=500), False)]
    assert conditions(HERE, *trials) == ["x.numel() < 1000", "w.numel() < 500"]


def test_tensors_of_equal_sizes_are_compared_once():
    here, there = sizes(q=900, k=900, v=900, o=30), sizes(q=600, k=600, v=600, o=20)
    assert conditions(here, (there, False)) == ["q.numel() < 600", "o.numel() < 20"]


def test_at_most_three_tensors_are_compared():
    here, there = sizes(a=10, b=90, c=50, d=70), sizes(a=9, b=8, c=7, d=6)
    assert conditions(here, (there, False)) == [
        "b.numel() < 8",
        "d.numel() < 6",
        "c.numel() < 7",
    ]


def test_what_was_slower_at_a_larger_size_is_left_to_the_original():
    larger = sizes(x=4096 * 8192, w=2048 * 1024)
    assert conditions(HERE, (larger, True)) == [
        "x.numel() != 8388608",
        "w.numel() < 2097152",
    ]


def test_the_bound_that_loses_the_fewest_good_sizes_is_narrowed():
    good = [(sizes(x=4096 * 8192, w=10), False), (sizes(x=10, w=2048 * 1024), False)]
    slow = sizes(x=4096 * 4096, w=2048 * 2048)  # in between by x, larger than any by w
    assert conditions(HERE, *good, (slow, True)) == [
        "x.numel() < 10",
        "w.numel() < 10 or w.numel() > 2097152",
    ]


def rows(count, stride):
    """Sizes of a tensor of rows."""
    sizes = {"x.numel()": count * stride, "x.shape[0]": count, "x.shape[1]": stride}
    return {**sizes, "x.stride(0)": stride, "x.stride(1)": 1, "x.dim()": 2}


RANK, UNEVEN = "x.dim() != 2", "x.stride(0) % 16 != 0"


def test_rows_of_uneven_strides_are_left_to_the_original_where_only_they_were_slower():
    here, slow, good = rows(8192, 768), rows(5121, 481), rows(1024, 3072)
    assert conditions(here, (slow, True)) == ["x.numel() < 6291456", RANK, UNEVEN]
    assert conditions(here, (slow, True), (good, False)) == ["x.numel() < 3145728", RANK, UNEVEN]
    bounds = bounds_of(here, [(slow, True), (rows(16384, 96), False)])
    assert bounds[-1].condition == UNEVEN  # the number of elements would not tell them apart
    assert not all(bound.holds(slow) for bound in bounds)
    assert all(bound.holds(rows(5121, 480)) for bound in bounds)


@pytest.mark.parametrize(
    ("here", "trials"),
    [
        (rows(8192, 767), [(rows(5121, 481), True)]),  # it is fast with such a stride
        (rows(8192, 768), [(rows(5121, 481), True), (rows(4096, 511), False)]),
        (rows(8192, 768), [(rows(5121, 480), True)]),
        (rows(8192, 768), [(rows(5121, 481), False)]),
    ],
)
def test_strides_are_no_bound_where_uneven_ones_do_not_decide(here, trials):
    assert UNEVEN not in conditions(here, *trials)


def test_a_tensors_smallest_uneven_stride_is_compared_and_those_of_equal_tensors_once():
    here = {f"{t}.stride({n})": size for t in "qkv" for n, size in ((0, 65536), (1, 64))}
    slow = {f"{t}.stride({n})": size for t in "qkv" for n, size in ((0, 2561 * 63), (1, 63))}
    assert conditions(here, (slow, True)) == ["q.stride(1) % 16 != 0"]


def test_flat_elements_are_told_apart_by_what_divides_them_before_their_number_is():
    good, slow = sizes(x=512 * 2048, w=2048 * 1024), sizes(x=2561 * 1281, w=2048 * 1024)
    assert conditions(HERE, (good, False), (slow, True)) == [
        "x.numel() < 1048576 or x.numel() % 16 != 0",
        "w.numel() < 2097152",
    ]


def test_a_tensor_of_one_element_is_not_compared():
    assert conditions(sizes(x=900, scale=1), (sizes(x=600, scale=1), False)) == ["x.numel() < 600"]


def test_extents_tell_apart_what_has_as_many_elements():
    here = {"x.numel()": 8192, "x.shape[0]": 64, "x.shape[1]": 128}
    slow = {"x.numel()": 8192, "x.shape[0]": 2, "x.shape[1]": 4096}
    (elements, extent) = bounds_of(here, [(slow, True)])
    assert (elements.condition, elements.holds(slow)) == ("x.numel() < 8192", True)
    assert (extent.holds(here), extent.holds(slow)) == (True, False)


def test_what_no_size_tells_apart_stays_inside():
    assert all(bound.holds(HERE) for bound in bounds_of(HERE, [(dict(HERE), True)]))


def test_a_tensor_whose_size_is_unknown_somewhere_is_no_bound():
    assert conditions(HERE, (sizes(w=7), False)) == ["w.numel() < 7"]
    assert conditions({}, (sizes(w=7), False)) == []


# ------------------------------------------------------------------------------- sizes


def launched(name, **shapes):
    """A launch whose tensors have these shapes."""
    arguments = {
        key: Binding("tensor", tensor=TensorLayout("fp32", 4, shape, (1,) * len(shape)))
        for key, shape in shapes.items()
    }
    return KernelAnalysis(Facts(Launch(name, (1, 1, 1), 4, 3, arguments=arguments)))


VIEWS = """
def kernel(x, w, bias=None, extra=3):
    rows = x.view(-1, x.shape[-1])
    part = w[:, :8]
    softmax_kernel[(4,)](rows, part, bias, BLOCK=16)
    softmax_kernel[(4,)](w.contiguous(), part, bias, BLOCK=32)
"""


def test_sizes_are_those_of_whole_tensors_that_every_call_has():
    source = HEADER + SOFTMAX[: SOFTMAX.index("def kernel(")] + VIEWS
    record = launched("softmax_kernel", x_ptr=(6, 4), out_ptr=(3, 8), N=(5,))
    # views have as many elements, parts need not, and a tensor with a default may be None
    assert tensor_sizes(source, [record]) == {"x.numel()": 24, "w.numel()": 24}


def test_a_tensor_that_is_passed_itself_has_extents_and_strides():
    source = HEADER + SOFTMAX
    record = launched("softmax_kernel", x_ptr=(6, 4), out_ptr=(6, 4))
    expected = {"x.numel()": 24, "x.shape[0]": 6, "x.shape[1]": 4}
    expected |= {"x.dim()": 2, "x.stride(0)": 1, "x.stride(1)": 1}
    assert tensor_sizes(source, [record]) == expected
    assert tensor_sizes(source, []) == tensor_sizes("x = (", [record]) == {}


def test_what_is_handed_on_tells_sizes_whatever_launches_get():
    source = HEADER + SOFTMAX[: SOFTMAX.index("def kernel(")]
    source += "def kernel(x, parts, w, eps=None):\n    part = x.clone()\n"
    source += "    softmax_kernel[(4,)](part, w, 3)\n"
    record = launched("softmax_kernel", x_ptr=(6, 4), out_ptr=(3, 8))
    inputs = {"x": ((6, 3), (4, 1)), "parts[0]": ((7,), (2,)), "eps": ((9,), (1,))}
    sizes = tensor_sizes(source, [record], inputs)
    assert {size for size in sizes if size.startswith("w")} >= {"w.numel()", "w.dim()"}
    assert {size: count for size, count in sizes.items() if not size.startswith("w")} == {
        **{"x.numel()": 18, "x.dim()": 2, "x.shape[0]": 6, "x.shape[1]": 3},
        **{"x.stride(0)": 4, "x.stride(1)": 1},
        **{"parts[0].numel()": 7, "parts[0].dim()": 1},
        **{"parts[0].shape[0]": 7, "parts[0].stride(0)": 2},
    }


def test_a_tensor_of_several_sizes_has_none():
    records = [launched("softmax_kernel", x_ptr=(6, 4)), launched("softmax_kernel", x_ptr=(6, 2))]
    assert "x.numel()" not in tensor_sizes(HEADER + SOFTMAX, records)
