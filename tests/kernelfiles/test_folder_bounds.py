"""Bounds of problem folders of each kind, against bytes and operations derived by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from folders import (
    DEFINITION,
    flashinfer_set,
    sol_folder,
    study,
    workload,
    write_json,
    write_safetensors,
)

from solkit.core import Work

F32, BF16, FP8, I32, I64 = 4, 2, 1, 4, 8


def spec(dtype: str, *shape: Any) -> dict[str, Any]:
    return {"shape": [str(axis) for axis in shape] or None, "dtype": dtype}


def fp32_products(work: Work) -> float:
    """Operations of products of fp32, whatever pipe the tolerance lets them take."""
    products = work.operations.items()
    return sum(count for name, count in products if name.startswith("contraction.fp32"))


def work_of(
    tmp_path: Path,
    reference: str,
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    outcome: dict[str, Any] | None = None,
    custom_inputs_entrypoint: str | None = None,
    op_type: str = "any",
    **sizes: int,
) -> Work:
    """The work of a definition whose axes are `sizes`, its inputs drawn unless given otherwise."""
    sources = {name: {"type": "random"} for name in inputs} | (outcome or {})
    folder = sol_folder(
        tmp_path,
        [workload("a", sources, **sizes)],
        axes={name: {"type": "var"} for name in sizes},
        inputs=inputs,
        outputs=outputs,
        op_type=op_type,
        custom_inputs_entrypoint=custom_inputs_entrypoint,
        reference="import torch, math\nimport torch.nn.functional as F\n" + reference,
    )
    work = study(folder).cases[0].work
    assert not work.unmodelled
    return work


def contracted(operations: dict[str, int]) -> int:
    """Operations of products, whatever their factors' widths and what follows them."""
    return sum(n for kind, n in operations.items() if kind.startswith("contraction."))


def stored(tmp_path: Path, **tensors: list[int]) -> dict[str, Any]:
    """Integer tensors in a file beside the definition, as a workload names them."""
    write_safetensors(tmp_path / "t.safetensors", tensors)
    file = {"type": "safetensors", "path": "t.safetensors"}
    return {name: {**file, "tensor_key": name} for name in tensors}


# ------------------------------------------------------------------------------ paged attention

PAGES, PAGE, KV, HEADS, DIM = 100_000, 16, 2, 8, 64  # 205 M elements a cache


@pytest.mark.slow
def test_paged_decoding_reads_the_pages_that_its_table_names(tmp_path):
    """The cache is converted whole before pages are looked up, which no kernel needs to do."""
    work = work_of(
        tmp_path,
        "def run(q, k_cache, v_cache, indptr, indices):\n"
        "    k_all, v_all = k_cache.float(), v_cache.float()\n"
        "    out = torch.zeros_like(q)\n"
        "    for b in range(2):\n"
        "        first, last = int(indptr[b]), int(indptr[b + 1])\n"
        "        pages = indices[first:last].long()\n"
        f"        k = k_all[pages].reshape(-1, {KV}, {DIM}).repeat_interleave(4, 1)\n"
        f"        v = v_all[pages].reshape(-1, {KV}, {DIM}).repeat_interleave(4, 1)\n"
        "        p = torch.softmax(torch.einsum('hd,lhd->hl', q[b].float(), k), -1)\n"
        "        out[b] = torch.einsum('hl,lhd->hd', p, v).to(q.dtype)\n"
        "    return out\n",
        {
            "q": spec("bfloat16", 2, HEADS, DIM),
            "k_cache": spec("bfloat16", PAGES, PAGE, KV, DIM),
            "v_cache": spec("bfloat16", PAGES, PAGE, KV, DIM),
            "indptr": spec("int32", 3),
            "indices": spec("int32", 5),
        },
        {"out": spec("bfloat16", 2, HEADS, DIM)},
        outcome=stored(tmp_path, indptr=[0, 3, 5], indices=[7, 99_999, 0, 7, 5]),
    )
    query, pages = BF16 * 2 * HEADS * DIM, 4  # page 7 is read for both
    assert work.dram_read_bytes == 2 * pages * BF16 * PAGE * KV * DIM + query + I32 * 5
    assert work.dram_write_bytes == query
    tokens = 3 * PAGE + 2 * PAGE
    assert contracted(work.operations) == 2 * 2 * tokens * HEADS * DIM
    assert work.hard_read_bytes > 0  # nothing was guessed


