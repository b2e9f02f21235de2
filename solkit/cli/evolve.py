"""``solkit evolve``: faster variants of a kernel, under a budget of GPU seconds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _declared, _options, _project, exit_codes
from solkit.errors import InputError

if TYPE_CHECKING:
    from solkit.core import Evolved, EvolveSettings, Value
    from solkit.llm.client import Chat
    from solkit.llm.transcript import Exchange
    from solkit.measure.benches import RecordedBench
    from solkit.tuner.proposers import Proposer

EPILOG = (
    "Exit codes: 0 searched, whatever the verdict; 1 SolKit failed; 2 invalid input, or no such "
    "GPU here; 3 nothing ran; 130 interrupted before anything was measured."
)

_Kernel = Annotated[
    str,
    typer.Argument(
        metavar="KERNEL", help="The kernel file to start from, or --solution's problem folder."
    ),
]
_Seconds = Annotated[
    float, typer.Option(min=0.0, metavar="N", help="Budget of the search; the gate comes after.")
]
_StopAt = Annotated[
    float, _options.advanced(metavar="SHARE", help="Share of the speed of light that is enough.")
]
_Seed = Annotated[int, _options.advanced(min=0, help="Of all that is drawn.")]
_HeldOut = Annotated[
    list[str] | None,
    _options.advanced(
        metavar="M=100,N=333",
        help="A shape for the gate; repeatable. Default: the file's HELD_OUT_SHAPES, or SHAPES, or "
        "the definition's other workloads.",
    ),
]
_Recorded = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|STORE",
        help="Look candidates up in a recording instead of timing them: needs no GPU.",
    ),
]
_Order = Annotated[
    str,
    _options.advanced(metavar="surrogate|random", help="In which order candidates are measured."),
]
_Depth = Annotated[
    str,
    _options.advanced(
        metavar="captured|lowered|compiled",
        help="The deepest that a candidate is analysed before it is measured.",
    ),
]
_CustomKernel = Annotated[
    bool, _options.advanced(help="Refuse variants that only call PyTorch's own kernels.")
]
_Llm = Annotated[
    str | None,
    _options.advanced(
        metavar="URL",
        help="An OpenAI-compatible endpoint that writes variants too. Source leaves this machine.",
    ),
]
_Model = Annotated[
    str | None,
    _options.advanced(
        metavar="NAME|PATH",
        help="The endpoint's model; without --llm a local one: a folder, a GGUF file or a hub id.",
    ),
]
_Key = Annotated[
    str | None,
    _options.advanced(
        metavar="VARIABLE",
        help="The environment variable with the endpoint's key. Default: OPENAI_API_KEY.",
    ),
]
_Cost = Annotated[
    float | None,
    _options.advanced(min=0.0, metavar="MONEY", help="What the model may cost; needs both prices."),
]
_PriceIn = Annotated[
    float | None,
    _options.advanced(min=0.0, metavar="MONEY", help="Of a million tokens that it reads."),
]
_PriceOut = Annotated[
    float | None, _options.advanced(min=0.0, metavar="MONEY", help="Of a million that it writes.")
]
_Exchanges = Annotated[
    str | None,
    _options.advanced(metavar="FILE", help="Append what the model is asked and answers to FILE."),
]
_Replay = Annotated[
    str | None,
    _options.advanced(metavar="FILE", help="Answer from an exchanges file instead of a model."),
]
_Rewriter = Annotated[
    bool, _options.advanced("--rewriter/--no-rewriter", help="Rewrite the syntax tree as well.")
]
_Compiled = Annotated[
    bool,
    _options.advanced(
        "--compiled/--no-compiled",
        help="Also start from what torch.compile makes of the reference, with PyTorch's kernels "
        "for products.",
    ),
]
_Out = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Write the winner's file, its parameters as defaults, if there is one; of a reference "
        "alone else what torch.compile would run.",
    ),
]
_Html = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write the lineage with diffs as an HTML page.")
]


_ENTRY_POINT = "kernel"
"""The function with the parameters, in all forms of kernel files."""


def evolve(
    kernel: _Kernel,
    gpu_seconds: _Seconds = 120.0,
    shape: _options.Shape = None,
    held_out: _HeldOut = None,
    reference: _options.Reference = None,
    solution: _options.Solution = None,
    params: _options.InUse = None,
    stop_at: _StopAt = 0.95,
    seed: _Seed = 0,
    order: _Order = "surrogate",
    depth: _Depth = "compiled",
    custom_kernel: _CustomKernel = False,
    llm: _Llm = None,
    model: _Model = None,
    key: _Key = None,
    max_cost: _Cost = None,
    price_in: _PriceIn = None,
    price_out: _PriceOut = None,
    exchanges: _Exchanges = None,
    answers: _Replay = None,
    rewriter: _Rewriter = True,
    compiled: _Compiled = True,
    log: _options.Log = None,
    resume: _options.Resume = None,
    recorded: _Recorded = None,
    device: _options.Device = None,
    on: _options.On = None,
    out: _Out = None,
    html: _Html = None,
    json: _options.Json = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Rewrite a kernel, rank the variants, measure the promising, and prove what is faster.

    Each variant runs in its own process beside a referee. The best one must hold on fresh inputs in
    new processes, and at shapes that the search never saw; else you keep what you have.
    """
    with exit_codes.failures_as_exit_codes(verbose, "evolve"):
        recorded = _base.find_recording(recorded)
        kernel = kernel if recorded else _base.kernel_file(kernel)
        kernel, reference = _base.candidate_and_problem(kernel, reference, solution)
        _check_files((kernel, reference, recorded), (resume, answers), json, html, out)
        sizes = _project.one_shape_setting(shape, kernel)
        if not recorded:
            shapes = None if sizes is None else [sizes]
            chosen = _options.parse_params(params)
            _declared.check_declared_names(kernel, reference, shapes, chosen)
        gpu = None if recorded else _project.device_setting(device, kernel, on)
        _start_servers(is_replay=bool(recorded))
        _base.use_one_thread_of_blas()
        from solkit.core import EvolveSettings
        from solkit.pipeline.evolving import evolve as evolving

        plain = EvolveSettings(
            stop_at,
            seed=seed,
            order=order,
            depth=depth,
            custom_kernel=custom_kernel,
            compiled=compiled,
            on=on,
        )
        llm_options = _Asked(llm, model, key, (max_cost, price_in, price_out), exchanges, answers)
        search = partial(
            evolving,
            kernel,
            gpu_seconds=gpu_seconds,
            device=gpu,
            reference=reference,
            shape=sizes,
            bench=_open_recording(recorded, device, kernel, reference) if recorded else None,
            settings=_evolve_settings(plain, params, held_out, log, resume),
        )
        evolved = _write_winner(_run_search(search, llm_options, seed, rewriter), kernel, out)
        _write_reports(evolved, json, html)
        if evolved.original.time_ms is None:
            raise typer.Exit(exit_codes.exit_code_without_runs(evolved.stopped == "interrupted"))


