"""Ops called again from what a profiler recorded of them."""

from __future__ import annotations

import functools

import pytest

from solkit.profiling.replay import UnknownOpError, _list_element_type, _replay_signature
from solkit.profiling.trace_reader import Signature

F, BF, L = "float", "c10::BFloat16", "long int"
N = 1024


def signature(name, *arguments):
    """From (type, shape or text) pairs, contiguous unless (type, shape, strides)."""
    shapes, types, strides, values = [], [], [], []
    for kind, *rest in arguments:
        is_tensor = rest and isinstance(rest[0], tuple)
        shapes.append(rest[0] if is_tensor else ())
        strides.append(rest[1] if len(rest) > 1 else ())
        values.append("" if is_tensor or not rest else rest[0])
        types.append(kind)
    return Signature(name, tuple(shapes), tuple(types), tuple(strides), tuple(values))


CASES = {
    "mm": (signature("aten::mm", (BF, (N, 2 * N)), (BF, (2 * N, 512))), ()),
    "half of a row": (signature("aten::relu", (F, (N, N), (2 * N, 1))), ()),
    "expanded": (signature("aten::relu", (F, (N, N), (0, 1))), ()),
    "python number": (signature("aten::mul", (BF, (N, N)), ("double", ())), ()),
    "in place": (signature("aten::add_", (F, (N,)), (F, (N,)), ("Scalar", "1")), ()),
    "copy": (signature("aten::copy_", (BF, (N,)), (F, (N,)), ("Scalar", "False")), ()),
    "no tensors but lists": (
        signature("aten::cat", ("TensorList", ((N, 4), (N, 6))), ("Scalar", "1")),
        ("void CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, 4>()",),
    ),
    "foreach": (
        signature("aten::_foreach_mul_", ("TensorList", ((N,), (3,))), ("Scalar", "0.9")),
        ("void multi_tensor_apply_kernel<Meta<1>, BinaryOpScalarFunctor<double, 1>, x>()",),
    ),
    "dtype by number": (
        signature(
            "aten::sum", (BF, (N, N)), ("ScalarList", "[1]"), ("Scalar", "False"), ("Scalar", "6")
        ),
        (),
    ),
    "attention": (
        signature(
            "aten::_scaled_dot_product_flash_attention",
            *((BF, (2, 8, N, 64)),) * 3,
            *(("Scalar", "0."), ("Scalar", "True"), ("Scalar", "False"), ("Scalar", "0.125")),
        ),
        (),
    ),
    "attention backward": (
        signature(
            "aten::_scaled_dot_product_flash_attention_backward",
            *((BF, (2, 8, N, 64)),) * 5,
            *((F, (2, 8, N)), ("",), ("",), ("Scalar", "1024"), ("Scalar", "1024")),
            *(("Scalar", "0."), ("Scalar", "False"), (L, (2,)), (L, ()), ("Scalar", "0.125")),
        ),
        (),
    ),
    "out": (
        signature(
            "aten::gather",
            *((BF, (50 * N, N)), ("Scalar", "0"), (L, (N, N), (1, 0)), ("Scalar", "False")),
            (BF, (N, N)),
        ),
        (),
    ),
    "out of one of many": (signature("aten::mul", *((F, (N, N)),) * 3), ()),
    "memory-efficient backward": (
        signature(
            "aten::_scaled_dot_product_efficient_attention_backward",
            *((BF, (2, 8, N, 64)),) * 4,
            *((BF, (2, 8, N, N)), (BF, (2, 8, N, 64)), (F, (2, 8, N)), (L, ()), (L, ())),
            *(("Scalar", "0."), ("ScalarList", "[True, True, True, False]"), ("Scalar", "True")),
            *(("",),),
        ),
        (),
    ),
    "triton": (
        Signature("triton_poi_fused_0", ((N,), (N, N), ()), (BF, F, "Scalar"), is_triton=True),
        (),
    ),
    # what cannot be
    "old trace": (Signature("aten::sum", ((N, N), (), (), ()), (F, "", "Scalar", "")), ()),
    "index": (signature("aten::index", (F, (N, N)), ("",)), ()),
    "list of what": (signature("aten::cat", ("TensorList", ((N,),)), ("Scalar", "0")), ()),
    "unknown op": (signature("vllm::unified", (F, (N,))), ()),
    "other arguments": (signature("aten::mm", (F, (N, N))), ()),
    "no inputs": (Signature("aten::mm", has_inputs=False), ()),
    "shapes that do not fit": (signature("aten::mm", (F, (2, 3)), (F, (4, 5))), ()),
    "a Python name": (signature("aten::__class__"), ()),
    "no op at all": (signature("Optimizer.step#Adam.step"), ()),
    "a tensor for a scalar": (signature("aten::relu", ("Scalar", "1")), ()),
    "nothing": (signature("aten::detach", (F, (N,))), ()),
}


