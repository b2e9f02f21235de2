"""Eight models under torch.compile: as it is, by solkit.compile, and with max-autotune.

    python bench/compile_models.py --work /tmp/compiled --json compile_models.json   # needs a GPU
    python bench/compile_models.py --work /tmp/compiled --json compile_models.json --models gpt,vit

The models are transformers' with random weights and some written here, in the style of
KernelBench's level 3. Each side runs in processes of its own, since equal graphs of a process share
their kernels: ``tune`` with caches of its own that are empty, which gives the wall time until its
second call has ended, then the time of a step on the GPU, and ``steady`` with what that left, in
turns, which gives the time of a step again (``--rounds``, none if it is 0). A stage that stands in
the JSON is not run again. ``share`` is the part of the default's GPU time that Triton kernels take.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from math import exp, log
from pathlib import Path
from typing import Any

from apply_programs import run, tuning_limit_s

SIDES = ("default", "solkit", "max-autotune")
WARM, STEPS = 5, 60


def _transformer(kind: str, config: str, **settings: Any) -> Any:
    import torch
    import transformers

    chosen = getattr(transformers, config)(**settings)
    return getattr(transformers, kind)(chosen).cuda().to(torch.bfloat16).eval()


def _tokens(count: int, length: int, vocabulary: int) -> Any:
    import torch

    return torch.randint(0, vocabulary, (count, length), device="cuda")


def llama() -> tuple[Any, tuple[Any, ...]]:
    sizes = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 6}
    heads = {"num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 8192}
    model = _transformer("LlamaForCausalLM", "LlamaConfig", **sizes, **heads, use_cache=False)
    return model, (_tokens(8, 1024, 8192),)


def gpt() -> tuple[Any, tuple[Any, ...]]:
    sizes = {"n_embd": 768, "n_layer": 6, "n_head": 12, "vocab_size": 8192}
    model = _transformer("GPT2LMHeadModel", "GPT2Config", **sizes, use_cache=False)
    return model, (_tokens(8, 1024, 8192),)


def bert() -> tuple[Any, tuple[Any, ...]]:
    sizes = {"hidden_size": 768, "num_hidden_layers": 6, "vocab_size": 8192}
    return _transformer("BertModel", "BertConfig", **sizes), (_tokens(16, 512, 8192),)


def vit() -> tuple[Any, tuple[Any, ...]]:
    import torch

    model = _transformer("ViTModel", "ViTConfig", num_hidden_layers=6)
    return model, (torch.randn(64, 3, 224, 224, device="cuda", dtype=torch.bfloat16),)


def attention() -> tuple[Any, tuple[Any, ...]]:
    """A GPT block with attention and GELU spelled out (KernelBench, level 3, 44)."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width: int = 768, heads: int = 8, length: int = 512) -> None:
            super().__init__()
            self.heads = heads
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.register_buffer("mask", torch.tril(torch.ones(length, length)).bool())

        def forward(self, x: Any) -> Any:
            q, k, v = self.qkv(self.first(x)).chunk(3, -1)
            q, k, v = (e.unflatten(-1, (self.heads, -1)).transpose(1, 2) for e in (q, k, v))
            scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
            scores = scores.masked_fill(~self.mask, float("-inf")).softmax(-1)
            x = x + self.out((scores @ v).transpose(1, 2).flatten(-2))
            hidden = self.up(self.second(x))
            inner = (2 / torch.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)
            return x + self.down(0.5 * hidden * (1.0 + torch.tanh(inner)))

    model = nn.Sequential(*(Block() for _ in range(4))).cuda().to(torch.bfloat16).eval()
    return model, (torch.randn(32, 512, 768, device="cuda", dtype=torch.bfloat16),)


