"""Operations that Liger-Kernel's benchmarks time, as what each of them must compute.

A mode is ``forward``, ``backward`` (gradients from what the forward pass may have kept), ``full``
(both), or ``sum`` (the gradients of the sum of the result, which need not be written). Where a
forward pass can know the gradient, as that of a loss, the backward pass scales it. `kernel`
launches what Liger-Kernel does: ``pip install liger-kernel``, and ``cuda-tile[tileiras]`` for its
kernels in cuTile.
"""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch.nn import functional as F

# ------------------------------------------------------------------------- a row of each token


def rms_norm(x, weight):
    """Divide each row by its root mean square."""
    return F.rms_norm(x, x.shape[-1:], weight, 1e-6)


def fused_add_rms_norm(x, weight, residual):
    """Add the residual, which is an output, and normalise."""
    total = x + residual
    return rms_norm(total, weight), total


def layer_norm(x, weight, bias):
    """Centre and scale each row."""
    return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-6)


def group_norm(x, weight, bias):
    """Centre and scale groups of four channels."""
    return F.group_norm(x, x.shape[1] // 4, weight, bias, 1e-6)


def poly_norm(x, weight, bias):
    """Add the normalised cube, square and first power."""
    powers = [x.float() ** n for n in (3, 2, 1)]
    terms = [p * torch.rsqrt(p.pow(2).mean(-1, keepdim=True) + 1e-6) for p in powers]
    return (weight[0] * terms[0] + weight[1] * terms[1] + weight[2] * terms[2] + bias).to(x.dtype)


def dyt(x, alpha, gamma):
    """Scale a tanh; a bias changes no byte that counts."""
    return (torch.tanh(alpha * x) * gamma).to(x.dtype)


def sparsemax(x):
    """Project each row onto the simplex."""
    ordered = x.float().sort(-1, descending=True).values
    sums = ordered.cumsum(-1) - 1
    ranks = torch.arange(1, x.shape[-1] + 1, device=x.device)
    support = (ordered * ranks > sums).sum(-1, keepdim=True)
    threshold = sums.gather(-1, support - 1) / support
    return (x - threshold).clamp(min=0).to(x.dtype)


def megatron_swiglu(x):
    """Gate one half of each row by the other."""
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def relu_squared(x):
    """Square what is positive."""
    return F.relu(x).square()


def rope(q, k, cos, sin):
    """Rotate the halves of each head of q and k: (tokens, heads, size)."""

    def turned(x):
        low, high = x.chunk(2, -1)
        return torch.cat((low * cos - high * sin, high * cos + low * sin), -1).to(x.dtype)

    return turned(q), turned(k)


def embedding(weight, ids):
    """Look rows up."""
    return F.embedding(ids, weight)


def multi_token_attention(scores, weight, bias):
    """Convolve causal probabilities, and mask the result."""
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    shares = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    return F.conv2d(shares, weight, bias, padding=1).masked_fill(hidden, 0.0)


# --------------------------------------------------------------------------- losses, one number


def cross_entropy(logits, target):
    """Return the mean over tokens."""
    return F.cross_entropy(logits.float(), target)


def token_cross_entropy(logits, target):
    """Return the loss of each token."""
    return F.cross_entropy(logits.float(), target, reduction="none")


def kl_div(log_q, p):
    """Return the divergence of a row at the mean."""
    return F.kl_div(log_q, p, reduction="batchmean")


def jsd(log_q, log_p):
    """Return the Jensen-Shannon divergence at the mean."""
    q, p = log_q.exp(), log_p.exp()
    log_m = ((p + q) / 2).log()
    return (p * (log_p - log_m) + q * (log_q - log_m)).sum() / (2 * len(log_q))


def tvd(q, p):
    """Return half the distance of a row at the mean."""
    return (q - p).abs().sum() / (2 * len(q))


# ------------------------------------------------------- losses behind the head of a language model


def fused_linear_cross_entropy(x, weight, target):
    """Return the loss of logits that nobody keeps."""
    return cross_entropy(x @ weight.T, target)


def preference(x, weight, target):
    """Compare the log-probabilities of chosen answers (the first half) with rejected ones."""
    chosen, rejected = token_cross_entropy(x @ weight.T, target).chunk(2)
    return chosen.mean() - F.logsigmoid(rejected.mean() - chosen.mean())


def grpo(x, weight, target, reference, reference_weight):
    """Weigh log-probabilities by how far they are from the reference model's."""
    own = token_cross_entropy(x @ weight.T, target)
    other = token_cross_entropy(reference @ reference_weight.T, target)
    return (own + (own - other).exp() - (own - other)).mean()


def kto(x, weight, target, reference, reference_weight):
    """Compare with the reference model; up to half of the tokens may be ignored."""
    counted = len(x) - len(x) // 2
    return grpo(x[:counted], weight, target[:counted], reference[:counted], reference_weight)


def fused_linear_jsd(x, weight, teacher, teacher_weight):
    """Return the divergence of a student from its teacher."""
    student, taught = ((h @ w.T).float() for h, w in ((x, weight), (teacher, teacher_weight)))
    return jsd(student.log_softmax(-1), taught.log_softmax(-1))


def distill_jsd(x, weight, target, teacher, teacher_weight):
    """Add the student's own loss to its divergence from the teacher."""
    student, taught = ((h @ w.T).float() for h, w in ((x, weight), (teacher, teacher_weight)))
    soft = jsd(student.log_softmax(-1), taught.log_softmax(-1))
    return (cross_entropy(student, target) + soft) / 2


def distill_cosine(x, weight, target, teacher, teacher_weight):
    """Add the student's own loss to its angle to the teacher."""
    student, taught = ((h @ w.T).float() for h, w in ((x, weight), (teacher, teacher_weight)))
    soft = 1 - F.cosine_similarity(student, taught, -1).mean()
    return (cross_entropy(student, target) + soft) / 2


# -------------------------------------------------------------------------- layers with products


def geglu(gate, up):
    """Gate with a tanh-approximated GELU."""
    return F.gelu(gate, approximate="tanh") * up


def swiglu(gate, up):
    """Gate with a SiLU."""
    return F.silu(gate) * up


def mlp_backward(gated, dy, x, gate_weight, up_weight, down_weight, gate, up):
    """Return the gradients of a gated layer from the kept results of its first two products."""
    kept = [t.detach().requires_grad_() for t in (gate, up)]
    with torch.enable_grad():
        inner = gated(*kept)
        d_gate, d_up = torch.autograd.grad(inner, kept, dy @ down_weight)
    d_x = d_gate @ gate_weight + d_up @ up_weight
    return d_x, d_gate.mT @ x, d_up.mT @ x, dy.mT @ inner.detach()


def neighbours(q, k, v, size, dilation):
    """Attend to `size` neighbours on both sides: (batch, heads, tokens, features)."""
    reach, tokens = size // 2 * dilation, q.shape[-2]
    padded = [F.pad(t, (0, 0, reach, reach)) for t in (k, v)]
    shifts = range(0, 2 * reach + 1, dilation)
    keys, values = ([t[..., s : s + tokens, :] for s in shifts] for t in padded)
    scores = torch.stack([(q * key).sum(-1) for key in keys], -1) * q.shape[-1] ** -0.5
    places = torch.arange(tokens, device=q.device)[:, None]
    places = places + torch.tensor(list(shifts), device=q.device) - reach
    scores = scores.masked_fill((places < 0) | (places >= tokens), -torch.inf)
    shares = scores.softmax(-1)
    return sum(shares[..., n, None] * value for n, value in enumerate(values))


def neighborhood_attention(x, weights, biases, heads, size, dilation):
    """Project, attend to neighbours, and project."""
    q, k, v = (
        F.linear(x, w, b).unflatten(-1, (heads, -1)).transpose(1, 2)
        for w, b in zip(weights[:3], biases[:3], strict=True)
    )
    attended = neighbours(q, k, v, size, dilation).transpose(1, 2).flatten(2)
    return F.linear(attended, weights[3], biases[3])


def neighborhood_attention_backward(dy, x, weights, q, k, v, attended, size, dilation):
    """Return the gradients from kept queries, keys, values and results of the attention."""
    kept = [t.detach().requires_grad_() for t in (q, k, v)]
    inner = (dy @ weights[3]).unflatten(-1, (q.shape[1], -1)).transpose(1, 2)
    with torch.enable_grad():
        parts = torch.autograd.grad(neighbours(*kept, size, dilation), kept, inner)
    rows = [part.transpose(1, 2).flatten(2).flatten(0, 1) for part in parts]
    d_x = sum(row @ weight for row, weight in zip(rows, weights[:3], strict=True))
    flat = dy.flatten(0, 1)
    gradients = [*(row.T @ x.flatten(0, 1) for row in rows), flat.T @ attended.flatten(0, 1)]
    return d_x, gradients, [row.sum(0) for row in rows], flat.sum(0)


# --------------------------------------------------------------------------------- the problem

ROWS = {
    "rms_norm": (rms_norm, 2),
    "megatron_rms_norm": (rms_norm, 2),
    "fused_add_rms_norm": (fused_add_rms_norm, 2),
    "layer_norm": (layer_norm, 3),
    "group_norm": (group_norm, 3),
    "poly_norm": (poly_norm, 3),
    "dyt": (dyt, 3),
    "softmax": (lambda x: x.softmax(-1), 1),
    "sparsemax": (sparsemax, 1),
    "relu_squared": (relu_squared, 1),
    "megatron_swiglu": (megatron_swiglu, 1),
    "rope": (rope, 2),
    "embedding": (embedding, 1),
    "multi_token_attention": (multi_token_attention, 3),
}
"""Functions with a row for each token, and how many of their arguments have gradients."""
LOSSES = {
    "cross_entropy": (cross_entropy, 1),
    "megatron_cross_entropy": (token_cross_entropy, 1),
    "kl_div": (kl_div, 1),
    "jsd": (jsd, 1),
    "tvd": (tvd, 1),
    "fused_linear_cross_entropy": (fused_linear_cross_entropy, 2),
    "fused_linear_preference": (preference, 2),
    "fused_linear_grpo": (grpo, 2),
    "fused_linear_jsd": (fused_linear_jsd, 2),
    "kto": (kto, 2),
    "distill_jsd": (distill_jsd, 2),
    "distill_cosine": (distill_cosine, 2),
}
LAYERS = {"geglu": geglu, "swiglu": swiglu}


def reference(operation, mode, gradient, tensors, options):
    """Return what a mode of an operation must write."""
    if operation in LAYERS:
        return layer_pass(LAYERS[operation], mode, gradient, tensors)
    if operation == "neighborhood_attention":
        return attention_pass(mode, gradient, tensors, options)
    function, leaves = (ROWS | LOSSES)[operation]
    if mode == "backward" and operation in LOSSES:
        return [kept * gradient for kept in tensors]
    return passes(function, mode, gradient, tensors, leaves)


def passes(function, mode, gradient, tensors, leaves):
    """Return a function's results, the gradients of its first arguments, or both."""
    if mode == "forward":
        return function(*tensors)
    active = [t.detach().requires_grad_() for t in tensors[:leaves]]
    with torch.enable_grad():
        results = function(*active, *tensors[leaves:])
        first = results[0] if isinstance(results, tuple) else results
        if mode == "sum":
            return (first.sum(), *torch.autograd.grad(first.sum(), active))
        gradients = torch.autograd.grad(first, active, gradient, allow_unused=True)
    needed = [g for g in gradients if g is not None]
    return needed if mode == "backward" else [results, needed]


def layer_pass(gated, mode, gradient, tensors):
    """Return a gated layer's result, or its gradients, or both.

    A token goes to as many experts as it has shares. Tokens are dealt evenly, in their order.
    """
    x, *weights, shares = tensors[:5]
    experts = len(weights[0])

    def dealt(rows):
        return rows.reshape(experts, -1, rows.shape[-1])

    rows = dealt(x.expand(len(shares), *x.shape))
    kept = tensors[5:] if mode == "backward" else [rows @ weight.mT for weight in weights[:2]]
    results = []
    if mode != "backward":
        parts = (gated(*kept) @ weights[2].mT).reshape(len(shares), *x.shape)
        results.append((parts * shares).sum(0))
    if mode != "forward":
        d_rows, *gradients = mlp_backward(gated, dealt(gradient * shares), rows, *weights, *kept)
        results += [d_rows.reshape(len(shares), *x.shape).sum(0), *gradients]
    return results


def attention_pass(mode, gradient, tensors, options):
    """Return a neighbourhood attention's result, or its gradients, or both."""
    heads, size, dilation = options
    x, weights, biases = tensors[0], tensors[1:5], tensors[5:9]
    if mode == "backward":
        return neighborhood_attention_backward(gradient, x, weights, *tensors[9:], size, dilation)
    if mode == "forward":
        return neighborhood_attention(x, weights, biases, heads, size, dilation)
    active = [t.detach().requires_grad_() for t in tensors]
    with torch.enable_grad():
        result = neighborhood_attention(active[0], active[1:5], active[5:], heads, size, dilation)
        return result, torch.autograd.grad(result, active, gradient)


def inputs(
    operation="softmax",
    mode="forward",
    batch=1,
    tokens=1024,
    columns=1024,
    hidden=1024,
    heads=8,
    kv_heads=8,
    experts=1,
    top=1,
    size=7,
    dilation=1,
    variant="",
    language="",
    dtype=torch.bfloat16,
    device="cuda",
):
    """Draw what a mode reads: the upstream gradient, tensors with gradients first, then others.

    A variant is the kernel's own name, where several compute the same; a language is ``cutile``
    where the kernel is not Triton's.
    """

    def draw(*shape, of=dtype):
        return torch.randn(shape, dtype=of, device=device)

    target = torch.randint(columns, (tokens,), device=device)
    wide, scalar = (tokens, columns), draw(of=torch.float32)
    head = (draw(tokens, hidden), draw(columns, hidden))
    half = (draw(tokens, hidden // 2), draw(columns, hidden // 2))
    tables = (draw(tokens, 1, columns // heads // 2), draw(tokens, 1, columns // heads // 2))
    q, k = (draw(tokens, n, columns // heads) for n in (heads, kv_heads))
    layer = (
        *(draw(tokens, hidden), draw(experts, columns, hidden), draw(experts, columns, hidden)),
        *(draw(experts, hidden, columns), draw(top, tokens, 1)),
    )
    middle = (experts, top * tokens // experts, columns)
    split = (batch, heads, tokens, hidden // heads)
    x = draw(*wide)
    tensors = {
        "fused_add_rms_norm": (x, draw(columns), draw(*wide)),
        "rms_norm": (x, draw(columns)),
        "megatron_rms_norm": (x, draw(columns)),
        "layer_norm": (x, draw(columns), draw(columns)),
        "group_norm": (draw(tokens, columns, size), draw(columns), draw(columns)),
        "poly_norm": (x, draw(3, of=torch.float32), draw(of=torch.float32)),
        "dyt": (x, draw(1, of=torch.float32), draw(columns, of=torch.float32)),
        "megatron_swiglu": (draw(tokens, 2 * columns),),
        "rope": (q, k, *tables),
        "embedding": (draw(columns, hidden), torch.randint(columns, (tokens,), device=device)),
        "multi_token_attention": (*(draw(batch, 4, tokens, tokens), draw(4, 4, 3, 3), draw(4)),),
        "cross_entropy": (draw(*wide), target),
        "megatron_cross_entropy": (draw(*wide), target),
        "kl_div": (x.log_softmax(-1), draw(*wide).softmax(-1)),
        "jsd": (x.log_softmax(-1), draw(*wide).log_softmax(-1)),
        "tvd": (x.softmax(-1), draw(*wide).softmax(-1)),
        "fused_linear_cross_entropy": (*head, target),
        "fused_linear_preference": (*head, target),
        "fused_linear_grpo": (*head, target, draw(tokens, hidden), draw(columns, hidden)),
        "kto": (*head, target, draw(tokens, hidden), draw(columns, hidden)),
        "fused_linear_jsd": (*head, draw(tokens, hidden), draw(columns, hidden)),
        "distill_jsd": (*half, target, *head),
        "distill_cosine": (*half, target, *head),
        "geglu": layer,
        "swiglu": layer,
        "neighborhood_attention": (
            draw(batch, tokens, hidden),
            *(draw(hidden, hidden) for _ in range(4)),
            *(draw(hidden) for _ in range(4)),
        ),
    }.get(operation, (x,))
    if operation in LOSSES:
        kept = tensors[: LOSSES[operation][1]]
        return operation, mode, scalar, kept if mode == "backward" else tensors, (variant, language)
    if operation in LAYERS:
        kept = (draw(*middle), draw(*middle)) if mode == "backward" else ()
        return operation, mode, draw(tokens, hidden), (*tensors, *kept), (variant, language)
    options = (heads, size, dilation)
    if operation == "neighborhood_attention":
        attended = draw(batch, tokens, hidden)
        kept = (*(draw(*split) for _ in range(3)), attended) if mode == "backward" else ()
        return operation, mode, draw(batch, tokens, hidden), (*tensors, *kept), options
    gradient = draw(tokens, hidden) if operation == "embedding" else torch.randn_like(tensors[0])
    return operation, mode, gradient, tensors, (variant, language)


# ------------------------------------------------------------------ launches of Liger-Kernel itself


def kernel(operation, mode, gradient, tensors, options):
    """Launch what Liger-Kernel launches for a mode of an operation.

    A backward pass alone gets tensors of the sizes that its forward pass keeps.
    """
    if options[-1] == "cutile":
        from liger_kernel.ops.cutile import ops
    else:
        from liger_kernel import ops

    if operation == "neighborhood_attention":
        return _attention(ops, mode, gradient, tensors, options)
    if operation in LAYERS and options[0] != "fused_moe":
        return _gated_layer(ops, operation, mode, gradient, tensors)
    if operation not in _CALLS:
        raise NotImplementedError(f"how Liger-Kernel launches {operation} is not written here")
    function, arguments, kept, attributes = _CALLS[operation](ops, *tensors, options)
    if mode == "backward":
        if kept is None:
            raise NotImplementedError(f"what {operation}'s forward pass keeps is not rebuilt")
        return function.backward(_context(kept, **attributes), *_upstream(operation, gradient))
    active = [
        a.detach().requires_grad_() if torch.is_tensor(a) and a.is_floating_point() else a
        for a in arguments
    ]
    leaves = [a for a in active if torch.is_tensor(a) and a.requires_grad]
    with torch.enable_grad():  # losses compute gradients in their forward passes if any is needed
        results = function.apply(*active)
        if mode == "forward":
            return results
        first = results[0] if isinstance(results, tuple) else results
        upstream = None if mode == "sum" else gradient.reshape(first.shape)
        first = first.sum() if mode == "sum" else first
        return results, torch.autograd.grad(first, leaves, upstream, allow_unused=True)


def _context(kept, **attributes):
    """Return what a backward pass is called with."""
    needs = (True,) * 8
    return SimpleNamespace(saved_tensors=kept, needs_input_grad=needs, **attributes)


def _upstream(operation, gradient):
    """Return a gradient for each result."""
    if operation == "rope":
        return gradient[None], gradient[None]
    return (gradient, gradient) if operation == "fused_add_rms_norm" else (gradient,)


def _settings(columns):
    """Return the attributes that a row-wise forward pass keeps."""
    from liger_kernel.ops.utils import calculate_settings

    block, warps = calculate_settings(columns)
    return {"BLOCK_SIZE": block, "num_warps": warps, "num_stages": 0, "offset": 0.0}


def _rows(x):
    return torch.empty(len(x), dtype=torch.float32, device=x.device)


def _rms_norm(ops, x, weight, _):
    attributes = {**_settings(x.shape[-1]), "in_place": False, "row_mode": None}
    attributes |= {"casting_mode": 0, "elementwise_affine": True}
    arguments = x, weight, 1e-6, 0.0, "llama", False, None
    return ops.LigerRMSNormFunction, arguments, (x, weight, _rows(x)), attributes


def _fused_add_rms_norm(ops, x, weight, residual, _):
    attributes = {**_settings(x.shape[-1]), "in_place": False, "casting_mode": 0}
    arguments = x, residual, weight, 1e-6, 0.0, "llama", False
    return ops.LigerFusedAddRMSNormFunction, arguments, (x, weight, _rows(x)), attributes


def _layer_norm(ops, x, weight, bias, _):
    kept = x, weight, bias, _rows(x), _rows(x)
    return ops.LigerLayerNormFunction, (x, weight, bias, 1e-6), kept, _settings(x.shape[-1])


def _relu_squared(ops, x, _):
    return ops.LigerReLUSquaredFunction, (x,), (x,), {}


def _megatron_swiglu(ops, x, options):
    in_place = options[0] == "in_place"
    attributes = {"in_place": in_place, "already_backward": False}
    return ops.LigerFusedGateUpSiLUMulFunction, (x, in_place), (x,), attributes


def _rope(ops, q, k, cos, _sin, options):
    if options[0] == "llama4_rope":
        turns = torch.empty(*cos.shape[::2], 2, dtype=torch.float32, device=q.device)
        arguments = q[None], k[None], turns
        return ops.LigerLlama4RopeFunction, arguments, (turns,), {"BLOCK_SIZE": None}
    heads_first = tuple(x[None].transpose(1, 2) for x in (q, k))
    size = q.shape[-1]
    axes = 3 if options[0] == "qwen2vl_mrope" else 1
    tables = [torch.empty(axes, 1, len(q), size, dtype=q.dtype, device=q.device) for _ in "cs"]
    if axes == 1:
        return ops.LigerRopeFunction, (*heads_first, *(t[0] for t in tables)), None, {}
    side = size * 3 // 16
    sections = [size // 2 - 2 * side, side, side]  # as Liger's benchmark_qwen2vl_mrope.py
    return ops.LigerQwen2VLMRopeFunction, (*heads_first, *tables, sections), None, {}


def _group_norm(ops, x, weight, bias, _):
    channels = x.shape[1]
    arguments = x, weight, bias, channels, channels // 4, 1e-6
    return ops.LigerGroupNormFunction, arguments, None, {}


def _poly_norm(ops, x, weight, bias, _):
    return ops.LigerPolyNormFunction, (x, weight, bias, 1e-6, True), None, {}


def _dyt(ops, x, alpha, gamma, options):
    beta = torch.empty_like(gamma) if options[0] == "bias" else None
    return ops.LigerDyTFunction, (x, alpha, gamma, beta), None, {}


def _softmax(ops, x, _):
    return ops.LigerSoftmaxFunction, (x,), None, {}


def _sparsemax(ops, x, _):
    return ops.LigerSparsemaxFunction, (x, -1), None, {}


def _multi_token_attention(ops, scores, weight, bias, _):
    arguments = scores, weight, bias, (1, 1), (1, 1), (1, 1), 1, False
    return ops.LigerMultiTokenAttentionFunction, arguments, None, {}


def _cross_entropy(ops, logits, target=None, options=()):
    arguments = logits, target, None, -100, 0.0, 0.0, "mean", None, False
    return ops.LigerCrossEntropyFunction, arguments, None, {}


def _fused_linear_jsd(ops, x, weight, teacher=None, teacher_weight=None, options=()):
    arguments = x, weight, teacher, teacher_weight, None, 0.5, -100, 1.0
    return ops.LigerFusedLinearJSDFunction, arguments, None, {}


def _kl_div(ops, log_q, p=None, options=()):
    p = log_q if p is None or not torch.is_tensor(p) else p
    attributes = {"reduction": "batchmean", "log_target": False}
    return ops.LigerKLDivLossFunction, (log_q, p, "batchmean", False, 1e-10), (p,), attributes


def _jsd(ops, log_q, log_p=None, options=()):
    return ops.LigerJSDFunction, (log_q, log_p, None, 0.5, -100), (log_q,), {}


def _tvd(ops, q, p=None, options=()):
    return ops.LigerTVDLossFunction, (q, p), (q,), {}


def _megatron_cross_entropy(ops, logits, target=None, options=()):
    from liger_kernel.ops.vocab_parallel_cross_entropy import LigerVocabParallelCEFunction

    target = None if target is None or not torch.is_tensor(target) else target[:, None]
    arguments = logits[:, None], target, None, -100, 0.0, "megatron", "partition"
    return LigerVocabParallelCEFunction, arguments, (logits,), {}


def _moe(ops, x, gate, up, down, shares, *others):
    if len(others) > 1:
        raise NotImplementedError("the tables that a mixture's forward pass keeps are not rebuilt")
    tokens, top = x.shape[0], shares.shape[0]
    both = torch.empty(len(gate), 2 * gate.shape[1], x.shape[1], dtype=x.dtype, device=x.device)
    experts = torch.empty(tokens, top, dtype=torch.int32, device=x.device)
    weights = torch.empty(tokens, top, dtype=x.dtype, device=x.device)
    return ops.LigerFusedMoEFunction, (x, both, down, experts, weights), (), {}


def _gated_layer(ops, operation, mode, gradient, tensors):
    """Project with PyTorch, gate with Liger-Kernel's launch, and project."""
    if mode == "backward":
        raise NotImplementedError("what a gated layer's forward pass keeps is not rebuilt")
    functions = {"geglu": ops.LigerGELUMulFunction, "swiglu": ops.LigerSiLUMulFunction}
    active = [t.detach().requires_grad_() for t in (tensors[0], *(w[0] for w in tensors[1:4]))]
    with torch.enable_grad():
        x, gate, up, down = active
        gated = functions[operation].apply(F.linear(x, gate), F.linear(x, up))
        result = F.linear(gated, down)
        if mode == "forward":
            return result
        return result, torch.autograd.grad(result, active, gradient)


def _attention(ops, mode, gradient, tensors, options):
    """Project with PyTorch, attend with Liger-Kernel's launches, and project."""
    heads, size, dilation = options
    function = ops.LigerFusedNeighborhoodAttentionFunction
    x, weights, biases = tensors[0], tensors[1:5], tensors[5:9]
    if mode == "backward":
        q, k, v, attended = tensors[9:]
        shares = torch.empty(*q.shape[:3], q.shape[2], dtype=q.dtype, device=q.device)
        settings = _settings(q.shape[2])
        params = settings["BLOCK_SIZE"], settings["num_warps"], False
        context = _context(
            *((q, k, v, shares),),
            **{"kernel_size": size, "dilation": dilation, "scale": None, "softmax_params": params},
        )
        inner = (gradient @ weights[3]).unflatten(-1, (heads, -1)).transpose(1, 2)
        parts = function.backward(context, inner.contiguous())[:3]
        rows = [part.transpose(1, 2).flatten(2).flatten(0, 1) for part in parts]
        flat = gradient.flatten(0, 1)
        gradients = [*(r.T @ x.flatten(0, 1) for r in rows), flat.T @ attended.flatten(0, 1)]
        return sum(row @ w for row, w in zip(rows, weights[:3], strict=True)), gradients

    def forward(x, *leaves):
        q, k, v = (
            F.linear(x, w, b).unflatten(-1, (heads, -1)).transpose(1, 2)
            for w, b in zip(leaves[:3], leaves[4:7], strict=True)
        )
        attended = function.apply(q, k, v, size, dilation, None)
        return F.linear(attended.transpose(1, 2).flatten(2), leaves[3], leaves[7])

    if mode == "forward":
        return forward(x, *weights, *biases)
    active = [t.detach().requires_grad_() for t in (x, *weights, *biases)]
    with torch.enable_grad():
        result = forward(*active)
        return result, torch.autograd.grad(result, active, gradient)


_CALLS = {
    "rms_norm": _rms_norm,
    "megatron_rms_norm": _rms_norm,
    "fused_add_rms_norm": _fused_add_rms_norm,
    "layer_norm": _layer_norm,
    "relu_squared": _relu_squared,
    "megatron_swiglu": _megatron_swiglu,
    "group_norm": _group_norm,
    "poly_norm": _poly_norm,
    "dyt": _dyt,
    "softmax": _softmax,
    "sparsemax": _sparsemax,
    "multi_token_attention": _multi_token_attention,
    "cross_entropy": _cross_entropy,
    "fused_linear_jsd": _fused_linear_jsd,
    "rope": _rope,
    "kl_div": _kl_div,
    "jsd": _jsd,
    "tvd": _tvd,
    "megatron_cross_entropy": _megatron_cross_entropy,
    "swiglu": _moe,
}
"""The function of an operation, its arguments, the tensors that it keeps (``None`` if they are not
rebuilt), and its attributes."""
