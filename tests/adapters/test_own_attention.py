"""Attention as a kernel that is written for it: the same values in Triton's interpreter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from solkit.processes import jobs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler_loaded")]

HEAD = """
import torch
import torch.nn.functional as F

half, wide = torch.float16, torch.float32
low = float("-inf")


def places(x, axis=-2):
    return torch.arange(x.shape[axis], device=x.device)


def weigh(s, v):
    return torch.softmax(s, -1).to(v.dtype) @ v

"""
PLAIN = "(2, 3, 70, 16), (2, 3, 70, 16), (2, 3, 70, 16)"
CASES = {  # a body of q, k, v and the shapes
    "odd sizes": ("weigh(q @ k.mT * 0.2, v)", "(2, 3, 50, 40), (2, 3, 70, 40), (2, 3, 70, 24)"),
    "causal": ("weigh((q @ k.mT).masked_fill(places(q)[:, None] < places(k), low), v)", PLAIN),
    "window": (
        "weigh(torch.where((places(q)[:, None] - places(k)).abs() < 20, q @ k.mT, -1e9), v)",
        PLAIN,
    ),
    "no key": ("weigh((q @ k.mT).masked_fill(places(q)[:, None] <= places(k), low), v)", PLAIN),
    "mean of no key": (
        "weigh((q @ k.mT).masked_fill(places(q)[:, None] <= places(k), -1e9), v)",
        PLAIN,
    ),
    "mean of the least": (
        "weigh((q @ k.mT).masked_fill(places(q)[:, None] <= places(k), LEAST), v)".replace(
            "LEAST", "(2**-23 - 2) * 2.0**127"
        ),
        PLAIN,
    ),
    "blocks": (
        "weigh((q @ k.mT).masked_fill(b(q)[:, None] != b(k), low), v)".replace(
            "b(", "(lambda x: (places(x) - 40) // 16)("
        ),
        PLAIN,
    ),
    "lengths": (
        "weigh((q @ k.mT).masked_fill(places(k) >= places(q, 0)[:, None, None, None] * 9, low), v)",
        PLAIN,
    ),
    "bias": ("weigh(q @ k.mT * 0.3 + b, v)", f"{PLAIN}, (3, 1, 70)"),
    "scaled before a bias": (
        "weigh((q * 0.25) @ (k * 0.5).mT + b, v * 2.0)",
        f"{PLAIN}, (3, 1, 70)",
    ),
    "cap and slopes": (
        "weigh(9 * torch.tanh(q @ k.mT / 9) - b * (places(q)[:, None] - places(k)).abs(), v)",
        f"{PLAIN}, (3, 1, 1)",
    ),
    "swiglu of scores": ("weigh((q @ k.mT) * torch.sigmoid(q @ k.mT), v)", PLAIN),
    "shared keys": (
        "weigh(q @ k.repeat_interleave(3, 1).mT * 0.2, v.repeat_interleave(3, 1))",
        "(2, 6, 3, 16), (2, 2, 300, 16), (2, 2, 300, 16)",
    ),
    "one query": (
        "torch.einsum('bhs,bshd->bhd', torch.softmax(torch.einsum('bhd,bshd->bhs', q, k), -1), v)",
        "(2, 3, 16), (2, 300, 3, 16), (2, 300, 3, 16)",
    ),
    "heads side by side": (
        "weigh(*(lambda q, k, v: (q @ k.mT, v))(*q.view(2, 70, 3, 3, 16).permute(2, 0, 3, 1, 4)))"
        ".transpose(1, 2).reshape(2, 70, 48)",
        "(2, 70, 144), (1,), (1,)",
    ),
    "called": (
        "F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)",
        "(2, 4, 70, 16), (2, 2, 70, 16), (2, 2, 70, 16)",
    ),
    "called without keys": (
        "F.scaled_dot_product_attention(q, k, v, attn_mask=places(q)[:, None] > places(k) + 5)",
        PLAIN,
    ),
}
LARGE = {  # written, but not run
    "one mask for many": (
        "weigh((lambda s: s.masked_fill(torch.ones_like(s).triu(1) != 0, low))(q @ k.mT), v)",
        "(40, 2048, 16), (40, 2048, 16), (40, 2048, 16)",
    ),
}
LEFT = {"softmax of other axis": ("torch.softmax(q @ k.mT, -2) @ v", PLAIN)}
NARROW = {"odd sizes", "shared keys"}


def reference(body, shapes, dtype):
    names = "q, k, v, b" if "b" in re.findall(r"\w+", body) else "q, k, v"
    return (
        f"{HEAD}\ndef reference({names}):\n    return {body}\n\n\n"
        f"def inputs(n=1, device='cuda'):\n    shapes = {shapes}\n"
        f"    return [torch.randn(s, device=device).to({dtype}) for s in shapes]\n"
    )


ROUNDED = "in 16 bits"


def written(paths, setting):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        return jobs.call("inductor_programs:written", list(map(str, paths)), {setting: True})


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """By name the files of a reference and its program; no program where there is none."""
    folder, paths, pairs = tmp_path_factory.mktemp("attention"), {}, {}
    for name, (body, shapes) in {**CASES, **LARGE, **LEFT}.items():
        paths[name] = folder / f"{name.replace(' ', '_')}.py"
        paths[name].write_text(reference(body, shapes, "half" if name in NARROW else "wide"))
    texts = dict(zip(paths, written(paths.values(), "solkit.own_attention"), strict=True))
    paths[ROUNDED] = paths["scaled before a bias"]
    (texts[ROUNDED],) = written([paths[ROUNDED]], "solkit.narrow_attention")
    for name, (text, why) in texts.items():
        program = folder / f"{name.replace(' ', '_')}.program.py"
        program.write_text(text)
        pairs[name] = str(paths[name]), str(program) if text else why
    return pairs


@pytest.fixture(scope="module")
def differences(programs, interpreted):
    def compare(names, points):
        pairs = [programs[name] for name in names]
        folder = Path(__file__).parent
        outcomes = interpreted(folder, "inductor_programs:compared", pairs, points, 2e-3)
        return dict(zip(names, outcomes, strict=True))

    return compare([*CASES], 1) | compare([ROUNDED], 0)


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_of_its_own_computes_attention_with_any_parameters(name, programs, differences):
    text = Path(programs[name][1]).read_text()
    assert "def attention_0(" in text
    assert "softmax" not in text
    assert differences[name] == ""


def test_products_in_fp32_may_be_sums_of_products_in_16_bits(programs, differences):
    text = Path(programs[ROUNDED][1]).read_text()
    assert len(re.findall(r"= tl.dot\(q\w*, k", text)) == 3
    assert "tf32" not in text
    assert differences[ROUNDED] == ""


def test_what_is_no_attention_is_left(programs):
    assert all("it has no attention" in programs[name][1] for name in LEFT)


@pytest.mark.parametrize("name", ["causal", "window", "blocks", "lengths", "cap and slopes"])
def test_masks_and_biases_are_computed_where_they_are_used(name, programs):
    text = Path(programs[name][1]).read_text()
    assert not re.search(r"empty\w*\(\([^)]*70, 70\)", text)  # a mask or scores


def test_bands_of_keys_end_the_loop(programs):
    text = Path(programs["window"][1]).read_text()
    assert "low = tl.maximum(least + -19, 0)" in text
    assert "high = tl.minimum(most + 20, keys)" in text
    text = Path(programs["one mask for many"][1]).read_text()
    assert "high = tl.minimum(most + 1, keys)" in text
    assert "low = 0" in Path(programs["mean of no key"][1]).read_text()  # all keys have a weight


def test_few_queries_are_rows_of_one_block_and_share_their_keys(programs):
    text = Path(programs["shared keys"][1]).read_text()
    assert "rows: tl.constexpr = 9" in text
    assert '"SPLITS": [1, 2, 4, 8]' in text


def test_results_lie_as_they_are_used(programs):
    text = Path(programs["heads side by side"][1]).read_text()
    assert "torch.empty((2, 70, 48)" in text
