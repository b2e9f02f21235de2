"""Judge public timings, and write a table of them: ``solkit judge`` on what others report.

    python bench/judge_public.py OUT [--kernelbench REPOSITORY] [--kernelbench-com REPOSITORY]
        [--cuda-l1 REPOSITORY] [--aiter REPOSITORY [--every N]] [--liger REPOSITORY] [--shipped]

Each option names a checkout of a public repository (docs/lab/judging.md says which); `--shipped`
judges the rows of the shipped sets by the hard bounds that are stored with them. OUT gets a report
of each set, ``solkit.judge/1``, and the table is printed. Needs no GPU.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from solkit.core.judging import JudgeReport, Plausibility
from solkit.datasets.store import shipped
from solkit.pipeline.judging import judge
from solkit.report.judging import ORDER, counts, dumps, worst_first

JUDGED = Path(__file__).parent / "judged"
GFX = {"gfx942": "mi325x", "gfx950": "mi355x"}
"""The fastest catalogued GPU of each architecture by which AITER names GPUs. gfx942 is an MI300X or
MI325X with 304 compute units, and an MI308X with 80: no resource of those is faster."""


@dataclass(frozen=True)
class PublicSet:
    """Files of one source with what judging them takes."""

    name: str
    files: tuple[Path, ...]
    problems: Path | None
    device: str | None = None
    baseline: Path | None = None


def kernelbench(repository: Path) -> Iterator[PublicSet]:
    """Timings of KernelBench's references on H100s, eager and compiled."""
    for folder in sorted((repository / "results" / "timing").glob("H100*")):
        files = tuple(sorted(folder.glob("*.json")))
        yield PublicSet(f"KernelBench, {folder.name}", files, repository / "KernelBench")


def kernelbench_com(repository: Path) -> Iterator[PublicSet]:
    """Runs of kernelbench.com's hard board on an H100 PCIe."""
    runs = sorted((repository / "public" / "data" / "rundetail").rglob("*.json"))
    on = {path: json.loads(path.read_text("utf-8")) for path in runs}
    files = tuple(p for p, run in on.items() if (run["gpu"], run["bench"]) == ("h100", "hard"))
    problems = repository / "benchmarks" / "hard" / "problems-h100"
    yield PublicSet("kernelbench.com, H100", files, problems, "h100-pcie")


def cuda_l1(repository: Path) -> Iterator[PublicSet]:
    """CUDA-L1's speed-ups, which have no times."""
    file = repository / "optimized_cuda_code" / "h100.json"
    yield PublicSet("CUDA-L1, H100", (file,), None, "h100-sxm")


def aiter_kernels(repository: Path, folder: Path, every: int) -> Iterator[PublicSet]:
    """AITER's tuned kernels on AMD's GPUs: products are judged, mixtures of experts are listed.

    There are 54,000 rows of almost as many shapes: `every` takes one of so many.
    """
    configs = repository / "aiter" / "configs"
    for name, place in (("general shapes", configs), ("models", configs / "model_configs")):
        rows = []
        for file in sorted(place.glob("*.csv")):
            with file.open(encoding="utf-8") as text:
                rows += [aiter_row(row, file.stem) for row in csv.DictReader(text) if "us" in row]
        if rows:
            table = written(folder / f"aiter_{place.name}.csv", rows[::every])
            yield PublicSet(f"AITER, {name}", (table,), JUDGED)


def aiter_row(row: dict[str, str], file: str) -> dict[str, object]:
    """Return a row of AITER's with the sizes of judged/gemm.py or gemm_fp4.py.

    Scales of blocks of 8-bit numbers are left out: less than a percent of the bytes.
    """
    sizes = {name.upper(): size for name, size in row.items()}
    is_product = {"M", "N", "K"} <= sizes.keys()
    shape = {name: sizes[name] for name in "BMNK" if is_product and name in sizes}
    if is_product and "a4w4" in file:
        problem = "gemm_fp4"
    else:
        problem = "gemm" if is_product else file
        batched = {"a8w8_tuned_batched": "int8", "a8w8": "float8_e4m3fn", "": "bfloat16"}
        of_file = next(dtype for part, dtype in batched.items() if part in file)
        named = row.get("q_dtype_w") or row.get("dtype") or of_file
        shape["dtype"] = named.removeprefix("torch.").replace("fnuz", "fn")
    return {
        "problem": problem,
        "device": GFX.get(row.get("gfx", ""), row.get("gfx") or "a GPU without a name"),
        "shape": ",".join(f"{name}={size}" for name, size in shape.items()),
        "time_us": row["us"],
        "solution": file,
    }


