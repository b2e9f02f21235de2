"""What the zoo (datasets/zoo) holds, and whether its kernels compute their references on a CPU.

    python bench/zoo.py                                # a table of kinds
    python bench/zoo.py --families                     # a table of families: docs/lab/zoo.md has it
    python bench/zoo.py --interpret                    # every file in Triton's interpreter
    python bench/zoo.py --interpret softmax gemm/split_k --configurations 4

``--interpret`` runs some configurations of each file, drawn at random, at a size of a few thousand
elements in float32 and prints those that are wrong; it exits with 1 where there are any. A file
that has no valid configuration at so small a size is named as well. CUDA C++ needs a GPU.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
ZOO = ROOT / "datasets" / "zoo"

ROWS = {"M": 150, "N": 1200}  # enough for programs that take several rows
TINY: Mapping[str, Mapping[str, Any]] = {
    "adam_step": {"N": 1000},
    "argmax": {"M": 5, "N": 300},
    "argsort_rows": {"M": 3, "N": 200, "RANGE": 50},
    "attention_backward": {"B": 1, "H": 2, "S": 50, "D": 32},
    "attention_cross": {"B": 2, "H": 2, "Q": 50, "S": 70, "D": 32},
    "attention_decode": {"B": 2, "H": 4, "KV": 2, "S": 100, "D": 32},
    "attention_forward": {"B": 1, "H": 2, "KV": 1, "S": 50, "D": 32},
    "attention_fp8": {"B": 1, "H": 2, "S": 80, "D": 32},
    "attention_long": {"B": 1, "H": 2, "KV": 1, "S": 100, "D": 32},
    "attention_paged": {"B": 2, "H": 4, "KV": 2, "S": 70, "D": 32, "PAGE": 16},
    "attention_windowed": {"B": 1, "H": 2, "S": 100, "D": 32, "W": 20},
    "average_pool2d": {"B": 1, "H": 9, "W": 11, "C": 20},
    "batch_norm": {"B": 2, "C": 5, "HW": 50},
    "batched_cholesky": {"B": 37, "N": 13},
    "batched_matmul_tiny": {"B": 37, "N": 13},
    "batched_triangular_solve": {"B": 21, "N": 13, "K": 7},
    "bilateral_filter": {"B": 2, "H": 19, "W": 41, "R": 2},
    "bilinear_resize": {"P": 3, "H": 9, "W": 11, "OH": 20, "OW": 33},
    "bit_pack": {"M": 9, "N": 100},
    "black_scholes": {"N": 1000},
    "block_sparse": {"M": 128, "K": 128, "N": 40, "SIDE": 32, "BLOCKS": 2},
    "box_iou": {"M": 21, "N": 124},
    "bucketize": {"N": 3000, "EDGES": 50, "SKEW": 2.0},
    "color_histogram_equalise": {"N": 1001, "C": 3},
    "column_sum": {"M": 150, "N": 50},
    "concatenate": {"M": 7, "N1": 40, "N2": 30},
    "conv1d": {"B": 1, "T": 37, "C": 20, "K": 24},
    "conv1d_depthwise": {"B": 1, "T": 37, "C": 20},
    "conv2d": {"B": 1, "H": 9, "W": 11, "C": 16, "K": 20},
    "conv2d_depthwise": {"B": 1, "H": 9, "W": 11, "C": 20},
    "conv3d_implicit": {"B": 2, "D": 3, "H": 5, "W": 7, "C": 20, "K": 24},
    "coo_spmv": {"M": 300, "N": 200, "NNZ": 2000, "SKEW": 2.0, "SORTED": 1},
    "cosine_top1": {"M": 40, "N": 150, "K": 50},
    "counting_sort_digit": {"N": 5003, "BITS": 4, "SHIFT": 3, "SKEW": 3.0},
    "cross_correlation1d": {"B": 3, "T": 1100, "LAGS": 21},
    "cross_entropy": {"T": 5, "V": 300},
    "csr_spmm": {"M": 30, "N": 40, "PER_ROW": 5, "D": 40, "SKEW": 2.0},
    "csr_spmv": {"M": 50, "N": 60, "PER_ROW": 5},
    "cummax": {"M": 3, "N": 150},
    "cumprod_rows": {"M": 5, "N": 300},
    "cumsum": {"M": 3, "N": 150},
    "dequantise": {"M": 3, "N": 256},
    "dft_small": {"M": 70, "L": 64},
    "dropout_add": {"N": 1000},
    "edit_distance_batch": {"B": 20, "L": 40},
    "ell_spmv": {"M": 300, "N": 200, "WIDTH": 20, "FILL": 0.5},
    "embedding": {"T": 21, "V": 10, "D": 40},
    "embedding_backward": {"T": 70, "V": 20, "D": 70, "SKEW": 2.0},
    "embedding_bag": {"BAGS": 9, "PER_BAG": 7, "V": 50, "D": 40, "SKEW": 2, "RAGGED": 2},
    "fft_rows": {"M": 21, "N": 128},
    "fir_filter": {"B": 3, "T": 700, "K": 13},
    "first_order_scan": {"B": 1, "T": 37, "C": 20},
    "gated_mlp": {"M": 33, "N": 50, "K": 70},
    "gather_rows": {"T": 21, "S": 10, "D": 40},
    "gaussian_blur": {"B": 2, "H": 37, "W": 51, "R": 3},
    "gemm": {"M": 40, "N": 48, "K": 64},
    "gemm_batched": {"B": 2, "M": 20, "N": 40, "K": 50},
    "gemm_chain": {"M": 70, "D": 32, "H": 50},
    "gemm_complex": {"M": 40, "N": 33, "K": 50},
    "gemm_epilogue": {"M": 40, "N": 33, "K": 50},
    "gemm_fp8": {"M": 40, "N": 48, "K": 64},
    "gemm_fp8_blockwise": {"M": 40, "N": 136, "K": 256},
    "gemm_grouped": {"T": 60, "G": 3, "N": 40, "K": 50},
    "gemm_int4": {"M": 20, "N": 40, "K": 256},
    "gemm_int8": {"M": 40, "N": 72, "K": 80},
    "gemm_large": {"M": 40, "N": 48, "K": 64},
    "gemm_mixed": {"M": 40, "N": 48, "K": 56},
    "gemm_reduce": {"M": 40, "N": 150, "K": 64},
    "gemm_skinny": {"M": 4, "N": 50, "K": 300},
    "gemm_tf32": {"M": 40, "N": 33, "K": 50},
    "global_norm": {"N": 200_000},
    "global_standard_deviation": {"N": 200_001},
    "gram": {"M": 40, "K": 50},
    "grid_sample": {"B": 2, "C": 5, "H": 9, "W": 11, "P": 150},
    "group_norm": {"B": 2, "C": 8, "HW": 50, "G": 4},
    "haar_wavelet": {"M": 50, "N": 96, "LEVELS": 3},
    "hamming_distance": {"M": 37, "N": 72, "WORDS": 8},
    "hash_lookup": {"Q": 2000, "CAPACITY": 512, "LOAD": 0.6, "SKEW": 2.0},
    "heat3d": {"X": 7, "Y": 9, "Z": 20},
    "histogram": {"N": 5000, "BINS": 64, "dtype": "uint8"},
    "implied_volatility": {"N": 1000},
    "index_add_rows": {"T": 50, "S": 10, "D": 40, "SKEW": 2.0, "BURST": 3},
    "index_select_columns": {"M": 5, "N": 100, "K": 40},
    "integer_hash": {"N": 1000, "ROUNDS": 3, "dtype": "int32"},
    "integral_image": {"B": 2, "H": 70, "W": 150},
    "jacobi_sweeps": {"M": 37, "N": 51, "SWEEPS": 3},
    "jagged_to_padded": {"B": 5, "MEAN": 12, "L": 20, "D": 24, "SKEW": 2.0},
    "joint_histogram": {"N": 5000, "BINS": 20, "SKEW": 2.0, "dtype": "int32"},
    "kmeans_assign": {"N": 70, "K": 50, "D": 32},
    "knn_distances": {"M": 37, "N": 150, "D": 3, "K": 4},
    "kv_cache_append": {"T": 7, "KV": 2, "D": 16, "SLOTS": 20},
    "layer_norm": {"M": 9, "N": 300},
    "life_step": {"M": 37, "N": 176},
    "linear_attention": {"B": 1, "H": 2, "S": 100, "D": 16},
    "logcumsumexp": {"M": 3, "N": 1100},
    "long_scan": {"N": 70_001},
    "lora": {"M": 40, "N": 33, "K": 50},
    "mandelbrot": {"W": 50, "H": 19, "STEPS": 13},
    "masked_softmax": {"B": 2, "Q": 20, "K": 30},
    "matvec": {"N": 9, "K": 300},
    "max_pool2d": {"C": 3, "H": 9, "W": 11},
    "merge_sorted_rows": {"M": 2, "N1": 700, "N2": 431},
    "middle_sum": {"B": 2, "M": 50, "N": 30},
    "mla_decode": {"B": 2, "H": 20, "S": 70, "LATENT": 128, "ROPE": 16},
    "moe": {"T": 30, "E": 3, "N": 40, "K": 50},
    "moe_permute": {"T": 50, "E": 5, "TOP": 2, "D": 40, "SKEW": 1.0},
    "moe_routing": {"T": 700, "E": 7, "TOP": 2, "SKEW": 1.0},
    "monte_carlo_pi": {"S": 5, "N": 300, "dtype": "int32"},
    "moving_average": {"M": 3, "N": 700},
    "nbody_forces": {"M": 70, "N": 150},
    "nibble_unpack": {"M": 5, "N": 256, "GROUP": 64},
    "nms_mask": {"N": 600},
    "pad": {"C": 3, "H": 9, "W": 11},
    "padded_to_jagged": {"B": 5, "MEAN": 12, "L": 20, "D": 24, "SKEW": 2.0},
    "pairwise_distance": {"M": 20, "N": 30, "D": 16},
    "permute": {"B": 1, "S": 9, "H": 3, "D": 16},
    "pixel_shuffle": {"B": 1, "C": 3, "H": 9, "W": 40},
    "polynomial_evaluation": {"N": 1000, "DEGREE": 21},
    "potentials": {"N": 50},
    "prefix_xor": {"M": 100, "N": 300},
    "quantile_rows": {"M": 3, "N": 1100},
    "quantise_blocks": {"M": 3, "N": 256},
    "ragged_row_mean": {"ROWS": 50, "PER_ROW": 30, "SKEW": 2.0},
    "ray_spheres": {"N": 1000, "S": 50},
    "reverse_cumsum": {"B": 2, "T": 150, "C": 40},
    "rope": {"T": 5, "H": 3, "D": 16},
    "run_length_sums": {"N": 9001, "RUNS": 50},
    "scatter_add": {"T": 40, "S": 10, "D": 24},
    "scatter_max": {"T": 70, "S": 10, "D": 40, "SKEW": 2.0},
    "scatter_mean": {"T": 70, "S": 10, "D": 40, "SKEW": 2.0},
    "sddmm": {"M": 30, "N": 40, "PER_ROW": 5, "K": 40, "SKEW": 2.0},
    "segment_max": {"T": 70, "S": 10, "D": 24, "SKEW": 2.0},
    "segment_softmax": {"E": 200, "S": 20, "H": 3, "SKEW": 2.0},
    "segment_sum": {"T": 40, "S": 10, "D": 24},
    "segmented_cumsum": {"N": 9001, "EVERY": 700, "SKEW": 3.0},
    "sgd_momentum": {"N": 1000},
    "short_row_softmax": {"M": 150, "N": 33},
    "sliding_max": {"M": 3, "N": 700},
    "sobel": {"B": 2, "H": 19, "W": 48},
    "softmax": {"M": 4, "N": 1200},
    "sort_key_value": {"M": 3, "N": 100},
    "sort_rows": {"M": 3, "N": 50},
    "split_layer_norm": {"M": 2, "N": 20_003},
    "split_softmax": {"M": 2, "N": 20_003},
    "ssm_scan": {"B": 1, "L": 37, "C": 10, "N": 4},
    "stencil": {"M": 9, "N": 50},
    "stencil3d": {"X": 5, "Y": 9, "Z": 20},
    "syrk_scaled": {"M": 70, "K": 50},
    "top_k": {"M": 3, "N": 100, "K": 4},
    "top_p_mask": {"M": 3, "N": 1100},
    "transpose": {"M": 9, "N": 20},
    "tropical_product": {"M": 40, "N": 33, "K": 50},
    "two_pass_standardise": {"M": 300, "N": 70},
    "upsample_nearest": {"C": 3, "H": 5, "W": 7},
    "variance": {"M": 5, "N": 300},
    "vector_dot_large": {"N": 200_001},
    "viterbi": {"B": 5, "T": 9, "S": 40},
    "walsh_hadamard": {"M": 37, "N": 64},
    "weight_gradient": {"T": 100, "N": 40, "K": 30},
    "weighted_histogram": {"N": 3000, "BINS": 100, "SKEW": 2.0},
}
"""By family, sizes that divide no block; of those that are not here, `ROWS`."""

ROUNDS_FP8 = "Triton's interpreter rounds to fp8 without carrying into the exponent"
UNFIT = {"attention_fp8": ROUNDS_FP8, "quantise_blocks": ROUNDS_FP8}
"""Families whose results in the interpreter say nothing."""


@dataclass(frozen=True)
class Implementation:
    """A kernel file of the zoo, loaded.

    Attributes:
        family, kind: of its problem.
        name: the file's, without its ending.
        loaded: the file.
        listed: its ``SPACE``, as the file writes it.
        doc: what it says of itself.
    """

    family: str
    kind: str
    name: str
    loaded: Any
    listed: Mapping[str, Any]
    doc: str

    @property
    def is_cuda(self) -> bool:
        """True if it is written in CUDA C++; in Triton otherwise."""
        return "cpp_extension" in Path(self.loaded.description.path).read_text(encoding="utf-8")

    @property
    def shapes(self) -> list[dict[str, Any]]:
        """Every shape with every size."""
        problem = self.loaded.description.problem
        return [{**problem.sizes, **shape} for shape in problem.shapes]

    @property
    def default(self) -> dict[str, Any]:
        """The configuration that the file itself takes."""
        candidate = self.loaded.description.candidate
        return {name: candidate.params[name] for name in candidate.space.values}

    def configurations(self, shape: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Those that are valid at a shape."""
        return list(self.loaded.space(shape).walk())


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if options.interpret:
        os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported
        return interpret(read(options.names), options.configurations, options.seed)
    print(families(read(options.names)) if options.families else kinds(read(options.names)))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="FAMILY[/FILE]", help="only these")
    parser.add_argument("--families", action="store_true", help="a row for each family")
    parser.add_argument("--interpret", action="store_true", help="run them on the CPU")
    parser.add_argument("--configurations", type=int, default=1, metavar="N", help="of each file")
    parser.add_argument("--seed", type=int, default=0, help="of which configurations")
    return parser.parse_args(arguments)