def _start_servers(*, is_replay: bool) -> None:
    """Let the servers of what analyses and measures load torch while the rest loads here."""
    from solkit.measure.guarded.processes import measuring_server
    from solkit.measure.guarded.session import is_available
    from solkit.processes import jobs

    if is_replay or is_available():  # else the search says what it lacks
        jobs.start()
    if not is_replay and is_available():
        measuring_server.start()


def _evolve_settings(
    plain: EvolveSettings,
    params: Sequence[str] | None,
    held_out: Sequence[str] | None,
    log: str | None,
    resume: str | None,
) -> EvolveSettings:
    _base.check_one_log(log, resume)
    in_use, shapes = _options.parse_params(params) or {}, _parse_held_out(held_out)
    place = resume or log
    return replace(plain, params=in_use, held_out=shapes, log=place, resume=resume is not None)


def _run_search(
    search: Callable[..., Evolved], llm_options: _Asked, seed: int, rewriter: bool
) -> Evolved:
    """Run the search with the requested proposers, and show its progress."""
    from solkit.pipeline.evolving import EvolveParts
    from solkit.report.advice import advise
    from solkit.report.evolution import status_line

    with (
        _base.stdout_kept_for_the_report(),
        _base.showing_progress("searching", status_line) as show,
        _chosen_proposers(llm_options, seed, rewriter) as proposers,
    ):
        return search(parts=EvolveParts(proposers, advise=advise, show=show))


@dataclass(frozen=True)
class _Asked:
    """Options of a language model."""

    llm: str | None
    model: str | None
    key: str | None
    budget: tuple[float | None, float | None, float | None]
    exchanges: str | None
    answers: str | None


@contextlib.contextmanager
def _chosen_proposers(
    llm_options: _Asked, seed: int, rewriter: bool
) -> Iterator[Sequence[Proposer] | None]:
    """Yield the proposers of variants; a model's process or connection ends with the block.

    ``None`` without a model: the search has its own then, and compiles the reference.
    """
    proposers: list[Proposer] = []
    with contextlib.ExitStack() as stack:
        if (chat := _open_chat(llm_options)) is not None:
            stack.callback(chat.close)
            proposers.append(_model_proposer(chat, llm_options, seed))
        if not proposers and not rewriter:
            raise InputError("--no-rewriter leaves nobody to write variants: give --model as well")
        if proposers and rewriter:
            from solkit.tuner.proposers.rewriter import Rewriter

            proposers.append(Rewriter(seed, checks=False))  # the search checks what it measures
        yield proposers or None


def _model_proposer(chat: Chat, llm_options: _Asked, seed: int) -> Proposer:
    """Return the proposer that asks a model; the costs in an exchanges file count as spent."""
    from solkit.llm.budget import Budget
    from solkit.llm.transcript import Transcript, read_exchanges
    from solkit.tuner.proposers.llm import LanguageModel, Sampling

    earlier: tuple[Exchange, ...] = ()
    if llm_options.exchanges is not None and Path(llm_options.exchanges).exists():
        earlier = read_exchanges(llm_options.exchanges)
    cost = sum(exchange.spent.cost for exchange in earlier)
    tokens = sum(exchange.spent.tokens_in + exchange.spent.tokens_out for exchange in earlier)
    return LanguageModel(
        chat,
        budget=Budget(*llm_options.budget, spent_cost=cost, spent_tokens=tokens),
        exchanges=Transcript(llm_options.exchanges),
        sampling=Sampling(seed=seed + len(earlier)),  # the same request gets another answer
        tell=_base.print_complaint,
    )