def convnext() -> tuple[Any, tuple[Any, ...]]:
    """Blocks of depthwise convolutions, norms over channels and GELU."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.conv = nn.Conv2d(width, width, 7, padding=3, groups=width)
            self.norm, self.scale = nn.LayerNorm(width), nn.Parameter(torch.ones(width))
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            y = self.norm(self.conv(x).permute(0, 2, 3, 1))
            y = self.scale * self.down(nn.functional.gelu(self.up(y)))
            return x + y.permute(0, 3, 1, 2)

    model = nn.Sequential(*(Block(192) for _ in range(6))).cuda().to(torch.bfloat16).eval()
    return model, (torch.randn(32, 192, 56, 56, device="cuda", dtype=torch.bfloat16),)


def mixer() -> tuple[Any, tuple[Any, ...]]:
    """Gated scans along the sequence with norms of groups, as state space models have them."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width: int = 1024) -> None:
            super().__init__()
            self.norm, self.out = nn.RMSNorm(width), nn.Linear(width, width)
            self.gates = nn.Linear(width, 3 * width)

        def forward(self, x: Any) -> Any:
            gate, decay, value = self.gates(self.norm(x)).chunk(3, -1)
            log_decay = nn.functional.logsigmoid(decay.float()).cumsum(1).clamp(min=-30)
            state = (value.float() * torch.exp(-log_decay)).cumsum(1) * torch.exp(log_decay)
            return x + self.out(nn.functional.silu(gate) * state.to(x.dtype))

    model = nn.Sequential(*(Block() for _ in range(4))).cuda().to(torch.bfloat16).eval()
    return model, (torch.randn(16, 1024, 1024, device="cuda", dtype=torch.bfloat16),)


def training() -> tuple[Any, tuple[Any, ...]]:
    """A step of a regression by an MLP with norms, dropout and a loss: forward and backward."""
    import torch
    from torch import nn

    layers = [
        nn.Sequential(nn.LayerNorm(1024), nn.Linear(1024, 1024), nn.GELU(), nn.Dropout(0.1))
        for _ in range(6)
    ]

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(layers)

        def forward(self, x: Any, target: Any) -> Any:
            for layer in self.layers:
                x = x + layer(x)
            return nn.functional.smooth_l1_loss(x.float(), target)

    x = torch.randn(16384, 1024, device="cuda", dtype=torch.bfloat16)
    return Loss().cuda().to(torch.bfloat16).train(), (x, torch.randn_like(x, dtype=torch.float32))


MODELS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    form.__name__: form for form in (llama, gpt, bert, vit, attention, convnext, mixer, training)
}

# ------------------------------------------------------------------------------- in one process


def compiled_step(name: str, side: str, folder: Path, gpu_s: float) -> Callable[[], Any]:
    import torch

    import solkit

    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    if side == "solkit":
        model = solkit.compile(model, folder=folder, gpu_seconds=gpu_s)
    else:
        mode = "max-autotune-no-cudagraphs" if side == "max-autotune" else "default"
        model = torch.compile(model, mode=mode)

    def step() -> Any:
        if name == "training":
            model(*inputs).backward()
            return None
        with torch.no_grad():
            return model(*inputs)

    return step


def run_tune(name: str, side: str, folder: Path, gpu_s: float) -> dict[str, Any]:
    """Return the wall time of two first steps, and how long later ones take.

    The model's making and imports are not counted.
    """
    import torch

    torch.zeros(1, device="cuda")
    step = compiled_step(name, side, folder, gpu_s)
    torch.cuda.synchronize()
    begun_s = time.monotonic()
    for _ in range(2):
        step()
        torch.cuda.synchronize()
    wall_s = time.monotonic() - begun_s
    step_ms = step_time_ms(step)  # before a profiler is attached
    return {"wall_s": wall_s, "step_ms": step_ms, **triton_share(step)}


def run_steady(name: str, side: str, folder: Path, _: float) -> dict[str, Any]:
    """Return the median time of a step on the GPU, and Triton's share of it."""
    import torch

    step = compiled_step(name, side, folder, 0.0)
    begun_s = time.monotonic()
    for _ in range(WARM):
        step()
    torch.cuda.synchronize()
    start_s = time.monotonic() - begun_s
    return {"step_ms": step_time_ms(step), "start_s": start_s}


def step_time_ms(step: Callable[[], Any]) -> float:
    """Return the median time of a step on the GPU."""
    import torch

    for _ in range(WARM):
        step()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(STEPS + 1)]
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in pairwise(events))


