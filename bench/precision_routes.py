"""The routes that a bound rests on, through the referee's trials: does it accept each of them?

    python bench/precision_routes.py [--inner 16 64 512 4096] [--size 96] [--seed 3]

Draws the referee's trials of products (`solkit.measure.checking`) and gives it what each route of
`solkit.roofline.precision_routes` computes: on an NVIDIA GPU for real, by PyTorch's products of
16-bit factors, else emulated, with sums that tensor cores truncate (`summed_by_tensor_cores`).
Prints what error each route needs as a share of what is allowed, and exits with 1 where the referee
rejects a route that `Rule` takes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from solkit.core import Tolerance
from solkit.core.rounding import computing_share
from solkit.kernelfiles import Workload
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.checking.inputs import copy_workload
from solkit.measure.checking.trials import Trial, Trials
from solkit.roofline import devices
from solkit.roofline.precision_routes import Route, Rule

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

SUMMED = 512  # products that tensor cores sum before an addition in fp32
BLOCK = 16  # products that one instruction sums
KEPT_BITS = 25  # below the largest term of a block, as measured on an H200
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
TOLERANCES = (None, Tolerance(1e-3, 1e-3), Tolerance(1e-2, 1e-2))
DEVICE = "h100"


@dataclass(frozen=True)
class Setting:
    """A product that is judged.

    Attributes:
        name: for a reader.
        kind: as in `solkit.roofline.precision_routes`.
        draw: makes both factors.
        after: what becomes of the result.
    """

    name: str
    kind: str
    draw: Callable[[], tuple[torch.Tensor, torch.Tensor]]
    after: Callable[[torch.Tensor], torch.Tensor] = torch.Tensor.float

    def reference(self, product: Product) -> Product:
        """The reference with a product of its own."""
        return lambda a, b: self.after(product(a.float(), b.float()))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inner", type=int, nargs="+", default=[16, 64, 512, 4096])
    parser.add_argument("--size", type=int, default=96, help="rows and columns of the result")
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    rejected = 0
    for setting in settings(options.size, options.inner):
        for tolerance, route, failures, share in verdicts(setting, options.seed):
            rejected += bool(failures)
            limit = "default" if tolerance is None else f"rtol {tolerance.rtol:g}"
            what = f"rejected on {', '.join(failures)}" if failures else "accepted"
            print(f"{setting.name:28} {limit:11} {route.words:48} {share:8.3g} of c  {what}")
    return 1 if rejected else 0


def settings(size: int, inner: Sequence[int]) -> Iterator[Setting]:
    """Products of the usual distributions of factors, at several inner dimensions."""
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def pair(make: Callable[..., torch.Tensor], k: int) -> tuple[torch.Tensor, torch.Tensor]:
        return make(size, k, device=device), make(k, size, device=device)

    def spread(*shape: int, device: str) -> torch.Tensor:
        return torch.randn(shape, device=device) * torch.exp(2 * torch.randn(shape, device=device))

    for k in inner:
        yield Setting(f"randn, K {k}", "fp32", lambda k=k: pair(torch.randn, k))
        yield Setting(f"rand, K {k}", "fp32", lambda k=k: pair(torch.rand, k))
    k = inner[-1]
    yield Setting(f"lognormal, K {k}", "fp32", lambda: pair(spread, k))
    yield Setting(
        f"fp32 by bf16, K {k}", "fp32*half",
        lambda: (torch.randn(size, k, device=device), pair(torch.randn, k)[1].bfloat16()),
    )  # fmt: skip
    yield Setting(
        f"to bf16, K {k}", "fp32~half", lambda: pair(torch.randn, k), torch.Tensor.bfloat16
    )
    softmax = partial(torch.softmax, dim=-1)
    yield Setting(f"before a softmax, K {k}", "fp32>exp", lambda: pair(torch.randn, k), softmax)
    yield Setting(
        f"bf16 upcast, K {k}", "bf16",
        lambda: tuple(x.bfloat16() for x in pair(torch.rand, k)),
    )  # fmt: skip


Verdict = tuple["Tolerance | None", Route, list[str], float]


def verdicts(setting: Setting, seed: int) -> Iterator[Verdict]:
    """The route of each tolerance, the trials it fails, and its error as a share of c."""
    device = devices.find(DEVICE)
    reference = setting.reference(torch.matmul)
    trials = list(_trials(lambda _: Workload(setting.draw(), {}, reference, None), seed))
    for tolerance in TOLERANCES:
        (route,) = (
            Rule("tolerance", tolerance).routes([f"contraction.{setting.kind}"], device).values()
        )
        kernel = setting.reference(lambda a, b, route=route: product_by(route, a, b))
        failures, most = [], 0.0
        for trial in trials:
            seed_everything(trial.seed)
            got = replace(copy_workload(trial.workload), kernel=kernel).run_kernel()
            if trial.standard(tolerance).compare(got).errors:
                failures.append(trial.name)
            most = max(most, needed_share(got[0], trial, tolerance))
        yield tolerance, route, failures, most


def _trials(make: Callable[..., Workload], seed: int) -> Iterator[Trial]:
    trials, usual = Trials(make, seed), 0
    for trial in trials.own_trials():
        usual = max(usual, trial.nonfinite_count)
        yield trial
    yield from replace(trials, seed=seed + 7).common_trials((), usual)


def needed_share(got: torch.Tensor, trial: Trial, tolerance: Tolerance | None) -> float:
    """The largest error over what computing is allowed."""
    if trial.exact is None:
        return 0.0
    u = torch.finfo(got.dtype).eps / 2
    exact, sigma = trial.exact[0].value.double(), trial.exact[0].sensitivity.double()
    error = (got.double() - exact).abs() - 2 * u * exact.abs() - torch.finfo(torch.float32).tiny
    shares = error.clamp(min=0) / (exact.abs() + sigma)
    return (
        float(shares[error > 0].max()) / computing_share(u, tolerance) if (error > 0).any() else 0
    )


# ------------------------------------------------------------------------------------ routes


def product_by(route: Route, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product by a route, with scales and in passes: `solkit.roofline.precision_routes`."""
    name = route.pipe.removeprefix("tensor.")
    if name not in DTYPES:
        return a @ b
    if name == "bf16":
        return _in_passes(a, b, DTYPES[name], route.passes)
    (a_scale, scaled_a), (b_scale, scaled_b) = _scaled(a, 1), _scaled(b, 0)
    return _in_passes(scaled_a, scaled_b, DTYPES[name], route.passes) * a_scale * b_scale


