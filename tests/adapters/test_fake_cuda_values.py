"""Contents of fake tensors: known ones against torch's own results, guessed ones by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from solkit.adapters import fake_cuda
from solkit.adapters.fake_cuda import contents, deferred_values
from solkit.adapters.fake_cuda.contents import recall_contents
from solkit.kernelfiles.seeding import seed_everything


@pytest.mark.parametrize(
    "view", [lambda x: x[1], lambda x: x[:, 1], lambda x: x.t(), lambda x: x.unbind(0)[1]]
)
def test_a_view_tells_all_elements_of_its_storage(view, in_child):
    def elements():
        return fake_cuda.presumed_elements(view(torch.arange(6, device="cuda").view(2, 3)))

    assert in_child(elements).tolist() == [0, 1, 2, 3, 4, 5]


def window_mask(device):
    mask = torch.zeros(6, 6, dtype=torch.bool, device=device)
    for i in range(6):
        mask[i, max(0, i - 2) : i + 1] = True
    return mask


def bias_with_view(device):
    bias = torch.empty(4, 4, device=device)
    lower = bias.t()[1:]
    bias.fill_(float("-inf"))
    lower.zero_()
    lower[0].masked_fill_(torch.arange(4, device=device) > 2, 7.0)
    return bias


def rotary(device):
    angle = torch.outer(torch.arange(8, device=device).float(), torch.ones(3, device=device) / 3)
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


def scattered(device):
    counts = torch.zeros(5, dtype=torch.int64, device=device)
    counts.scatter_add_(0, torch.tensor([1, 1, 4], device=device), torch.ones_like(counts)[:3] * 2)
    counts[counts > 2] += 10
    return counts.clamp_(max=11)


def as_half(device):
    return (torch.full((3, 2), 1.5, device=device) * 2 + torch.eye(3, 2, device=device)).bfloat16()


def unique(device):
    return torch.cat(
        torch.unique(torch.tensor([3, 1, 3], device=device), return_inverse=True)
    ).repeat_interleave(torch.tensor([2, 0, 1, 1, 3], device=device))


@pytest.mark.quick("bias_with_view", "rotary", "unique")
@pytest.mark.parametrize("build", [window_mask, bias_with_view, rotary, scattered, as_half, unique])
def test_contents_are_torchs_own(in_child, build):
    known_result = in_child(lambda: fake_cuda.known_value(build("cuda")))
    np.testing.assert_array_equal(
        known_result, build("cpu").float() if build is as_half else build("cpu")
    )


def test_an_unknown_write_makes_all_views_unknown(in_child):
    def seen():
        x = torch.randn(4, device="cuda")
        early = x[:2]
        x.zero_()
        late, known_value = x[2:], recall_contents(x) is not None
        early.add_(torch.randn(2, device="cuda"))
        return known_value, recall_contents(x), recall_contents(late)

    assert in_child(seen) == (True, None, None)


def test_a_value_that_was_handed_out_does_not_change(in_child):
    def seen():
        x = torch.arange(4, device="cuda")
        before, part = fake_cuda.known_value(x), fake_cuda.known_value(x[:1])
        x[0] = 9
        return before.tolist(), part.tolist(), fake_cuda.known_value(x).tolist()

    assert in_child(seen) == ([0, 1, 2, 3], [0], [9, 1, 2, 3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn])
def test_arrays_of_constants_take_no_memory_either(in_child, dtype):
    def seen():
        cache = torch.zeros(1 << 20, 1 << 20, device="cuda").to(dtype)
        values = fake_cuda.known_value(cache)
        return values.shape, values.strides, float(values[5, 7])

    assert in_child(seen) == ((1 << 20, 1 << 20), (0, 0), 0.0)


def test_constants_take_no_memory_whatever_their_size(in_child):
    def seen():
        x = torch.zeros(1 << 30, device="cuda").view(1 << 15, 1 << 15)
        y = (x + 1).expand(2, -1, -1)[:, 5:] * torch.full((), 3, device="cuda")
        return fake_cuda.known_value(y)[1, 7, 9].item(), contents.Contents.held_bytes

    assert in_child(seen) == (3.0, 2 * 4)  # a float for x, one for y


@pytest.mark.slow
def test_contents_beyond_the_budget_are_dropped_and_the_rest_is_given_back(in_child):
    def seen():
        count, kept = contents._KNOWN_BYTES // (8 << 20), []  # of 1 Mi integers
        for _ in range(count + 2):
            kept.append(torch.arange(1 << 20, device="cuda"))
        known_values = [recall_contents(tensor) is not None for tensor in kept]
        kept.clear()
        return known_values, contents.Contents.held_bytes

    known_value, held = in_child(seen)
    assert known_value == [True] * (len(known_value) - 2) + [False] * 2
    assert held == 0


def test_inference_mode_knows_as_much(in_child):
    def seen():
        with torch.inference_mode():
            x = torch.arange(4, device="cuda")
            x[1:] *= 2
        return fake_cuda.known_value(x).tolist()

    assert in_child(seen) == [0, 2, 4, 6]


# ----------------------------------------------------------------------------------- routing

TOKENS, EXPERTS, CHOSEN = 12, 8, 2
SCORES = (TOKENS, EXPERTS)


def mixtral(scores):
    """Hugging Face's form: one_hot, permute, where."""
    _, chosen = torch.topk(scores.softmax(-1), CHOSEN, dim=-1)
    mask = F.one_hot(chosen, num_classes=EXPERTS).permute(2, 1, 0)
    hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
    return [len(torch.where(mask[expert.item()])[1]) for expert in hit]