@functools.cache
def all_replayed(in_child):
    return dict(zip(CASES, in_child(lambda: [_replay_signature(*case) for case in CASES.values()])))


@pytest.fixture
def answers(in_child):
    """What became of each case: one child for all of them."""
    return all_replayed(in_child)


BYTES = {
    "half of a row": 2 * 4 * N * N,
    "expanded": 4 * N + 4 * N * N,
    "python number": 2 * 2 * N * N,
    "in place": 3 * 4 * N,
    "copy": (2 + 4) * N,
    "no tensors but lists": 2 * 2 * 10 * N,
    "foreach": 2 * 8 * (N + 3),
    "dtype by number": 2 * N * N + 4 * N,
    "mm": 2 * (2 * N * N + 2 * N * 512 + N * 512),
    "out": 2 * 2 * N * N + 8 * N,  # rows that are gathered, not all 50 N
    "out of one of many": 3 * 4 * N * N,
    "triton": 2 * N + 4 * N * N,
    "attention": 4 * 2 * (2 * 8 * N * 64),
}


@pytest.mark.parametrize("case", BYTES)
def test_bytes_are_those_of_the_op(answers, case):
    assert answers[case].work.dram_bytes == BYTES[case]
    assert answers[case].reason == ""


def test_operations_are_those_of_the_op(answers):
    assert answers["mm"].work.operations == {"contraction.bf16": 2 * N * 2 * N * 512}
    pairs = 2 * 8 * N * (N + 1) // 2  # causal
    contraction = answers["attention"].work.operations["contraction.bf16"]
    assert contraction == 2 * 2 * 64 * pairs
    backward = answers["attention backward"].work.operations["contraction.bf16"]
    assert backward == 5 * 2 * 64 * 2 * 8 * N * N  # not causal, five products
    masked = answers["memory-efficient backward"].work
    assert masked.operations["contraction.bf16"] == 5 * 2 * 64 * pairs


def test_what_is_assumed_of_a_triton_kernel_is_said(answers):
    assert answers["triton"].work.assumptions[0].startswith("What a Triton kernel computes")


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("old trace", "its argument 'keepdim' is not in the trace"),
        ("index", "its argument 'indices' is not in the trace"),
        ("list of what", "the dtypes of its list of tensors are not in the trace"),
        ("unknown op", "this torch has no such op, or one with other arguments"),
        ("other arguments", "this torch has no such op, or one with other arguments"),
        ("no inputs", "profile with record_shapes=True"),
        ("shapes that do not fit", "it fails on fake tensors"),
        ("a Python name", "no such op"),
        ("no op at all", "no such op"),
        ("a tensor for a scalar", "its argument 'self' is recorded as Scalar, not Tensor"),
        ("nothing", "neither computes nor moves anything"),
    ],
)
def test_what_cannot_be_replayed_says_why(answers, case, said):
    assert answers[case].work is None
    assert said in answers[case].reason


def test_a_list_of_two_types_is_none():
    kernels = [f"multi_tensor_apply_kernel<M<1>, AFunctor<{t}, 1>" for t in ("float", "double")]
    with pytest.raises(UnknownOpError):
        _list_element_type(kernels)
    assert _list_element_type(kernels[:1] * 2) == "float"