def read(names: Iterable[str] = ()) -> list[Implementation]:
    """The files of the zoo, or those that are named; all of a family where that is named."""
    expected = set(names)
    paths = [path for path in sorted(ZOO.glob("*/*.py")) if path.name != "problem.py"]
    chosen = [
        path
        for path in paths
        if not expected or expected & {path.parent.name, f"{path.parent.name}/{path.stem}"}
    ]
    if not chosen:
        raise SystemExit(f"no such files in {ZOO}: {', '.join(sorted(expected))}")
    return [_loaded(path) for path in chosen]


def _loaded(path: Path) -> Implementation:
    from solkit import kernelfiles

    family = path.parent.name
    module = importlib.import_module(f"solkit.datasets.zoo.{family}.{path.stem}")
    problem = importlib.import_module(f"solkit.datasets.zoo.{family}.problem")
    loaded = kernelfiles.load(str(path))
    return Implementation(
        family, problem.KIND, path.stem, loaded, module.SPACE, module.__doc__ or ""
    )


# ---------------------------------------------------------------------------------------- tables


@dataclass
class Count:
    """How much there is of something.

    Attributes:
        files: by family, how many.
        problems: shapes of each family, and how many of its files apply to each.
        configurations: valid ones, over all files and shapes.
    """

    files: dict[str, int]
    problems: dict[tuple[str, str], int]
    configurations: int = 0

    @property
    def contested(self) -> int:
        """Problems with four implementations or more."""
        return sum(count >= 4 for count in self.problems.values())


