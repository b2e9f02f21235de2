"""What is wanted of an op's result, where only part of it is read."""

from __future__ import annotations


def test_attention_over_the_batch_of_which_one_position_is_read(work):
    """As a vision transformer that takes the batch for the sequence, and reads the first token.

    Only position 0 of 6 matters: 2 heads, 2 x 2 pairs, 4 for the scores and 4 for the values.
    """
    result = work(
        "torch.randn(2, 6, 8, device=device)",
        "h = a0.view(2, 6, 2, 4).permute(1, 2, 0, 3)\n"
        "    out = F.scaled_dot_product_attention(h, h, h)\n"
        "    return out.permute(2, 0, 1, 3).reshape(2, 6, 8)[:, 0] + 1.0",
    )
    contractions = [n for key, n in result.operations.items() if key.startswith("contraction.")]
    assert sum(contractions) == 2 * (2 * 2 * 2) * (4 + 4)
    assert (result.dram_read_bytes, result.dram_write_bytes) == (4 * 2 * 8, 4 * 2 * 8)


def test_attention_with_relu_in_place_of_a_softmax(work):
    """Masked scores are 0 behind a relu too: 10 of 4 x 4 pairs, 8 for each of two products."""
    result = work(
        "torch.randn(4, 8, device=device)",
        "hidden = torch.ones(4, 4, device=a0.device).triu(1).bool()\n"
        "    scores = (a0 @ a0.T).masked_fill(hidden, float('-inf'))\n"
        "    return scores.relu() @ a0",
    )
    assert result.operations["contraction.fp32"] == 2 * 10 * (8 + 8)


def test_a_gather_by_an_expanded_index_is_no_slower_than_its_index(work):
    """An index of 65,536 places, 8 different ones, is expanded to 65,536 columns."""
    result = work(
        "torch.randn(16, 65536, device=device)",
        "rows = torch.arange(65536, device=a0.device) % 8\n"
        "    return a0.gather(0, rows[:, None].expand(-1, 65536)).sum(1)",
    )
    assert (result.dram_read_bytes, result.dram_write_bytes) == (4 * 8 * 65536, 4 * 65536)


def test_keys_behind_a_table_count_as_far_as_their_sequence_is_long(work):
    """Lengths 100 and 8192 of 8192 keys, 9 heads, 512 values; the rows are looked up.

    Heads and batch are one dimension to the product, and its keys are a large copy.
    """
    result = work(
        "torch.randn(2, 9, 512, device=device, dtype=torch.float16);"
        "torch.randn(16384, 9, 512, device=device, dtype=torch.float16);"
        "torch.tensor([100, 8192], device=device)",
        "keys = a1[torch.arange(16384, device=a1.device).view(2, 8192).flip(0)]\n"
        "    scores = torch.einsum('bhd,bshd->bhs', a0, keys)\n"
        "    hidden = torch.arange(8192, device=a0.device) >= a2[:, None, None]\n"
        "    return scores.masked_fill(hidden, float('-inf')).softmax(-1)",
    )
    assert result.dram_read_bytes == 2 * 9 * 512 * (2 + 100 + 8192) + 2 * 8


def test_rows_whose_targets_are_ignored_are_not_read_though_a_mask_would_be_too_large(work):
    """A quarter of 8192 rows of 16,384 classes is ignored, and labels are smoothed."""
    result = work(
        "torch.randn(8192, 16384, device=device, dtype=torch.bfloat16);"
        "torch.where(torch.arange(8192, device=device) % 4 == 0, -1, 7)",
        "return F.cross_entropy(a0, a1, ignore_index=-1, label_smoothing=0.1)",
    )
    assert result.dram_read_bytes == 2 * 6144 * 16384 + 8 * 8192


def test_rows_that_two_millions_of_drawn_indices_name_are_read_once(work):
    """2^21 draws of 1,000,000 rows leave out one with a chance of exp(-2.097): 877,200 are read."""
    result = work(
        "torch.randn(1000000, 8, device=device); torch.randint(0, 1000000, (1 << 21,)).to(device)",
        "return F.embedding(a1, a0).sum(0)",
    )
    rows = (result.dram_read_bytes - 8 * (1 << 21)) / (4 * 8)
    assert abs(rows - 1e6 * (1 - (1 - 1e-6) ** (1 << 21))) < 2000


def test_rows_that_no_expert_needs_are_not_multiplied_though_every_other_column_is_read_apart(work):
    """4096 rows have one of 8 experts each, whose 4096 columns are gates and values in turn."""
    result = work(
        "torch.randn(4096, 64, device=device, dtype=torch.bfloat16);"
        "torch.randn(8, 64, 4096, device=device, dtype=torch.bfloat16)",
        "rows, experts = torch.arange(4096, device=a0.device), torch.arange(8, device=a0.device)\n"
        "    chosen = rows[None, :] % 8 == experts[:, None]\n"
        "    h = torch.bmm(a0.expand(8, -1, -1), a1)\n"
        "    return (h[..., ::2] * h[..., 1::2] * chosen[..., None]).sum(0)",
    )
    assert result.operations["contraction.bf16"] == 2 * 4096 * 64 * 4096


def test_rows_are_written_to_zeros_whatever_is_written_beside_them(work):
    """Four samples have five rows that are reversed, and three that stay as they are."""
    result = work(
        "torch.randn(4, 8, 16, device=device)",
        "y, places = torch.zeros_like(a0), torch.arange(5, device=a0.device)\n"
        "    for i in range(4):\n"
        "        y[i, places] = a0[i, 4 - places]\n"
        "        y[i, 5:] = a0[i, 5:]\n"
        "    return y",
    )
    assert (result.dram_read_bytes, result.dram_write_bytes) == (4 * 4 * 8 * 16,) * 2
