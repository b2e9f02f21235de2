"""Eight models under torch.compile: as it is, by solkit.compile, and with max-autotune.

    python bench/compile_models.py --work /tmp/compiled --json compile_models.json   # needs a GPU
    python bench/compile_models.py --work /tmp/compiled --json compile_models.json --models gpt,vit

The models are transformers' with random weights and some written here, in the style of
KernelBench's level 3, the most telling first. Each side compiles in a process of its own, forked
from one that has imported PyTorch, with empty caches: ``wall_s`` is the time of its first two
steps. Then that process compiles the default too, from the default's caches and apart from the
side's kernels, and both run in turns of some steps, once their times are steady (``turns``): the
time of a step by events of the stream, so with what the host keeps the GPU waiting, the ratio of
the sides with its 95 % interval, and by the profiler the GPU's own time of a step and how much of
it Triton kernels take. Steps are launched eagerly, as each mode has them without CUDA graphs. A
stage that stands in the JSON is not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import exp, log
from pathlib import Path
from typing import Any, NoReturn

from apply_programs import tuning_limit_s

SIDES = ("default", "solkit", "max-autotune")
STEPS = 10
"""Steps of a block, whose median is taken."""
BLOCKS = (8, 40)
"""Before a step is steady, at the least and at the most: trials of kernels take 48 launches."""
STEADY = 0.01
"""Share by which two blocks in a row may differ."""


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
    form.__name__: form for form in (training, mixer, attention, convnext, gpt, vit, llama, bert)
}
OF_TRANSFORMERS = {"gpt", "vit", "llama", "bert"}

Step = Callable[[], Any]

# ------------------------------------------------------------------------------- in one process


def compiled_step(name: str, side: str, place: Path, gpu_s: float) -> Step:
    """Return a step of a model, compiled with a side's caches, which lie in its folder."""
    import torch

    import solkit

    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(place / side / "inductor")
    os.environ["TRITON_CACHE_DIR"] = str(place / side / "triton")
    torch.manual_seed(0)
    model, inputs = MODELS[name]()

    def forward(*args: Any) -> Any:
        return model(*args)

    # Dynamo keeps what it compiled by code: with its own no side waits for another's guards
    code = forward.__code__.replace(co_name=f"forward_{side.replace('-', '_')}")
    own = types.FunctionType(code, globals(), code.co_name, None, forward.__closure__)
    if side == "solkit":
        run = solkit.compile(own, folder=place / "folder", gpu_seconds=gpu_s)
    else:
        mode = "max-autotune-no-cudagraphs" if side == "max-autotune" else "default"
        run = torch.compile(own, mode=mode)

    def step() -> Any:
        if name == "training":
            run(*inputs).backward()
            return None
        with torch.no_grad():
            return run(*inputs)

    return step


def measure_side(name: str, side: str, place: Path, gpu_s: float, rounds: int) -> dict[str, Any]:
    """Return the wall time of a side's two first steps, and its steps beside the default's.

    The model's making and imports are not counted.
    """
    import torch

    torch.zeros(1, device="cuda")
    step = compiled_step(name, side, place, gpu_s)
    torch.cuda.synchronize()
    begun_s = time.monotonic()
    for _ in range(2):
        step()
        torch.cuda.synchronize()
    result: dict[str, Any] = {"wall_s": time.monotonic() - begun_s}
    if side == "default" or not rounds:
        return {**result, "step_ms": steady_ms(step)}
    return {**result, "turns": measure_turns(name, side, place, step, rounds)}


def measure_turns(name: str, side: str, place: Path, step: Step, rounds: int) -> dict[str, Any]:
    """Return the times of a step of a side and of the default, in turns in this process."""
    from solkit.adapters import live_tuned
    from solkit.measure.timing.comparison_statistics import compute_ratio

    steady_ms(step)
    live_tuned.withdraw()  # the default's kernels are Inductor's; the side's keep what they have
    steps = {"default": compiled_step(name, "default", place, 0.0), side: step}
    for run in steps.values():
        steady_ms(run)
    blocks: dict[str, list[float]] = {key: [] for key in steps}
    for turn in range(rounds):
        for key in sorted(steps, reverse=bool(turn % 2)):
            block_ms(steps[key])  # the other's data have left the L2 cache, and its clocks settled
            blocks[key].append(block_ms(steps[key]))
    ratio = compute_ratio(blocks["default"], blocks[side], "events")
    return {
        "step_ms": {key: statistics.median(times) for key, times in blocks.items()},
        "speedup": [1 / ratio.value, 1 / ratio.high, 1 / ratio.low],
        "gpu": {key: gpu_time(run) for key, run in steps.items()},
    }


def steady_ms(step: Step) -> float:
    """Return the median time of a step in a block that took as long as the one before."""
    least, most = BLOCKS
    times = [block_ms(step) for _ in range(least)]
    while abs(times[-1] / times[-2] - 1) > STEADY and len(times) < most:
        times.append(block_ms(step))
    return times[-1]