def counts(implementations: Iterable[Implementation], by: str) -> dict[str, Count]:
    """What there is by ``"kind"`` or ``"family"``."""
    groups: dict[str, Count] = defaultdict(lambda: Count(defaultdict(int), defaultdict(int)))
    for implementation in implementations:
        count = groups[getattr(implementation, by)]
        count.files[implementation.family] += 1
        for shape in implementation.shapes:
            valid = len(implementation.configurations(shape))
            count.configurations += valid
            count.problems[implementation.family, str(shape)] += valid > 0
    return dict(sorted(groups.items()))


def kinds(implementations: Sequence[Implementation]) -> str:
    """A table of kinds, as Markdown."""
    head = ("kind", "families", "files", "problems", "of 4 or more files", "configurations")
    rows = [
        (kind, len(count.files), *_row(count))
        for kind, count in counts(implementations, "kind").items()
    ]
    total = [sum(int(row[place]) for row in rows) for place in range(1, len(head))]
    return _table(head, [*rows, ("all", *total)])


def families(implementations: Sequence[Implementation]) -> str:
    """A table of families by kind, as Markdown."""
    kind = {implementation.family: implementation.kind for implementation in implementations}
    counted = counts(implementations, "family")
    rows = [
        (kind[family], f"`{family}`", sum(count.files.values()), len(count.problems))
        for family, count in sorted(counted.items(), key=lambda item: (kind[item[0]], item[0]))
    ]
    head = ("kind", "family", "files", "problems", "configurations")
    return _table(head, [(*row, counted[row[1].strip("`")].configurations) for row in rows])