@pytest.mark.slow
def test_latent_attention_reads_its_cache_once_for_keys_and_values(tmp_path):
    work = work_of(
        tmp_path,
        "def run(q_nope, q_pe, ckv, kpe, indices):\n"
        "    c, r = ckv.float()[indices.long()], kpe.float()[indices.long()]\n"
        "    p = torch.softmax(q_nope.float() @ c.T + q_pe.float() @ r.T, -1)\n"
        "    return (p @ c).to(q_nope.dtype)\n",
        {
            "q_nope": spec("bfloat16", 16, 512),
            "q_pe": spec("bfloat16", 16, 64),
            "ckv": spec("bfloat16", 1_000_000, 512),
            "kpe": spec("bfloat16", 1_000_000, 64),
            "indices": spec("int32", 4),
        },
        {"out": spec("bfloat16", 16, 512)},
        outcome=stored(tmp_path, indices=[999_999, 3, 3, 8]),
    )
    assert work.dram_read_bytes == BF16 * (3 * (512 + 64) + 16 * (512 + 64)) + I32 * 4
    # token 3 is there twice: its scores and values are the same both times, but count
    assert contracted(work.operations) <= 2 * 16 * 4 * (512 + 64 + 512)
    assert contracted(work.operations) >= 2 * 16 * 3 * (512 + 64 + 512)


@pytest.mark.slow
def test_ragged_prefill_counts_the_pairs_under_the_diagonal(tmp_path):
    work = work_of(
        tmp_path,
        "def run(q, k, v, indptr):\n"
        "    out = torch.zeros_like(q)\n"
        "    for b in range(2):\n"
        "        s = slice(int(indptr[b]), int(indptr[b + 1]))\n"
        "        scores = q[s].float() @ k[s].float().T\n"
        "        n = scores.shape[0]\n"
        "        hidden = torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1)\n"
        "        p = torch.softmax(scores.masked_fill(hidden, -math.inf), -1)\n"
        "        out[s] = (p @ v[s].float()).to(q.dtype)\n"
        "    return out\n",
        {
            **{name: spec("bfloat16", 40, 32) for name in "qkv"},
            "indptr": spec("int32", 3),
        },
        {"out": spec("bfloat16", 40, 32)},
        outcome=stored(tmp_path, indptr=[0, 10, 40]),
    )
    pairs = 10 * 11 // 2 + 30 * 31 // 2
    assert contracted(work.operations) == 2 * 2 * pairs * 32
    assert work.dram_bytes == 4 * BF16 * 40 * 32


# ---------------------------------------------------------------------------- experts and routing


@pytest.mark.slow
def test_experts_that_no_token_takes_are_not_read(tmp_path):
    """FP8 experts with block scales: bytes as stored, products on the pipe of fp8."""
    work = work_of(
        tmp_path,
        "def run(x, x_scale, w, w_scale, ids):\n"
        "    a = (x.float().view(4, 2, 128) * x_scale.unsqueeze(-1)).view(4, 256)\n"
        "    out = torch.zeros(4, 128, device=x.device)\n"
        "    for t in range(4):\n"
        "        e = int(ids[t])\n"
        "        scale = w_scale[e].repeat_interleave(128, 1)\n"
        "        out[t] += a[t] @ (w[e].float() * scale).T\n"
        "    return out\n",
        {
            "x": spec("float8_e4m3fn", 4, 256),
            "x_scale": spec("float32", 4, 2),
            "w": spec("float8_e4m3fn", 64, 128, 256),
            "w_scale": spec("float32", 64, 1, 2),
            "ids": spec("int32", 4),
        },
        {"out": spec("float32", 4, 128)},
        outcome=stored(tmp_path, ids=[9, 63, 9, 2]),
    )
    assert work.dram_read_bytes == (
        FP8 * (4 * 256 + 3 * 128 * 256) + F32 * (4 * 2 + 3 * 2)  # ids are read by Python
    )
    assert work.operations["contraction.fp8"] == 2 * 4 * 128 * 256
    assert "contraction.fp32" not in work.operations


def test_a_routing_too_large_to_be_known_is_balanced_not_all_to_all(tmp_path):
    """4096 tokens take 8 of 4096 experts: 8 rows for each of the three that are computed."""
    reference = (
        "def make(sizes, device):\n"
        "    return {'ids': torch.randint(0, 4096, (4096, 8), device=device)}\n"
        "def run(x, w, ids):\n"
        "    mask = F.one_hot(ids, num_classes=4096).permute(2, 1, 0)\n"
        "    out = torch.zeros_like(x)\n"
        "    for e in range(3):\n"
        "        _, rows = torch.where(mask[e])\n"
        "        out.index_add_(0, rows, x[rows] @ w[e])\n"
        "    return out\n"
    )
    work = work_of(
        tmp_path,
        reference,
        {
            "x": spec("bfloat16", 4096, 32),
            "w": spec("bfloat16", 3, 32, 32),
            "ids": spec("int64", 4096, 8),
        },
        {"out": spec("bfloat16", 4096, 32)},
        outcome={"ids": {"type": "custom"}},
        custom_inputs_entrypoint="make",
    )
    assert work.operations["contraction.bf16"] == 3 * 2 * 8 * 32 * 32
    assert any("one in 4096 elements of a mask" in said for said in work.guesses)
    assert work.hard_read_bytes == 0


