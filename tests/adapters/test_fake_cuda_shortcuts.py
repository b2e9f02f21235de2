"""What is answered without torch's own way of making fake tensors is as eager makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

aten = torch.ops.aten

Seen = tuple[tuple[int, ...], tuple[int, ...], int, torch.dtype, bool]

OPS: dict[str, Callable[..., Any]] = {
    "view": lambda x: aten.view(x, [4, 3, 2]),
    "flattened view": lambda x: aten._unsafe_view(x, [-1]),
    "expand": lambda x: aten.expand(x[:, :1], [4, 6]),
    "detach": aten.detach,
    "t": aten.t,
    "transpose": lambda x: aten.transpose(x, 0, -1),
    "permute": lambda x: aten.permute(x[None], [2, 0, 1]),
    "unsqueeze": lambda x: aten.unsqueeze(x, -1),
    "squeeze": lambda x: aten.squeeze(x[:, :1], 1),
    "select": lambda x: aten.select(x, 1, -2),
    "slice": lambda x: aten.slice(x, 1, 1, None, 2),
    "view of a view": lambda x: aten.select(aten.t(aten.slice(x, 0, 1)), 0, 3),
    "mm": lambda x: aten.mm(x, x.t()),
    "bmm": lambda x: aten.bmm(x[None], x.t()[None]),
    "addmm": lambda x: aten.addmm(x[0, :4], x, x.t()),
    "cat": lambda x: aten.cat([x, x[:2]], 0),
    "cat of half and whole": lambda x: aten.cat([x.bfloat16(), x], 1),
    "cat channels last": lambda x: aten.cat(
        [x.view(1, 2, 3, 4).contiguous(memory_format=torch.channels_last)] * 2, 1
    ),
    "relu in place": lambda x: aten.relu_(x.t()),
    "normal in place": lambda x: aten.normal_(x[1:]),
}


def seen(op: Callable[..., Any], x: torch.Tensor) -> Seen:
    """Shape, stride, offset, dtype and whether the storage is that of `x`."""
    new_op = op(x)
    base = x.untyped_storage()._cdata
    return [
        (
            tuple(t.shape),
            t.stride(),
            t.storage_offset(),
            t.dtype,
            t.untyped_storage()._cdata == base,
        )
        for t in (new_op if isinstance(new_op, tuple) else (new_op,))
    ]


@pytest.mark.quick("detach", "select", "addmm", "cat")
@pytest.mark.parametrize("name", OPS)
def test_a_shortcut_makes_what_eager_makes(in_child, name):
    op = OPS[name]
    got = in_child(lambda: seen(op, torch.empty(4, 6, device="cuda")))
    assert got == seen(op, torch.zeros(4, 6))


def normed(shape: tuple[int, ...], dtype: torch.dtype, training: bool, device: str) -> Any:
    x = torch.ones(shape, dtype=dtype, device=device)
    channels = [torch.ones(shape[1], dtype=dtype, device=device) for _ in range(4)]
    return aten.native_batch_norm(x, *channels, training, 0.1, 1e-5)


@pytest.mark.quick("True-shape0", "True-shape2", "False-shape1")
@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 5), (2, 6, 3, 5)])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_makes_what_eager_makes(in_child, shape, training):
    got = in_child(lambda: forms_of(normed(shape, torch.float32, training, "cuda")))
    expected = forms_of(normed(shape, torch.float32, training, "cpu"))
    assert got[: 3 if training else 1] == expected[: 3 if training else 1]


def test_batch_norm_of_half_precision_has_its_statistics_in_fp32(in_child):
    got = in_child(lambda: forms_of(normed((4, 6), torch.bfloat16, True, "cuda")))
    assert [dtype for *_, dtype in got] == [torch.bfloat16, torch.float32, torch.float32]


def forms_of(results: Any) -> list[tuple[tuple[int, ...], tuple[int, ...], torch.dtype]]:
    return [(tuple(t.shape), t.stride(), t.dtype) for t in results]


@pytest.mark.quick("<lambda>-invalid for input of size 6", "<lambda>-out of range")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: torch.nn.BatchNorm2d(6).cuda()(torch.ones(2, 5, 3, 3).cuda()), "6"),
        (lambda: torch.ones(2, 3).cuda().view(4), "invalid for input of size 6"),
        (lambda: torch.ones(2, 3).cuda().select(1, 3), "out of range"),
        (lambda: torch.cat([torch.ones(2, 3).cuda(), torch.ones(2, 4).cuda()]), "3"),
        (lambda: torch.ones(2, 3).cuda() @ torch.ones(2, 3).cuda(), "2x3 and 2x3|same reduction"),
    ],
)
def test_a_mistake_is_still_one(in_child, call, message):
    def tell() -> str:
        with pytest.raises((RuntimeError, IndexError, ValueError), match=message):
            call()
        return "raised"

    assert in_child(tell) == "raised"


def test_tensors_of_two_devices_are_refused(in_child):
    def tell() -> str:
        with pytest.raises(RuntimeError, match="device"):
            torch.cat([torch.ones(2).cuda(), torch.ones(2)])
        return "raised"

    assert in_child(tell) == "raised"
