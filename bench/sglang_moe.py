"""SGLang's fused experts, tuned by `solkit batch` against the configurations that SGLang ships.

    pip install --no-deps sglang
    python bench/sglang_moe.py --work moe --seeds 2                       # needs a GPU
    python bench/sglang_moe.py --work moe --models deepseek_v2_lite --gpu-minutes 1.5
    python bench/sglang_moe.py --work moe --triage --device h200          # needs none

In use is what SGLang itself would take: its file for this GPU and Triton, else that of the newest
Triton which has one, else its default. Choices of other GPUs' files are measured first. For each
model the results go into the work folder, a file per seed, and are not tuned again. Prints for each
batch size what was chosen and the ratio of the final, which interleaves both; then the geometric
mean (what is kept counts as 1, as the file keeps it), keys that are kept, and how many keys two
seeds agree on: the same configuration, one that the search itself found as fast, or within .5 %.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import solkit
from solkit.core import BatchSettings, Value
from solkit.report import batch as page
from solkit.tuner.manifest import Limits, Manifest, ManifestEntry, Workload, write_manifest

sys.path.insert(0, str(Path(__file__).parent / "sglang"))
from alone import import_alone

KERNEL = Path(__file__).parent / "sglang" / "fused_moe.py"
BATCH_SIZES = (1, 8, 32, 64, 256, 512, 1024, 4096)
AGREES = 0.005
"""The share by which two times may differ and still be the same choice."""

Key = dict[str, Any]


@dataclass(frozen=True)
class Model:
    """The fused experts of a model: how many, their width, the hidden size, experts per token."""

    experts: int
    width: int
    hidden: int
    top_k: int


MODELS = {
    "qwen3_30b_a3b": Model(128, 768, 2048, 8),
    "mixtral_8x7b": Model(8, 14336, 4096, 2),
    "deepseek_v2_lite": Model(64, 1408, 2048, 6),
    "olmoe_1b_7b": Model(64, 1024, 2048, 8),
}
"""From their published configurations (config.json of each model)."""


@functools.cache
def configurations(device: str) -> ModuleType:
    """Return SGLang's module that finds configurations, for a GPU's name."""
    executing = SimpleNamespace(deterministic=SimpleNamespace(enable_deterministic_inference=False))
    return import_alone(
        "sglang.srt.layers.moe.moe_runner.triton_utils.fused_moe_triton_config",
        {
            "sglang.srt.runtime_context": {"get_exec": lambda: executing},
            "sglang.srt.utils": {"get_device_name": lambda: device, "is_hip": lambda: False},
        },
    )


def in_use(model: Model, tokens: int, device: str) -> Mapping[str, Value]:
    """Return what SGLang takes; Triton's own warps and stages where it names none."""
    module = configurations(device)
    table = module.get_moe_configs(model.experts, model.width, None)
    if table is None:
        sizes = tokens, model.experts, model.width, model.hidden, model.top_k
        config = module.get_default_config(*sizes, None, False)
    else:
        config = table[min(table, key=lambda size: abs(size - tokens))]
    return {"num_warps": 4, "num_stages": 3, **config}


def files_of_others(model: Model, device: str) -> list[str]:
    """Return SGLang's files of NVIDIA's other GPUs for these experts."""
    folder = Path(str(configurations(device).__file__)).parent / "configs"
    pattern = f"*/E={model.experts},N={model.width},device_name=NVIDIA_*.json"
    own = f"device_name={device.replace(' ', '_')}.json"
    return [
        str(path)
        for path in sorted(folder.glob(pattern))
        if "dtype=" not in path.name and "_down" not in path.name and not path.name.endswith(own)
    ]


def manifest_of(model: Model, device: str, sizes: Sequence[int], emit: str) -> Manifest:
    """Return the manifest: a shape a batch size, each with what SGLang takes there."""
    fixed = {"E": model.experts, "N": model.width, "K": model.hidden, "top_k": model.top_k}
    shapes = tuple(
        Workload({"M": tokens, **fixed}, params=in_use(model, tokens, device)) for tokens in sizes
    )
    entry = ManifestEntry(
        *(str(KERNEL), "fused_moe"),
        shapes=shapes,
        held_out=(),
        emit=(f"sglang-moe:{emit}",),
        choices=tuple(files_of_others(model, device)),
    )
    return Manifest("", (entry,), Limits())