def triton_share(step: Callable[[], Any]) -> dict[str, float]:
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as record:
        step()
        torch.cuda.synchronize()
    kernels = [(e.key, e.self_device_time_total) for e in record.key_averages()]
    whole = sum(us for _, us in kernels) or 1.0
    return {"share": sum(us for key, us in kernels if key.startswith("triton_")) / whole}


# ------------------------------------------------------------------------------------- processes


def run_part(part: str, name: str, side: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run a part in a process of its own.

    Raises:
        RuntimeError: it failed.
    """
    place = options.work / name / side
    command = [sys.executable, __file__, "--part", part, "--models", name, "--side", side]
    command += ["--work", str(options.work), "--gpu-seconds", str(options.gpu_seconds)]
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(place / "inductor")}
    caches["TRITON_CACHE_DIR"] = str(place / "triton")
    out, errors, _ = run(command, tuning_limit_s(options.gpu_seconds), **caches)
    match = re.search(r"^result: (.*)$", out, re.MULTILINE)
    if match is None:
        raise RuntimeError(f"{name}, {side}, {part}: {errors[-1500:]}")
    notes = [line for line in errors.splitlines() if line.startswith("solkit:")]
    return {**json.loads(match[1]), **({"notes": notes} if notes else {})}


def stages(options: argparse.Namespace) -> list[tuple[str, str, str, str]]:
    """Return key, part, model and side of each stage, steady ones in turns."""
    listed = []
    for name in options.models:
        listed += [(f"{name}/{side}/tune", "tune", name, side) for side in options.sides]
        for turn in range(options.rounds):
            order = options.sides if turn % 2 else options.sides[::-1]
            listed += [(f"{name}/{side}/steady{turn}", "steady", name, side) for side in order]
    return listed


def summary(results: dict[str, Any]) -> dict[str, Any]:
    """Return each model's ratios to the default: above 1 if the default takes longer."""
    rows: dict[str, Any] = {}
    for name in MODELS:
        steady = {}
        for side in SIDES:
            keys = [k for k in results if k.startswith(f"{name}/{side}/steady")]
            keys = keys or [k for k in results if k == f"{name}/{side}/tune"]
            times = [results[k]["step_ms"] for k in keys if "step_ms" in results[k]]
            if times:
                steady[side] = statistics.median(times)
        if "default" in steady:
            walls = {s: results.get(f"{name}/{s}/tune", {}).get("wall_s") for s in SIDES}
            rows[name] = {
                "step_ms": steady,
                "speedup": {side: steady["default"] / ms for side, ms in steady.items()},
                "wall_s": walls,
                "share": results.get(f"{name}/default/tune", {}).get("share"),
            }
    models = list(rows.values())
    for side in SIDES[1:]:
        ratios = [row["speedup"][side] for row in models if side in row["speedup"]]
        if ratios:
            rows[f"mean {side}"] = exp(sum(map(log, ratios)) / len(ratios))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--gpu-seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=480.0, help="Begin no stage after these.")
    parser.add_argument("--part", choices=("tune", "steady"))
    parser.add_argument("--side", choices=SIDES)
    options = parser.parse_args()
    options.models, options.sides = options.models.split(","), options.sides.split(",")
    if options.part:
        measure = run_tune if options.part == "tune" else run_steady
        folder = options.work / options.models[0] / "folder"
        result = measure(options.models[0], options.side, folder, options.gpu_seconds)
        print(f"result: {json.dumps(result)}", flush=True)
        return
    results = json.loads(options.json.read_text()) if options.json.exists() else {}
    results.pop("summary", None)
    begun_s = time.monotonic()
    for key, part, name, side in stages(options):
        if key in results or time.monotonic() - begun_s > options.seconds:
            continue
        try:
            results[key] = run_part(part, name, side, options)
        except RuntimeError as error:
            results[key] = {"error": str(error)}
        print(key, results[key], flush=True)
        document = {**results, "summary": summary(results)}
        options.json.write_text(json.dumps(document, indent=1))
    print(json.dumps(summary(results), indent=1))


if __name__ == "__main__":
    main()