def liger_kernel(repository: Path, folder: Path) -> Iterator[PublicSet]:
    """Liger-Kernel's times on data-centre GPUs: of its kernels and of what they replace."""
    for name in ("", "_cutile", "_cutedsl"):
        file = repository / "benchmark" / "data" / f"all_benchmark_data{name}.csv"
        with file.open(encoding="utf-8") as text:
            timed = [
                row
                for row in csv.DictReader(text)
                if row["metric_name"] == "speed" and "GeForce" not in row["gpu_name"]
            ]
        table = written(folder / f"liger{name}.csv", [liger_row(row) for row in timed])
        yield PublicSet(f"Liger-Kernel, {file.name}", (table,), JUDGED)


LIGER = {
    "llama4_rope": "rope", "qwen2vl_mrope": "rope", "tiled_geglu": "geglu",
    "tiled_swiglu": "swiglu", "fused_moe": "swiglu",
    "fused_linear_cpo_loss": "fused_linear_preference",
    "fused_linear_orpo_loss": "fused_linear_preference",
    "fused_linear_simpo_loss": "fused_linear_preference",
    "fused_linear_grpo_loss_token": "fused_linear_grpo",
    "fused_linear_grpo_loss_sequence": "fused_linear_grpo",
    "kto_loss": "kto", "distill_jsd_loss": "distill_jsd", "distill_cosine_loss": "distill_cosine",
    "fused_neighborhood_attention": "neighborhood_attention",
}  # fmt: skip
"""Operations of judged/liger.py, where Liger calls them otherwise."""

LIGER_SIZES = {
    "columns": ("V", "vocab_size", "N", "C", "ffn_local", "intermediate_size", "intermediate_dim"),
    "hidden": ("H", "hidden_size", "D"),
    "heads": ("num_heads", "num_q_heads", "num_attention_heads"),
    "kv_heads": ("num_kv_heads", "num_key_value_heads"),
    "experts": ("E",),
    "top": ("K",),
}
VOCABULARIES = {
    "llama_2_7b": 32000, "llama_3_8b": 128256, "qwen2.5_7b": 152064, "qwen2.5_14b": 152064,
    "qwen2.5_72b": 152064, "deepseek_v2_lite": 102400, "deepseek_v3": 129280,
}  # fmt: skip
"""From Liger's benchmark_model_configs.py."""


def liger_row(row: dict[str, str]) -> dict[str, object]:
    """Return a row of Liger's with the sizes of judged/liger.py.

    ``megatron_*`` time the gradients of a sum, forward pass included, as their backward passes; and
    their losses in a loop that does not flush L2. All else is timed by Triton's ``do_bench``, which
    does.
    """
    kernel, mode = row["kernel_name"], row["kernel_operation_mode"].removeprefix("no-grad-")
    config = json.loads(row["extra_benchmark_config_str"])
    config[row["x_name"]] = row["x_value"]
    sizes = {
        own: config[name]
        for own, names in LIGER_SIZES.items()
        for name in names
        if config.get(name)
    }
    batch = int(config.get("B") or config.get("bsz") or config.get("batch_size") or 1)
    tokens = int(
        config.get("T") or config.get("seq_len") or config.get("L") or config.get("S") or 1
    )
    sizes["tokens"] = config.get("BT") or config.get("M") or batch * tokens
    if kernel in ("fused_neighborhood_attention", "multi_token_attention"):
        sizes |= {"batch": batch, "tokens": tokens, "size": config.get("kernel_size", 3)}
        sizes["dilation"] = config.get("dilation", 1)
    if "model_config" in config:
        sizes["columns"] = VOCABULARIES[config["model_config"]]
    if "group" in kernel:
        sizes |= {"size": config["H"], "columns": config.get("C") or config.get("hidden_size")}
        sizes["tokens"] = config.get("M") or int(config["BT"]) // int(config["H"])
    elif "hidden" in sizes and ("columns" not in sizes or kernel.endswith("rms_norm")):
        sizes["columns"] = sizes["hidden"]
    if kernel == "megatron_cross_entropy":
        sizes["columns"] = int(config["V"]) // config["TP"]
    if kernel.startswith("megatron") and mode != "forward":
        mode = "sum"
    narrow = kernel.startswith("megatron")
    dtype = config.get("dtype", "bfloat16" if narrow else "float32").removeprefix("torch.")
    return {
        "problem": "liger", "device": row["gpu_name"], "time_ms": row["y_value_50"],
        "solution": f"{kernel} {row['kernel_provider']}",
        "l2": "" if kernel == "megatron_cross_entropy" else "cold",
        "shape": ",".join(f"{name}={size}" for name, size in sizes.items()),
        "operation": LIGER.get(kernel, kernel), "mode": mode, "dtype": dtype,
    }  # fmt: skip