def tune(name: str, seed: int, options: argparse.Namespace, device: str) -> Path | None:
    """Tune a model's batch sizes unless that was done; return the file with the result."""
    result = options.work / f"{name}-{seed}.json"
    if result.exists():
        return result
    options.work.mkdir(parents=True, exist_ok=True)
    path = options.work / f"{name}-{seed}.toml"
    manifest = manifest_of(MODELS[name], device, options.sizes, f"{name}-{seed}")
    path.write_text(write_manifest(manifest))
    log = path.with_suffix(".jsonl")
    batch = solkit.batch(
        path,
        gpu_minutes=options.gpu_minutes,
        device=options.device,
        triage=options.triage,
        settings=BatchSettings(
            seed=seed, log=None if options.triage else str(log), resume=log.exists(),
            use_database=False,
        ),
        show=lambda progress: print(page.status_line(progress), file=sys.stderr),
    )  # fmt: skip
    if options.triage:
        print("\n".join(f"{name} {row}" for row in batch.triage))
        return None
    if not batch.interrupted:
        result.write_text(page.dumps(batch))
    return result if result.exists() else None


def line(name: str, key: Key) -> str:
    before = key["default"]["time_ms"]
    shown = "no time" if before is None else f"{1e3 * before:8.1f} us"
    ratio = "kept" if speedup(key) == 1 else f"{speedup(key):.3f}"
    return f"{name:18} M={key['shape']['M']:<5} {shown}  {ratio:6} {key['measured']:3}"


def speedup(key: Key) -> float:
    """Return the gain of the written file: 1 where the configuration in use stays."""
    return float(key["speedup"]["value"]) if key["verdict"] == "faster" else 1.0


def agrees(first: Key, second: Key) -> bool:
    """Tell whether two runs chose alike for a key, or choices that either found as fast."""
    choice, rival = (key["best"] or key["default"] for key in (first, second))
    if choice["params"] == rival["params"]:
        return True
    alike = [row["params"] for key in (first, second) for row in key["equals"]]
    if choice["params"] in alike and rival["params"] in alike:
        return True
    return bool(abs(choice["time_ms"] / rival["time_ms"] - 1) <= AGREES)


def summary(results: Mapping[str, Sequence[Sequence[Key]]]) -> None:
    """Print each key, the geometric mean, and how many keys two runs agree on."""
    ratios: list[float] = []
    agreeing = compared = 0
    for name, runs in results.items():
        for keys in runs:
            print("\n".join(line(name, key) for key in keys))
            ratios += [speedup(key) for key in keys]
        by_size = [{key["shape"]["M"]: key for key in keys} for keys in runs[:2]]
        for size in set.intersection(*map(set, by_size)) if len(by_size) > 1 else ():
            compared += 1
            agreeing += agrees(*(keys[size] for keys in by_size))
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        kept = ratios.count(1.0)
        print(f"{len(ratios)} keys: {mean:.3f} in the geometric mean, {kept} kept")
    if compared:
        print(f"two runs agree on {agreeing} of {compared} keys")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder of results")
    parser.add_argument("--models", nargs="*", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--sizes", type=int, nargs="*", default=list(BATCH_SIZES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--gpu-minutes", type=float, default=2.0, help="of a model and seed")
    parser.add_argument("--device", help="for the triage; default: this machine's GPU")
    parser.add_argument("--name", help="SGLang's name of the GPU; default: this machine's")
    parser.add_argument("--triage", action="store_true", help="spend no GPU time")
    options = parser.parse_args()
    import torch

    device = options.name or torch.cuda.get_device_name()
    results: dict[str, list[list[Key]]] = {}
    for name in options.models:
        files = [tune(name, seed, options, device) for seed in range(options.seeds)]
        results[name] = [json.loads(file.read_text())["results"] for file in files if file]
    summary(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