def _open_chat(llm_options: _Asked) -> Chat | None:
    """Open the model, whichever way it is reached; ``None`` if none was requested."""
    if llm_options.answers is not None:
        from solkit.llm.transcript import ReplayedChat

        if llm_options.llm or llm_options.model:
            raise InputError("--answers replaces a model: leave out --llm and --model")
        return ReplayedChat(llm_options.answers)
    if llm_options.llm is None and llm_options.key is not None:
        raise InputError("--key is for an endpoint: give --llm URL as well")
    if llm_options.model is None:
        if llm_options.llm is not None:
            raise InputError("--llm: name the endpoint's model with --model")
        return None
    from solkit.llm.endpoint import DEFAULT_KEY_VARIABLE
    from solkit.llm.retry import open_chat

    key_variable = DEFAULT_KEY_VARIABLE if llm_options.key is None else llm_options.key
    return open_chat(llm_options.model, llm_options.llm, key_variable=key_variable)


def _open_recording(
    path: str, device: str | None, kernel: str, reference: str | None
) -> RecordedBench:
    """Open the recording; of a store, only the rows of the problem."""
    import hashlib

    from solkit.measure.benches import RecordedBench

    if not Path(path).is_dir():
        return RecordedBench.read(path, device=device)
    problem = reference or kernel
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in _problem_files(problem)]
    quoted = ", ".join(f"'{digest}'" for digest in digests)
    try:
        return RecordedBench.read(path, where=f"problem_sha256 in ({quoted})", device=device)
    except InputError as error:
        advice = "" if reference else "; if its reference is in another file, give --reference FILE"
        raise InputError(
            f"{path}: {error}; looked for rows of the problem in {problem}{advice}"
        ) from error


def _problem_files(problem: str) -> list[Path]:
    """Return the files that hold a problem: of a data set's folder all its definitions."""
    folder = Path(problem)
    if not folder.is_dir():
        return [folder]
    files = [folder / "definition.json", *sorted((folder / "definitions").rglob("*.json"))]
    if not (own := [file for file in files if file.is_file()]):
        raise InputError(f"{problem} has no definition.json, and no definitions in definitions/")
    return own


def _parse_held_out(held_out: Sequence[str] | None) -> list[Mapping[str, Value]] | None:
    if held_out is None:
        return None
    return [_options.parse_settings(text, "--held-out") for text in held_out]


def _check_files(
    inputs: tuple[str | None, ...],
    logs: tuple[str | None, ...],
    json: str | None,
    html: str | None,
    out: str | None,
) -> None:
    """Raise before the work, not after it, if a file cannot be read or written."""
    _base.check_readable(*inputs, *logs)
    _base.check_distinct(json=json, html=html, out=out)
    _base.check_writable(json, inputs=inputs)
    for name, path in {"--html": html, "--out": out}.items():
        if path == "-":
            raise InputError(f"{name}: name a file; only --json takes `-`")
    _base.check_writable(html, "--html", inputs)
    if out is not None and Path(out).exists():
        raise InputError(f"--out: {out} is there already, and is not overwritten: name another")
    if out is not None and out.endswith(".json") and not str(inputs[0]).endswith(".json"):
        raise InputError(f"--out {out}: only what began as a solution's JSON is written as one")
    if out is not None and not Path(out).parent.is_dir():
        raise InputError(f"--out: there is no folder {Path(out).parent}")
    if html is not None:
        from solkit.extras import library

        library("jinja2")


def _write_winner(evolved: Evolved, kernel: str, out: str | None) -> Evolved:
    """Write the winner's file; if nothing was faster, only what was made of a reference alone."""
    from solkit.core import TuneVerdict
    from solkit.pipeline.solutions import is_record, solution_record
    from solkit.tuner.evolution.default_params import with_params

    is_kept = evolved.verdict is not TuneVerdict.FASTER
    source = evolved.winner.variant.source
    if out is None or (is_kept and (is_record(kernel) or source == Path(kernel).read_text())):
        return evolved
    text = with_params(source, _ENTRY_POINT, evolved.best_params.params)
    Path(out).write_text(solution_record(kernel, text) if is_record(out) else text, "utf-8")
    return replace(evolved, out=out)


def _write_reports(evolved: Evolved, json: str | None, html: str | None) -> None:
    from solkit.cli._outputs import local_time_now
    from solkit.report import evolution as page

    _base.show_page_or_json(json, partial(page.render, evolved), lambda: page.dumps(evolved))
    if html is not None:
        from solkit.report.html import lineage_page

        text = lineage_page(page.as_json(evolved), written=local_time_now())
        _base.write_destination(html, lambda: text, "--html")
