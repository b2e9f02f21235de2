"""``solkit precompile``: a recording's kernels in a Triton cache, compiled without a GPU."""

from __future__ import annotations

import json as jsonlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solkit.cli import _base, _options, _project, exit_codes

if TYPE_CHECKING:
    from solkit.integrations.precompiling import Precompiled

EPILOG = (
    "Then `solkit run --apply FOLDER -- COMMAND`, or solkit.apply(FOLDER) in the program; or "
    "TRITON_CACHE_DIR=FOLDER/triton_cache without SolKit, where the folder has the same path."
)

_Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="A folder of `solkit record`, tuned or not.")
]


def precompile(
    folder: _Folder,
    device: _options.Device = None,
    workers: _options.Workers = 0,
    json: _options.Json = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Compile every recorded launch for a GPU, which this machine need not have.

    A program that applies the folder finds the kernels in its Triton cache, and says at its end
    what it compiled after all. Triton and ptxas must be those of the program.
    """
    with exit_codes.failures_as_exit_codes(verbose):
        _base.check_writable(json)
        from solkit.integrations.precompiling import precompile as compile_all

        result = compile_all(folder, _project.device_setting(device), workers)
        if json != "-":
            _show(result)
        _base.write_destination(json, lambda: jsonlib.dumps(_document(result), indent=2))
        if not result.keys:
            raise typer.Exit(exit_codes.Exit.CANDIDATE_FAILED)


def _show(result: Precompiled) -> None:
    console = _base.rich_console()
    new = {key for kernel in result.kernels for key in kernel.compiled}
    console.print(
        f"{len(result.keys)} kernels for {result.device} with Triton {result.triton} in "
        f"{result.cache}: {len(new)} compiled, {len(result.keys) - len(new)} there already",
        soft_wrap=True,
    )
    for (kernel, why), count in Counter((k.kernel, k.why) for k in result.kernels if k.why).items():
        launches = f" ({count} launches)" if count > 1 else ""
        console.print(f"- {kernel}{launches}: {why}", soft_wrap=True, markup=False)
    for note in result.notes:
        console.print(f"! {note}", soft_wrap=True, markup=False)


def _document(result: Precompiled) -> dict[str, Any]:
    from solkit.core.codec import to_json

    return {"schema": "solkit.precompile/1", **to_json(result, complete=True)}