def _scaled(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Powers of two that bring each row or column to at most 1, and what remains."""
    largest = x.abs().nan_to_num(0.0, 0.0, 0.0).amax(dim, keepdim=True)
    exponent = torch.frexp(largest).exponent.clamp(-120, 120).float()
    return torch.exp2(exponent), x * torch.exp2(-exponent)


def _parts(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, float]:
    """A high part, a low part, and the power of two that the low one is scaled by."""
    high = x.to(dtype)
    low = torch.where(high.isfinite(), x - high.float(), 0.0)
    scale = 2.0**11 if dtype is torch.float16 else 1.0  # else fp16's low parts underflow
    return high, (low * scale).to(dtype), 1 / scale


def _in_passes(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype, passes: int) -> torch.Tensor:
    (a_high, a_low, a_scale), (b_high, b_low, b_scale) = _parts(a, dtype), _parts(b, dtype)
    if passes == 1:
        return _summed(a_high, b_high)
    exact_a, exact_b = (not bool(low.any()) for low in (a_low, b_low))
    total = torch.zeros((), device=a.device)
    if passes == 3 or exact_a:
        total = total + _summed(a_high, b_low) * b_scale
    if passes == 3 or exact_b or not exact_a:
        total = total + _summed(a_low, b_high) * a_scale
    return total + _summed(a_high, b_high)


def _summed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product of narrow factors, each `SUMMED` of the inner dimension in the tensor cores."""
    total = torch.zeros(a.shape[0], b.shape[1], device=a.device)
    for start in range(0, a.shape[1], SUMMED):
        rows, columns = a[:, start : start + SUMMED], b[start : start + SUMMED]
        if a.is_cuda:
            total += torch.mm(rows.contiguous(), columns.contiguous(), out_dtype=torch.float32)
        else:
            total += summed_by_tensor_cores(rows, columns)
    return total


def summed_by_tensor_cores(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product as Hopper's tensor cores sum it: terms of a block and the sum so far are cut off.

    Each term loses its bits below 2^-25 of the largest one; their exact sum is cut to fp32.
    """
    total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64)
    for start in range(0, a.shape[1], BLOCK):
        rows = a[:, start : start + BLOCK].double().unsqueeze(2)
        terms = rows * b[start : start + BLOCK].double().unsqueeze(0)
        terms = torch.cat([terms, total.unsqueeze(1)], 1)
        largest = torch.frexp(terms.abs().amax(1, keepdim=True)).exponent - 1
        step = torch.exp2((largest - KEPT_BITS).double())
        exact = (torch.trunc(terms / step) * step).sum(1)
        last = torch.exp2((torch.frexp(exact).exponent - 24).double())
        total = torch.where(exact.isfinite(), torch.trunc(exact / last) * last, exact)
    return total.float()


if __name__ == "__main__":
    sys.exit(main())