def deepseek(scores):
    """Sorted by expert, counted, taken apart by a loop over numpy integers."""
    chosen = scores.topk(CHOSEN, dim=-1)[1].flatten()
    per_expert = chosen.bincount(minlength=EXPERTS).cpu().numpy()
    order = chosen.argsort()
    ends = per_expert.cumsum()
    return [len(order[end - n : end] // CHOSEN) for n, end in zip(per_expert, ends)]


def flashinfer(scores):
    """Grouped scores, then a loop over the experts with a comparison."""
    groups = scores.view(TOKENS, 4, 2).topk(2, dim=-1)[0].sum(-1).topk(4, dim=-1)[1]
    kept = torch.zeros(TOKENS, 4, device="cuda").scatter_(1, groups, 1.0)
    scores = scores.masked_fill(kept.repeat_interleave(2, dim=1) == 0, float("-inf"))
    chosen = torch.topk(scores, CHOSEN, dim=1).indices
    counts = []
    for expert in range(EXPERTS):
        of_expert = (chosen == expert).any(dim=1)
        if of_expert.any():
            counts.append(torch.nonzero(of_expert, as_tuple=False).squeeze(1).numel())
    return counts


def masked(scores):
    chosen = torch.multinomial(scores.softmax(-1), CHOSEN)
    x = torch.randn(TOKENS, 4, device="cuda")
    return [x[(chosen == expert).any(-1)].shape[0] for expert in range(EXPERTS)]


def one_each(scores):
    chosen = scores.max(dim=-1).indices
    return chosen.bincount(minlength=EXPERTS).tolist()


def listed(scores):
    ids, counts = torch.unique(scores.topk(CHOSEN)[1], return_counts=True)
    return torch.histc(ids.float(), EXPERTS, 0, EXPERTS - 1).tolist() and counts.tolist()


@pytest.mark.quick("mixtral-2", "masked-2", "one_each-1")
@pytest.mark.parametrize(
    ("route", "item"),
    [(mixtral, CHOSEN), (deepseek, CHOSEN), (flashinfer, CHOSEN), (masked, CHOSEN), (one_each, 1),
     (listed, CHOSEN)],
)  # fmt: skip
def test_routing_is_guessed_balanced_and_told_once_it_decides(in_child, route, item):
    def counts():
        scores = torch.randn(SCORES, device="cuda")
        torch.topk(scores, 3)  # decides nothing
        return route(scores), fake_cuda.guesses_so_far()

    results, guesses = in_child(counts)
    assert sum(results) == TOKENS * item
    assert max(results) - min(results) <= 1
    (result,) = {sentence.split(": ")[1] for sentence in guesses if "choices" in sentence} - {
        "routing was guessed balanced over 4 choices"
    }
    assert result == f"routing was guessed balanced over {EXPERTS} choices"


def test_no_row_chooses_twice_along_any_dimension(in_child):
    def chosen():
        scores = torch.randn(5, 7, 3, device="cuda")
        picks = scores.topk(4, dim=1).indices.cpu().numpy()
        order = scores.sort(dim=0).indices.cpu().numpy()
        return picks, order, scores.argmax().item()

    picks, order, best = in_child(chosen)
    assert picks.shape == (5, 4, 3)
    assert len({tuple(order[:2, i, j]) for i in range(7) for j in range(3)}) == 5  # of the first
    assert all(len({*picks[i, :, j]}) == 4 for i in range(5) for j in range(3))
    assert (np.bincount(picks.ravel(), minlength=7) <= 5 * 4 * 3 // 7 + 1).all()
    assert (np.sort(order, 0) == np.arange(5)[:, None, None]).all()
    assert best == 0


def test_a_number_names_a_gpu_wherever_torch_takes_a_device(in_child):
    def places():
        x = torch.zeros(2)
        created = [torch.empty(2, device=0), torch.arange(3, device=torch.cuda.current_device())]
        moved = [x.cuda(0), x.to(0), x.to(device=0), torch.nn.Linear(2, 2).cuda(0).weight]
        inductors = torch._C._dynamo.guards._empty_strided_cuda((2, 3), (1, 2), torch.float16)
        return [str(t.device) for t in (*created, *moved, inductors)], inductors.stride()

    assert in_child(places) == (["cuda:0"] * 7, (1, 2))


def test_an_array_of_unknown_contents_is_a_guess_as_a_single_value_is(in_child):
    def read():
        unknown = torch.empty(2, 3, dtype=torch.float16, device="cuda")
        return unknown.cpu().numpy(), unknown[0, 0].item(), fake_cuda.guesses_so_far()

    array, one, guesses = in_child(read)
    assert array.shape == (2, 3)
    assert array.dtype == np.float16
    assert (array == one).all()
    assert any("read as an array" in sentence for sentence in guesses)


def test_guessed_contents_are_not_known(in_child):
    def seen():
        chosen = torch.randn(SCORES, device="cuda").topk(2).indices
        return fake_cuda.known_value(chosen + 1), fake_cuda.guesses_so_far()

    assert in_child(seen) == (None, ())


@pytest.mark.quick("<lambda>-shape0-few", "<lambda>-shape6-mask", "<lambda>-shape9-None")
@pytest.mark.parametrize(
    ("call", "shape", "words"),
    [
        (lambda x: torch.unique(x), (1,), "few"),
        (lambda x: torch.unique(x.view(3, 4), dim=0), (1, 4), "few"),
        (lambda x: torch.unique_consecutive(x), (1,), "few"),
        (lambda x: torch.unique(x > 0), (2,), "few"),
        (lambda x: torch.bincount((x > 0).long()), (12,), "bincount"),
        (lambda x: x.repeat_interleave((x > 0).long()), (12,), "repeats"),
        (lambda x: torch.where(x > 0)[0], (12,), "mask"),
        (lambda x: torch.masked_select(x, x > 0), (12,), "mask"),
        (lambda x: x[(torch.arange(12, device="cuda") % 3) == 0], (4,), None),
        (lambda x: torch.masked_select(x, torch.arange(12, device="cuda") > 7), (4,), None),
        (lambda x: torch.split(x, torch.tensor([4, 8], device="cuda").tolist())[1], (8,), None),
    ],
)
def test_shapes_that_depend_on_data(in_child, call, shape, words):
    def seen():
        return tuple(call(torch.randn(12, device="cuda")).shape), fake_cuda.guesses_so_far()

    got, guesses = in_child(seen)
    assert got == shape
    assert words is None or words in guesses[0]
    assert words is not None or guesses == ()


def test_packed_sequences_leave_out_the_padding(in_child):
    def packed():
        x, lengths = torch.randn(3, 5, 2, device="cuda"), torch.tensor([5, 3, 1])
        sequence = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        padded, ends = torch.nn.utils.rnn.pad_packed_sequence(sequence, batch_first=True)
        return (
            tuple(sequence.data.shape),
            sequence.batch_sizes.tolist(),
            padded.shape,
            ends.tolist(),
        )

    # of 3 sequences, 2 reach their second and third step, 1 the others
    assert in_child(packed) == ((9, 2), [3, 2, 2, 1, 1], (3, 5, 2), [5, 3, 1])


def test_indices_that_follow_from_random_floats_are_computed_when_they_are_asked_for(in_child):
    def child():
        with fake_cuda.fake_tensors():
            x = torch.rand(1000, device="cuda").pow(2.0) * 16
            bins = x.clamp_(max=15).to(torch.int32)
            ends = F.pad((torch.rand(99, device="cuda") * 500).sort().values, (1, 1))
            ends[-1] = 500
            floats = recall_contents(x)
            presumed_values = (
                fake_cuda.presumed_value(bins),
                fake_cuda.presumed_value(ends.to(torch.int64)),
            )
            return floats, *presumed_values, bins.sum().item()

    floats, bins, ends, total = in_child(child)
    assert floats is None  # nothing was computed before
    assert bins.min() >= 0
    assert bins.max() <= 15
    # a square lies below 1/16 where the number lies below 1/4
    assert np.mean(bins == 0) == pytest.approx(0.25, abs=0.05)
    assert ends[0] == 0
    assert ends[-1] == 500
    assert (np.diff(ends) >= 0).all()
    assert total == bins.sum()


def test_the_same_seed_gives_the_same_indices(in_child):
    def child():
        with fake_cuda.fake_tensors():
            drawn = []
            for _ in range(2):
                seed_everything(3)
                first, second = (torch.rand(64, device="cuda") * 100 for _ in "ab")
                drawn += [fake_cuda.presumed_value(t.to(torch.int32)) for t in (first, second)]
            return drawn

    a, b, again_a, again_b = in_child(child)
    assert (a == again_a).all()
    assert (b == again_b).all()
    assert (a != b).any()


def test_what_runs_have_in_common_is_computed_once(in_child):
    def child():
        compute, computed = deferred_values._compute_elements, []
        deferred_values._compute_elements = lambda *args: computed.append(0) or compute(*args)
        results = []
        with fake_cuda.fake_tensors():
            for seed, scale in ((3, 100), (3, 100), (4, 100), (3, 50)):
                seed_everything(seed)
                indices = (torch.rand(64, device="cuda") * scale).to(torch.int32)
                computed.clear()
                results.append((fake_cuda.presumed_value(indices).copy(), len(computed)))
                indices.add_(1)  # a launcher may write to what it got
        return results

    (first, steps), (again, again_steps), (other_seed, _), (halved, _) = in_child(child)
    assert steps > 0
    assert again_steps == 0
    assert (again == first).all()
    assert (other_seed != first).any()
    assert (halved == first // 2).all()


def test_rows_that_are_written_one_by_one_do_not_copy_the_rest(in_child):
    def places():
        from solkit.roofline.work.program import trace

        mask, seen = torch.ones(64, 64, device="cuda"), []

        def write_rows():
            for i in range(64):
                mask[i, : i + 1] = 0
                held = contents.contents_of_storage[mask.untyped_storage()._cdata]
                seen.append(held.flat.data_ptr())
            return [mask]

        trace(write_rows)
        return len(set(seen)), fake_cuda.known_value(mask)

    copies, value = in_child(places)
    assert copies == 1
    assert np.array_equal(value, np.triu(np.ones((64, 64)), 1))