@pytest.mark.slow
def test_a_token_adds_what_each_of_its_experts_gives(tmp_path):
    """``out[t] += ...`` ends with a copy of out[t] to itself, which must not hide the sum."""
    work = work_of(
        tmp_path,
        "def run(x, w):\n"
        "    out = torch.zeros(4, 32, device=x.device)\n"
        "    for t in range(4):\n"
        "        for e in range(2):\n"
        "            out[t] += x[t] @ w[e]\n"
        "    return out\n",
        {"x": spec("float32", 4, 16), "w": spec("float32", 2, 16, 32)},
        {"out": spec("float32", 4, 32)},
    )
    assert work.dram_read_bytes == F32 * (4 * 16 + 2 * 16 * 32)
    assert fp32_products(work) == 2 * 4 * 2 * 16 * 32


# ----------------------------------------------------------------------------------- quantised


@pytest.mark.slow
def test_four_bit_codes_are_multiplied_as_four_bit_numbers(tmp_path):
    """Two codes a byte, a scale for 16 of them; the table turns codes into e2m1's numbers."""
    work = work_of(
        tmp_path,
        "def run(a, b, a_scale, b_scale):\n"
        "    half = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]\n"
        "    table = torch.tensor(half + [-h for h in half], device=a.device)\n"
        "    def decode(packed, scale):\n"
        "        codes = torch.stack([packed & 15, packed >> 4], -1).flatten(-2)\n"
        "        blocks = table[codes.long()].view(*scale.shape, 16)\n"
        "        return (blocks * scale.float().unsqueeze(-1)).flatten(-2)\n"
        "    return decode(a, a_scale) @ decode(b, b_scale).T\n",
        {
            "a": spec("uint8", 64, "width / 2"),
            "b": spec("uint8", 32, "width / 2"),
            "a_scale": spec("float8_e4m3fn", 64, "width / 16"),
            "b_scale": spec("float8_e4m3fn", 32, "width / 16"),
        },
        {"out": spec("float32", 64, 32)},
        width=256,
    )
    assert work.dram_read_bytes == 96 * (256 // 2 + 256 // 16)
    assert work.operations["contraction.fp4"] == 2 * 64 * 32 * 256


def test_scales_that_differ_along_the_inner_dimension_stay_with_the_product(tmp_path):
    work = work_of(
        tmp_path,
        "def run(a, b, scale):\n    return (a.float() * scale) @ b.float().T\n",
        {
            "a": spec("float8_e4m3fn", 64, 256),
            "b": spec("float8_e4m3fn", 32, 256),
            "scale": spec("float32", 64, 256),
        },
        {"out": spec("float32", 64, 32)},
    )
    assert contracted(work.operations) == 2 * 64 * 32 * 256


@pytest.mark.slow
def test_a_table_of_any_size_is_read_where_it_is_looked_up(tmp_path):
    """82 M elements, converted whole before the rows are taken."""
    work = work_of(
        tmp_path,
        "def run(ids, table):\n    return table.to(torch.bfloat16)[ids]\n",
        {"ids": spec("int32", 4), "table": spec("float8_e4m3fn", 40_000, 2048)},
        {"out": spec("bfloat16", 4, 2048)},
        outcome=stored(tmp_path, ids=[39_999, 0, 0, 17]),
    )
    assert work.dram_read_bytes == FP8 * 3 * 2048 + I32 * 4
    assert work.dram_write_bytes == BF16 * 4 * 2048


# ------------------------------------------------------------------------------ the other kinds


def test_a_norm_that_adds_reads_and_writes_once(tmp_path):
    work = work_of(
        tmp_path,
        "def run(x, residual, weight):\n"
        "    h = x.float() + residual.float()\n"
        "    y = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6) * weight.float()\n"
        "    return y.to(x.dtype), h.to(x.dtype)\n",
        {
            "x": spec("bfloat16", 8, 128),
            "residual": spec("bfloat16", 8, 128),
            "weight": spec("bfloat16", 128),
        },
        {"y": spec("bfloat16", 8, 128), "h": spec("bfloat16", 8, 128)},
    )
    assert work.dram_read_bytes == BF16 * (2 * 8 * 128 + 128)
    assert work.dram_write_bytes == BF16 * 2 * 8 * 128
    assert work.operations["sfu"] == 8


@pytest.mark.slow
def test_a_gradient_reads_what_it_depends_on(tmp_path):
    """d loss / d x of x w^T is g w, and g^T x for w: two products, each tensor once."""
    work = work_of(
        tmp_path,
        "def run(g, x, w):\n"
        "    with torch.enable_grad():\n"
        "        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()\n"
        "        return torch.autograd.grad(x @ w.T, (x, w), g)\n",
        {
            "g": spec("float32", 16, 32),
            "x": spec("float32", 16, 64),
            "w": spec("float32", 32, 64),
        },
        {"dx": spec("float32", 16, 64), "dw": spec("float32", 32, 64)},
    )
    assert fp32_products(work) == 2 * 2 * 16 * 32 * 64
    assert work.dram_read_bytes == F32 * (16 * 32 + 16 * 64 + 32 * 64)


@pytest.mark.slow
def test_sampling_reads_its_probabilities_and_writes_a_number_a_row(tmp_path):
    work = work_of(
        tmp_path,
        "def run(probs, top_k):\n"
        "    kept, places = torch.sort(probs, descending=True)\n"
        "    hidden = torch.arange(1000, device=probs.device) >= top_k.unsqueeze(-1)\n"
        "    kept = kept.masked_fill(hidden, 0.0)\n"
        "    chosen = torch.multinomial(kept / kept.sum(-1, keepdim=True), 1)\n"
        "    return places.gather(-1, chosen).squeeze(-1)\n",
        {"probs": spec("float32", 8, 1000), "top_k": spec("int32", 8)},
        {"samples": spec("int64", 8)},
        op_type="sampling",
    )
    # top_k is guessed; a row of which it keeps nothing does not look at it again
    assert F32 * 8 * 1000 < work.dram_read_bytes <= F32 * 8 * 1000 + I32 * 8
    assert work.dram_write_bytes == I64 * 8


@pytest.mark.slow
def test_a_recurrent_state_is_read_and_written_once(tmp_path):
    """One step of the gated delta rule: S = g S + k (b (v - k^T g S))^T, out = q^T S."""
    work = work_of(
        tmp_path,
        "def run(q, k, v, gate, beta, state):\n"
        "    s = state * gate[:, None, None]\n"
        "    error = (v - torch.einsum('hk,hkv->hv', k, s)) * beta[:, None]\n"
        "    s = s + torch.einsum('hk,hv->hkv', k, error)\n"
        "    return torch.einsum('hk,hkv->hv', q, s), s\n",
        {
            **{name: spec("float32", 4, 32) for name in "qkv"},
            "gate": spec("float32", 4),
            "beta": spec("float32", 4),
            "state": spec("float32", 4, 32, 32),
        },
        {"out": spec("float32", 4, 32), "new": spec("float32", 4, 32, 32)},
    )
    assert work.dram_read_bytes == F32 * (3 * 4 * 32 + 2 * 4 + 4 * 32 * 32)
    assert work.dram_write_bytes == F32 * (4 * 32 + 4 * 32 * 32)


# ------------------------------------------------------------------- what a definition may say


@pytest.mark.slow
def test_sizes_tell_scalars_and_lengths_that_no_workload_gives(tmp_path):
    file = flashinfer_set(
        tmp_path,
        [],
        axes={
            "batch": {"type": "var"},
            "max_seq_len": {"type": "var"},
            "k": {"type": "const", "value": 3},
        },
        inputs={
            "x": spec("float32", "batch", "max_seq_len"),
            "seq_lens": spec("int32", "batch"),
            "k": spec("int64"),
        },
        outputs={"y": spec("float32", "batch", "k")},
        reference=(
            "import torch\ndef run(x, seq_lens, k):\n"
            "    assert k == 3\n"
            "    rows = [x[b, : int(seq_lens[b])].topk(k).values for b in range(len(x))]\n"
            "    return torch.stack(rows)\n"
        ),
    )
    work = study(file, shape={"batch": 2, "max_seq_len": 50}).cases[0].work
    assert work.dram_read_bytes == F32 * 2 * 50
    assert "Input seq_lens is as long as the page table allows: no workload" in work.guesses[0]


def test_the_first_definitions_called_their_op_type_type(tmp_path):
    record = {**DEFINITION, "type": DEFINITION["op_type"]}
    del record["op_type"]
    file = write_json(tmp_path / "definitions" / "scale" / "scale.json", record)
    assert study(file, shape={"M": 4}).cases[0].work.dram_bytes == 2 * F32 * 4 * 32
