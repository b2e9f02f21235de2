from __future__ import annotations

import pytest
import torch

from solkit.measure.anti_cheating.delegation import Operators, by_kernels, by_operators

POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add>"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>"
GEMM = "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT"


@pytest.mark.parametrize(
    ("kernels", "is_library"),
    [
        ([POINTWISE], True),
        (["sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"], True),
        ([GEMM], True),
        (["ampere_sgemm_128x64_nn", "void cublasLt::splitKreduce_kernel<32, 16>"], True),
        (["void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64>"], True),
        (["void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits>"], True),
        (["cudnn_generated_fort_native_sdpa_sm90_flash_fprop"], True),
        (["Memcpy DtoD (Device -> Device)"], True),
        (["Memset (Device)", "matmul_kernel"], False),
        (["void cutlass::device_kernel<flash::FlashAttnFwdSm90>"], False),
        (["_gate", POINTWISE], False),
        (["my_gemm_kernel(float const*, float*)"], False),
        (["triton_poi_fused_add_relu_0"], False),
        ([], False),
    ],
)
def test_kernels(kernels, is_library):
    results = by_kernels(dict.fromkeys(kernels, 1.0))
    assert (results is not None) is is_library
    assert results is None or (results.is_proof and kernels[0][:40] in results.evidence)


@pytest.mark.parametrize(
    ("kernels_ms", "is_library"),
    [
        ({"mine": 0.001, GEMM: 1.0}, True),  # for the eye
        ({"mine": 0.2, GEMM: 1.0}, False),
        ({"mine": 0.001, FILL: 1.0, "Memset (Device)": 1.0}, False),  # a large workspace
        ({"mine": 0.001, FILL: 1.0, POINTWISE: 0.1}, True),
    ],
)
def test_a_kernel_of_its_own_must_take_part_in_the_work(kernels_ms, is_library):
    results = by_kernels(kernels_ms)
    assert (results is not None) is is_library
    assert results is None or "its own kernels took" in results.evidence


a, image = torch.randn(8, 8), torch.randn(1, 3, 8, 8)
DELEGATING = {
    "mm": lambda: a @ a,
    "linear": lambda: torch.nn.functional.linear(a, a, a[0]),
    "einsum": lambda: torch.einsum("ij,jk->ik", a, a),
    "mv": lambda: a @ a[0],
    "dot": lambda: torch.dot(a[0], a[1]),
    "bmm": lambda: torch.bmm(a[None], a[None]),
    "conv": lambda: torch.nn.functional.conv2d(image, torch.randn(4, 3, 3, 3)),
    "attention": lambda: torch.nn.functional.scaled_dot_product_attention(*[a[None, None]] * 3),
    "softmax": lambda: a.softmax(-1),
    "log_softmax": lambda: torch.log_softmax(a, -1),
    "layer_norm": lambda: torch.nn.functional.layer_norm(a, (8,)),
    "batch_norm": lambda: torch.nn.functional.batch_norm(image, None, None, training=True),
    "group_norm": lambda: torch.nn.functional.group_norm(image, 3),
    "cumsum": lambda: a.cumsum(0),
    "sort": lambda: a.sort(),
    "topk": lambda: a.topk(2),
    "max_pool": lambda: torch.nn.functional.max_pool2d(image, 2),
    "interpolate": lambda: torch.nn.functional.interpolate(image, scale_factor=2.0),
    "rnn": lambda: torch.nn.GRU(8, 8)(a)[0],
}
HONEST = {
    "allocating": lambda: (torch.empty_like(a), a.new_zeros(3), torch.full((3,), 1.0)),
    "viewing": lambda: a.view(64).reshape(4, 16).T.unsqueeze(0).expand(2, 16, 4)[0, 1:],
    "copying": lambda: (a.T.contiguous(), a.clone(), torch.cat([a, a])),
    "casting": lambda: a.to(torch.bfloat16).float(),
    "padding": lambda: torch.nn.functional.pad(a, (0, 3)),
    "finishing a split sum": lambda: a.view(2, 4, 8).sum(0),
    "activating": lambda: torch.relu(a).mul_(2),
    "asking": lambda: bool((a > 0).any()) and a.amax().item(),
    "gathering": lambda: a[torch.tensor([1, 2])],
    "drawing": lambda: torch.randn_like(a),
}


@pytest.mark.parametrize("name", DELEGATING)
def test_operators_that_do_the_work(name):
    with Operators() as operators:
        DELEGATING[name]()
    results = by_operators(operators.names)
    assert results is not None, operators.names
    assert results.is_proof
    assert "aten." in results.evidence


@pytest.mark.parametrize("name", HONEST)
def test_operators_beside_a_kernel_of_ones_own(name):
    with Operators() as operators:
        HONEST[name]()
    assert operators.names
    assert by_operators(operators.names) is None, operators.names
