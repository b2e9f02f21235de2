"""Is the GPU-less analysis right? Liger-Kernel's own launchers, unmodified, forward and backward.

Without a GPU it lists what each op launches on ``--device`` and what that compiles to. With
``--live``, on a CUDA machine, it runs the same ops for real, does the GPU-less analysis in a
child that sees no GPU, and holds both against each other, launch by launch::

    python bench/liger_ops.py --device h100 --json liger.json
    python bench/liger_ops.py --live

Needs ``pip install liger-kernel``. Exits with 1 where an op failed or a launch differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from solkit.core import Device, KernelAnalysis
from solkit.kernelfiles import Workload
from solkit.roofline import devices

TOKENS, HIDDEN, VOCABULARY = 1024, 2048, 32000
COMPARED = ("name", "grid", "count", "num_warps", "num_stages", "registers", "spills")


# --------------------------------------------------------------------------------------- ops


def tensor(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Random, on the GPU, with a gradient."""
    return torch.randn(*shape, dtype=dtype, device="cuda").requires_grad_()


def constant(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Random, on the GPU, without a gradient."""
    return torch.randn(*shape, dtype=dtype, device="cuda")


def indices(high: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(0, high, shape, dtype=dtype, device="cuda")


def distribution(*shape: int) -> torch.Tensor:
    return torch.softmax(constant(*shape, dtype=torch.float32), dim=-1)


def rotary(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    angles = constant(*shape)
    return angles.cos(), angles.sin()


def grpo(ops: Any) -> Any:
    batch, length, vocabulary = 4, 256, 8192
    logits = tensor(batch, length + 1, vocabulary)
    old, ref = (constant(batch, length, dtype=torch.float32) for _ in range(2))
    tokens, mask = indices(vocabulary, batch, length), indices(2, batch, length)
    advantages = constant(batch, dtype=torch.float32)
    return ops.GrpoLossFunction.apply(
        logits, old, ref, tokens, advantages, mask, 0.9, 0.04, 0.2, 0.2, False
    )


def mhc_coefficients(ops: Any) -> Any:
    streams, width = 4, 1024
    columns = streams * streams + 2 * streams
    x = tensor(2, 128, streams, width)
    phi = tensor(streams * width, columns)
    bias = tensor(columns, dtype=torch.float32)
    alphas = [tensor(1, dtype=torch.float32).detach().sum().requires_grad_() for _ in range(3)]
    return ops.LigerMHCCoeffsFunction.apply(x, phi, bias, *alphas, True, 20, 1e-6, 1e-6, 1e-6, 2.0)


def mhc_post(ops: Any) -> Any:
    streams, width = 4, 1024
    h_post, h_res = (tensor(2, 128, *s, dtype=torch.float32) for s in ((4,), (4, 4)))
    return ops.LigerMHCPostResFunction.apply(
        tensor(2, 128, streams, width), tensor(2, 128, width), h_post, h_res
    )


OPS: Mapping[str, Callable[[Any], Any]] = {
    "attn_res": lambda o: o.LigerAttnResFunction.apply(
        tensor(8, TOKENS, HIDDEN), tensor(HIDDEN), tensor(HIDDEN), 1e-6
    ),
    "cross_entropy": lambda o: o.LigerCrossEntropyFunction.apply(
        tensor(TOKENS, VOCABULARY), indices(VOCABULARY, TOKENS), None
    ),
    "dyt": lambda o: o.LigerDyTFunction.apply(
        tensor(TOKENS, HIDDEN), tensor(1), tensor(HIDDEN), tensor(HIDDEN)
    ),
    "embedding": lambda o: o.LigerEmbeddingFunction.apply(
        tensor(VOCABULARY, HIDDEN), indices(VOCABULARY, 4, 256)
    ),
    "fused_add_rms_norm": lambda o: o.LigerFusedAddRMSNormFunction.apply(
        tensor(TOKENS, HIDDEN), tensor(TOKENS, HIDDEN), tensor(HIDDEN), 1e-6
    ),
    "fused_ce_tvd": lambda o: o.LigerFusedCETVDFunction.apply(
        tensor(TOKENS, 8192), constant(TOKENS, 8192), indices(8192, TOKENS)
    ),
    "fused_gate_up_silu_mul": lambda o: o.LigerFusedGateUpSiLUMulFunction.apply(
        tensor(TOKENS, 2 * HIDDEN)
    ),
    "fused_linear_cross_entropy": lambda o: o.LigerFusedLinearCrossEntropyFunction.apply(
        tensor(TOKENS, HIDDEN), tensor(VOCABULARY, HIDDEN), indices(VOCABULARY, TOKENS)
    ),
    "fused_linear_jsd": lambda o: o.LigerFusedLinearJSDFunction.apply(
        tensor(TOKENS, 512), tensor(8192, 512), constant(TOKENS, 512), constant(8192, 512)
    ),
    "fused_linear_kl_div": lambda o: o.LigerFusedLinearKLDivFunction.apply(
        tensor(TOKENS, 512), tensor(8192, 512), distribution(TOKENS, 8192)
    ),
    "fused_moe": lambda o: o.LigerFusedMoEFunction.apply(
        tensor(256, 512),
        tensor(8, 2 * 256, 512),
        tensor(8, 512, 256),
        indices(8, 256, 2, dtype=torch.int32),
        distribution(256, 2),
    ),
    "geglu": lambda o: o.LigerGELUMulFunction.apply(tensor(TOKENS, HIDDEN), tensor(TOKENS, HIDDEN)),
    "group_norm": lambda o: o.LigerGroupNormFunction.apply(
        tensor(8, 64, 256), tensor(64), tensor(64), 64, 8, 1e-6
    ),
    "grpo_loss": grpo,
    "jsd": lambda o: o.LigerJSDFunction.apply(
        tensor(TOKENS, 8192, dtype=torch.float32), distribution(TOKENS, 8192).log()
    ),
    "kl_div": lambda o: o.LigerKLDivLossFunction.apply(
        tensor(TOKENS, 8192), distribution(TOKENS, 8192).bfloat16()
    ),
    "layer_norm": lambda o: o.LigerLayerNormFunction.apply(
        tensor(TOKENS, HIDDEN), tensor(HIDDEN), tensor(HIDDEN), 1e-6
    ),
    "mhc_coeffs": mhc_coefficients,
    "mhc_post_res": mhc_post,
    "mhc_pre": lambda o: o.LigerMHCPreFunction.apply(
        tensor(2, 128, 4, 1024), tensor(2, 128, 4, dtype=torch.float32)
    ),
    "modulated_rms_norm": lambda o: o.LigerModulatedRMSNormFunction.apply(
        tensor(4, 256, HIDDEN), tensor(HIDDEN), tensor(4, HIDDEN), tensor(4, HIDDEN), 1e-6
    ),
    "multi_token_attention": lambda o: o.LigerMultiTokenAttentionFunction.apply(
        tensor(2, 4, 128, 128), tensor(4, 4, 3, 3), None, 1, 1
    ),
    "neighborhood_attention": lambda o: o.LigerFusedNeighborhoodAttentionFunction.apply(
        tensor(2, 4, 256, 64), tensor(2, 4, 256, 64), tensor(2, 4, 256, 64)
    ),
    "poly_norm": lambda o: o.LigerPolyNormFunction.apply(
        tensor(TOKENS, HIDDEN), tensor(3), tensor(1)[0]
    ),
    "qwen2vl_mrope": lambda o: o.LigerQwen2VLMRopeFunction.apply(
        tensor(2, 16, 256, 128), tensor(2, 4, 256, 128), *rotary(3, 2, 256, 128), [16, 24, 24]
    ),
    "relu_squared": lambda o: o.LigerReLUSquaredFunction.apply(tensor(TOKENS, HIDDEN)),
    "rms_norm": lambda o: o.LigerRMSNormFunction.apply(
        tensor(TOKENS, HIDDEN), tensor(HIDDEN), 1e-6
    ),
    "rope": lambda o: o.LigerRopeFunction.apply(
        tensor(2, 16, 256, 128), tensor(2, 4, 256, 128), *rotary(1, 256, 128)
    ),
    "softmax": lambda o: o.LigerSoftmaxFunction.apply(tensor(TOKENS, HIDDEN)),
    "sparsemax": lambda o: o.LigerSparsemaxFunction.apply(tensor(TOKENS, HIDDEN), -1),
    "swiglu": lambda o: o.LigerSiLUMulFunction.apply(
        tensor(TOKENS, HIDDEN), tensor(TOKENS, HIDDEN)
    ),
    "tvd": lambda o: o.LigerTVDLossFunction.apply(tensor(TOKENS, 8192), distribution(TOKENS, 8192)),
}


def run(name: str) -> None:
    """One op forward, and backward from every output that has a gradient."""
    import liger_kernel.ops  # asks for the device at import, so only once that is settled

    torch.manual_seed(0)
    outputs = OPS[name](liger_kernel.ops)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    with_graph = [out for out in outputs if getattr(out, "grad_fn", None) is not None]
    torch.autograd.backward(with_graph, [torch.ones_like(out) for out in with_graph])


# ---------------------------------------------------------------------------------- analysis


def row(kernel: KernelAnalysis) -> dict[str, Any]:
    launch = kernel.launch
    return {
        "name": launch.name,
        "grid": list(launch.grid),
        "count": launch.count,
        "num_warps": launch.num_warps,
        "num_stages": launch.num_stages,
        "registers": kernel.facts.registers,
        "spills": kernel.facts.spills,
        "shared_bytes": kernel.facts.shared_bytes,
        "error": kernel.error,
    }


def analysed(device: Device, names: list[str]) -> dict[str, Any]:
    """Every op with no GPU: this very process is the one that is thrown away."""
    from solkit.adapters import fake_cuda, fake_triton
    from solkit.analysis.candidate import analyse

    fake_cuda.install(device)
    fake_triton.install(device)
    results = {}
    for name in names:
        print(f"analysing {name}", file=sys.stderr, flush=True)
        workload = Workload((), {}, None, lambda name=name: run(name))
        analysis = analyse(workload, device, {}, os.cpu_count() or 1)
        results[name] = {
            "status": analysis.status.value,
            "notes": list(analysis.notes),
            "launches": [row(kernel) for kernel in analysis.kernels],
        }
    return results


def measured(names: list[str]) -> dict[str, Any]:
    """Every op on the GPU: what the driver says of the kernels that ran."""
    from solkit.adapters import live_triton

    _without_tuning()
    results = {}
    for name in names:
        print(f"running {name}", file=sys.stderr, flush=True)
        try:
            run(name)  # tunes and compiles
            with live_triton.recording() as launches:
                run(name)
            torch.cuda.synchronize()
        except Exception as error:  # one op's failure must not hide the others
            results[name] = {"status": f"{type(error).__name__}: {error}", "launches": []}
            continue
        results[name] = {"status": "ran", "launches": [row(kernel) for kernel in launches]}
    return results


def _without_tuning() -> None:
    """Launch autotuned kernels in their first configuration, the one that is analysed."""
    from triton.runtime.autotuner import Autotuner

    tuned = Autotuner.run

    def run_first(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.configs = self.configs[:1]
        return tuned(self, *args, **kwargs)

    Autotuner.run = run_first


def analysed_in_child(arguments: argparse.Namespace) -> dict[str, Any]:
    """`analysed` in a process of its own, since it patches torch and triton."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "analysed.json"
        command = [sys.executable, __file__, "--device", arguments.device, "--json", str(file)]
        hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        child = subprocess.run(
            [*command, "--ops", *arguments.ops], env=hidden, stdout=subprocess.DEVNULL
        )
        if not file.exists():
            raise SystemExit(f"the GPU-less analysis died with exit code {child.returncode}")
        analysed: dict[str, Any] = json.loads(file.read_text())["analysed"]
        return analysed


# ------------------------------------------------------------------------------------ output


def show(row_: Mapping[str, Any]) -> str:
    grid = "x".join(map(str, row_["grid"]))
    figures = f"{row_['registers']} registers, {row_['spills']} spills, {row_['shared_bytes']} B"
    wrong = f"  {row_['error']}" if row_["error"] else ""
    return f"{row_['name']}[{grid}] x{row_['count']}, {row_['num_warps']} warps: {figures}{wrong}"


def list_launches(results: Mapping[str, Any]) -> bool:
    """Print what was analysed; whether all of it was complete."""
    for name, op in results.items():
        print(f"{name}: {op['status']}", *op["notes"], sep="\n    note: ")
        for launch in op["launches"]:
            print("   ", show(launch))
    complete = sum(op["status"] == "complete" for op in results.values())
    launches = sum(len(op["launches"]) for op in results.values())
    print(f"{complete} of {len(results)} ops complete, {launches} distinct launches")
    return complete == len(results)


def compare(analysed_: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Print equal or unequal per launch; whether all were equal."""
    equal_launches = all_launches = equal_ops = 0
    for name, op in live.items():
        print(f"{name}: {op['status']}", *analysed_[name]["notes"], sep="\n    note: ")
        left, right = analysed_[name]["launches"], op["launches"]
        pairs = list(zip(left, right, strict=False))
        equal = [all(a[key] == b[key] for key in (*COMPARED, "shared_bytes")) for a, b in pairs]
        for (a, b), same in zip(pairs, equal, strict=True):
            print("    equal  " if same else "    UNEQUAL", show(b))
            if not same:
                print("    GPU-less", show(a))
        for extra in left[len(pairs) :] + right[len(pairs) :]:
            print("    UNMATCHED", show(extra))
        equal_launches += sum(equal)
        all_launches += max(len(left), len(right))
        equal_ops += bool(pairs) and all(equal) and len(left) == len(right)
    print(f"{equal_launches} of {all_launches} launches equal, {equal_ops} of {len(live)} ops")
    return equal_ops == len(live)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="h100", help="the target, as in `solkit devices`")
    parser.add_argument("--live", action="store_true", help="run on this machine's GPU as well")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--ops", nargs="+", default=list(OPS), choices=list(OPS), metavar="OP")
    arguments = parser.parse_args()
    results: dict[str, Any] = {"device": arguments.device}
    if arguments.live:
        results["analysed"] = analysed_in_child(arguments)
        results["live"] = measured(arguments.ops)
        good = compare(results["analysed"], results["live"])
    else:
        results["analysed"] = analysed(devices.find(arguments.device), arguments.ops)
        good = list_launches(results["analysed"])
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