def _row(count: Count) -> tuple[int, int, int, int]:
    files = sum(count.files.values())
    return files, len(count.problems), count.contested, count.configurations


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(item) for item in line)} |" for line in lines)


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


# ----------------------------------------------------------------------------------- interpreting


def interpret(implementations: Iterable[Implementation], count: int, seed: int) -> int:
    """Run configurations of each file; prints what is wrong; 1 where anything is."""
    wrong = tried = 0
    start = time.monotonic()
    for implementation in implementations:
        if reason := UNFIT.get(implementation.family) or (
            "it is CUDA C++" if implementation.is_cuda else ""
        ):
            print(f"{implementation.family}/{implementation.name}: left out: {reason}")
            continue
        shape = tiny(implementation)
        valid = implementation.configurations(shape)
        if not valid:
            print(
                f"{implementation.family}/{implementation.name}: no valid configuration at {shape}"
            )
        chosen = random.Random(f"{seed} {implementation.family}/{implementation.name}").sample(
            valid, min(count, len(valid))
        )
        for params in chosen:
            tried += 1
            for error in errors(implementation, shape, params):
                wrong += 1
                print(
                    f"{implementation.family}/{implementation.name} with {params}: {error}",
                    flush=True,
                )
    print(f"{tried} configurations, {wrong} errors, {time.monotonic() - start:.0f} s")
    return int(wrong > 0)


