"""Kernel files: one module per format, all read into a `LoadedKernel`.

`load` imports a file, finds its format and describes it. It runs the file's own code, so it is
called in a child process: see `solkit.processes.jobs` (fake tensors) and `solkit.measure` (real
tensors).
"""

from __future__ import annotations

from pathlib import Path

from solkit.errors import KernelFileError
from solkit.kernelfiles import _gpu_mode, _kernelbench, _native, _triton
from solkit.kernelfiles._base import LoadedKernel, Workload
from solkit.kernelfiles._loaded_modules import look_ahead
from solkit.kernelfiles._source import import_file

__all__ = ["LoadedKernel", "Workload", "load", "look_ahead"]

_FORMATS = (
    (_kernelbench.recognises, _kernelbench.KernelBenchKernel),
    (_triton.recognises, _triton.TritonKernel),
    (_native.recognises, _native.NativeKernel),
)

_BINARIES = (".cubin", ".ptx")


def load(path: str, reference: str | None = None) -> LoadedKernel:
    """Import a kernel file, or read a problem folder.

    Args:
        path: the file with the candidate, or only a reference; or a problem folder.
        reference: the file with the reference, if `path` has none; or the problem folder that
            `path` is a solution for.

    Raises:
        KernelFileError: a file is missing, fails to import, or has no known format.
    """
    if _is_problem(reference or path):
        return _load_problem(reference or path, path if reference is not None else None)
    if path.endswith(_BINARIES):
        from solkit.kernelfiles import _binary  # it loads the driver's fakes

        return _binary.load_binary(path, reference)
    if _gpu_mode.recognises(path, reference):
        return _gpu_mode.load_submission(path, reference)
    candidate = import_file(path)
    other = import_file(reference) if reference is not None else None
    for recognises, form in _FORMATS:
        if recognises(candidate, other):
            return form(candidate, other or candidate)
    raise KernelFileError(
        "does not say what is computed, or on which inputs: "
        f"`solkit init {path}` writes a file that does. Expected one of: "
        "reference() and inputs() [and kernel()]; Model and get_inputs() [and ModelNew]; "
        "ModelNew or custom_kernel() with --reference FILE; "
        f"a @triton.jit function with LAUNCH or a {Path(path).stem}.launch.toml beside it; "
        "a .cubin or .ptx with the same or --launch; "
        "a problem folder of SOL-ExecBench or FlashInfer-Bench",
        path,
    )


def _is_problem(path: str) -> bool:
    return Path(path).is_dir() or path.endswith(".json")


def _load_problem(path: str, solution: str | None) -> LoadedKernel:
    from solkit.kernelfiles import _flashinfer_bench, _sol_execbench  # with pydantic: 0.1 s

    if solution is None and _flashinfer_bench.is_solution(path):
        path, solution = _flashinfer_bench.data_set_of_solution(path), path
    if _sol_execbench.recognises(Path(path)):
        return _sol_execbench.load_problem_folder(path, solution)
    if _flashinfer_bench.recognises(Path(path)):
        return _flashinfer_bench.load_definition(path, solution)
    raise KernelFileError(
        "is not a problem: expected a folder with definition.json and workload.jsonl "
        "(SOL-ExecBench), or with definitions/ and workloads/, or a definition in it "
        "(FlashInfer-Bench); a solution is given with --solution, behind its problem",
        path,
    )