def written(table: Path, rows: list[dict[str, object]]) -> Path:
    """Write rows as a plain table of times."""
    with table.open("w", encoding="utf-8", newline="") as text:
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return table


def judge_set(public: PublicSet) -> JudgeReport:
    """Judge the files of a set."""
    return judge(
        public.files, problems=public.problems, device=public.device, baseline=public.baseline
    )


def table_row(name: str, report: JudgeReport) -> str:
    """Return a set's row: rows, the share that was judged, and the number of each verdict."""
    number = counts(report)
    total = len(report.judgements)
    judged = total - number.get(Plausibility.NOT_JUDGED, 0)
    cells = [str(number.get(verdict, 0)) for verdict in ORDER[:-1]]
    odd = sum(bool(judgement.suspicions) for judgement in report.judgements)
    return f"| {name} | {total} | {judged / max(total, 1):.0%} | {' | '.join(cells)} | {odd} |"


def remarks(report: JudgeReport) -> Iterator[str]:
    """Yield the rows below a bound, and why rows were not judged."""
    reasons: Counter[str] = Counter()
    for judgement in worst_first(report.judgements):
        if judgement.plausibility is Plausibility.NOT_JUDGED:
            reasons.update(reason[:120] for reason in judgement.reasons)
        elif judgement.plausibility in ORDER[:2]:
            yield f"  {judgement.row.family} {dict(judgement.row.shape)}: {judgement.reasons[0]}"
    for reason, number in reasons.most_common(8):
        yield f"  not judged ({number}): {reason}"


def shipped_rows() -> Iterator[str]:
    """Yield a line for each shipped set: correct rows, and those under their own hard bound."""
    import polars

    for name in ("h100", "h200", "h100_triton371"):
        rows = shipped(name).scan()
        timed = rows.filter(polars.col("time_ms").is_not_null() & polars.col("hard_bound_ms").gt(0))
        under = timed.filter(polars.col("time_ms") < 0.99 * polars.col("hard_bound_ms"))
        total, below = (frame.select(polars.len()).collect().item() for frame in (timed, under))
        yield f"shipped {name}: {total} timed rows, {below} under their hard bound"


def main(out: Path, sets: Iterable[PublicSet]) -> None:
    """Judge all sets; print the table and what is odd."""
    heads = " | ".join(verdict.value.replace("_", " ") for verdict in ORDER[:-1])
    lines = [f"| set | rows | judged | {heads} | suspicious |", "|---|" + "---:|" * 8]
    notes: list[str] = []
    for public in sets:
        report = judge_set(public)
        name = "".join(c if c.isalnum() else "_" for c in public.name)
        (out / f"{name}.json").write_text(dumps(report), encoding="utf-8")
        lines.append(table_row(public.name, report))
        notes += [public.name, *remarks(report)]
        print(lines[-1], flush=True)
    print("\n".join([*lines, *notes]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    for option in ("--kernelbench", "--kernelbench-com", "--cuda-l1", "--aiter", "--liger"):
        parser.add_argument(option, type=Path, metavar="REPOSITORY")
    parser.add_argument("--every", type=int, default=1, help="of AITER's rows, one of so many")
    parser.add_argument("--shipped", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        chosen = [
            *(kernelbench(options.kernelbench) if options.kernelbench else ()),
            *(kernelbench_com(options.kernelbench_com) if options.kernelbench_com else ()),
            *(cuda_l1(options.cuda_l1) if options.cuda_l1 else ()),
            *(liger_kernel(options.liger, Path(scratch)) if options.liger else ()),
            *(aiter_kernels(options.aiter, Path(scratch), options.every) if options.aiter else ()),
        ]
        main(options.out, chosen)
    if options.shipped:
        print("\n".join(shipped_rows()))