def tiny(implementation: Implementation) -> dict[str, Any]:
    """A size at which the interpreter takes a moment; it gets bfloat16 wrong."""
    sizes = implementation.loaded.description.problem.sizes
    dtype = {"dtype": "float32"} if "dtype" in sizes else {}
    return {**sizes, **dtype, **TINY.get(implementation.family, ROWS)}


def errors(
    implementation: Implementation, shape: Mapping[str, Any], params: Mapping[str, Any]
) -> list[str]:
    """What is wrong with the results of a configuration; empty where nothing is."""
    from solkit.core import default_tolerance
    from solkit.kernelfiles.seeding import seed_everything
    from solkit.measure.checking.inputs import copy_workload
    from solkit.measure.checking.tolerance import Standard

    seed_everything(0)
    workload = implementation.loaded.workload(shape, params, "cpu")
    want = copy_workload(workload).run_reference()
    tolerance = implementation.loaded.description.problem.tolerance or default_tolerance(
        want[0].dtype
    )
    try:
        got = workload.run_kernel()
    except Exception as error:  # whatever a kernel may raise; the next one goes on
        return [f"{type(error).__name__}: {error}"]
    return list(Standard(want, tolerance, check=workload.check).judge(got).errors)


if __name__ == "__main__":
    sys.exit(main())