def block_ms(step: Step) -> float:
    """Return the median time of a step between events of the stream."""
    import torch

    events = [torch.cuda.Event(enable_timing=True) for _ in range(STEPS + 1)]
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in pairwise(events))


def gpu_time(step: Step) -> dict[str, float]:
    """Return the time of a step's kernels, and the share of it that Triton kernels take."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as record:
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
    kernels = [(e.key, e.self_device_time_total) for e in record.key_averages()]
    whole = sum(us for _, us in kernels) or 1.0
    triton = sum(us for key, us in kernels if key.startswith("triton_"))
    return {"gpu_ms": whole / STEPS / 1e3, "share": triton / whole}


# ------------------------------------------------------------------------------------- processes


def run_part(name: str, side: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure a side in a fork of this process, which has loaded what every side needs.

    Raises:
        RuntimeError: it failed, or took too long.
    """
    place = options.work / name
    place.mkdir(parents=True, exist_ok=True)
    output = place / f"{side}.log"
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        with output.open("w") as file:
            os.setsid()
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        write_part(name, side, place, options)
    try:
        wait_for(pid, tuning_limit_s(options.gpu_seconds))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # and the compilers that it started
    lines = output.read_text().splitlines()
    results = [line.partition(" ")[2] for line in lines if line.startswith("result: ")]
    if not results:
        raise RuntimeError(f"{name}, {side}: " + "\n".join(lines)[-1500:])
    notes = [line for line in lines if line.startswith("solkit:")]
    return {**json.loads(results[-1]), **({"notes": notes} if notes else {})}


def write_part(name: str, side: str, place: Path, options: argparse.Namespace) -> NoReturn:
    """Print what is measured, and end; a failure is printed, with exit code 1."""
    code = 1
    try:
        result = measure_side(name, side, place, options.gpu_seconds, options.rounds)
        print(f"\nresult: {json.dumps(result)}", flush=True)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def wait_for(pid: int, limit_s: float) -> None:
    """Wait until a child has ended, or for so long; then it is killed."""
    until_s = time.monotonic() + limit_s
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if time.monotonic() > until_s:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return
        time.sleep(0.05)


def stages(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield model and side of each stage; max-autotune, which says least of SolKit, comes last."""
    ours = [side for side in options.sides if side != SIDES[2]]
    yield from ((name, side) for name in options.models for side in ours)
    if SIDES[2] in options.sides:
        yield from ((name, SIDES[2]) for name in options.models)


def summary(results: dict[str, Any]) -> dict[str, Any]:
    """Return each model's ratios to the default: above 1 if the default takes longer."""
    rows: dict[str, Any] = {}
    for name in MODELS:
        parts = {side: results.get(f"{name}/{side}", {}) for side in SIDES}
        turns = {side: part["turns"] for side, part in parts.items() if "turns" in part}
        if not any(parts.values()):
            continue
        gpu = {side: turn["gpu"] for side, turn in turns.items()}
        rows[name] = {
            "wall_s": {side: part.get("wall_s") for side, part in parts.items()},
            "step_ms": {side: turn["step_ms"] for side, turn in turns.items()},
            "speedup": {side: turn["speedup"] for side, turn in turns.items()},
            "gpu_speedup": {s: g["default"]["gpu_ms"] / g[s]["gpu_ms"] for s, g in gpu.items()},
            "share": {side: g["default"]["share"] for side, g in gpu.items()},
        }
    models = list(rows.values())
    for side in SIDES[1:]:
        ratios = [row["speedup"][side][0] for row in models if side in row["speedup"]]
        if ratios:
            rows[f"mean {side}"] = exp(sum(map(log, ratios)) / len(ratios))
    return rows


def load(names: list[str]) -> None:
    """Import what parts need, without the GPU: forks have it."""
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # or asking for a GPU would spoil forks
    import torch  # noqa: F401

    import solkit  # noqa: F401

    if OF_TRANSFORMERS.intersection(names):
        import transformers  # noqa: F401


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--gpu-seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=12, help="Blocks of each side; 0 for none.")
    parser.add_argument("--seconds", type=float, default=480.0, help="Begin no stage after these.")
    options = parser.parse_args()
    options.models, options.sides = options.models.split(","), options.sides.split(",")
    begun_s = time.monotonic()
    results = json.loads(options.json.read_text()) if options.json.exists() else {}
    results.pop("summary", None)
    load(options.models)
    for name, side in stages(options):
        key = f"{name}/{side}"
        if key in results or time.monotonic() - begun_s > options.seconds:
            continue
        try:
            results[key] = run_part(name, side, options)
        except RuntimeError as error:
            results[key] = {"error": str(error)}
        print(f"{time.monotonic() - begun_s:.0f} s: {key} {results[key]}", flush=True)
        document = {**results, "summary": summary(results)}
        options.json.write_text(json.dumps(document, indent=1))
    print(json.dumps(summary(results), indent=1))


if __name__ == "__main__":
    main()
