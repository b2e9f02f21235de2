"""What ops of a run compute becomes reference files; elementwise neighbours are together.

Functions run on the CPU under the profiler; a GPU's kernel is put under each op that computes.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest
import torch
from torch.nn import functional
from torch.profiler import ProfilerActivity

from solkit import profiling
from solkit.adapters.torch_profiler import tensor_flow
from solkit.profiling.reference_files import write_reference_files
from solkit.tuner.manifest import parse_manifest
from solkit.tuner.recorded_manifest import profiled_manifest_of

GPU = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}
A, B, W = (torch.randn(64, 64) for _ in range(3))


def profile_of(folder, step, computing, times=2, flow=True):
    """Return the profile of a function, as if the ops named had launched a kernel each."""
    with (
        torch.no_grad(),
        torch.profiler.profile(
            activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True
        ) as session,
    ):
        for _ in range(times):
            step()
    path, flow_path = folder / "trace.json", folder / "flow.json"
    session.export_chrome_trace(str(path))
    flow_path.write_text(json.dumps(tensor_flow(session)))
    document = json.loads(path.read_text())
    even_out(document["traceEvents"])
    ops = [e for e in document["traceEvents"] if e.get("cat") == "cpu_op"]
    at = max(op["ts"] + op["dur"] for op in ops)
    for number, op in enumerate(ops, 1):
        if op["name"].removeprefix("aten::") in computing:
            document["traceEvents"] += launch(op, number, at + 10 * number)
    document["deviceProperties"] = [GPU]
    path.write_text(json.dumps(document))
    chosen = str(flow_path) if flow else ""
    return profiling._profile_trace(str(path), None, "tolerance", 0, chosen)


def even_out(events):
    """Let the host take a tenth of a µs from each begin or end to the next: the GPU never waits."""
    lasting = [event for event in events if "dur" in event]
    times = sorted({t for event in lasting for t in (event["ts"], event["ts"] + event["dur"])})
    ranks = {t: times[0] + 0.1 * rank for rank, t in enumerate(times)}
    for event in lasting:
        begin, end = event["ts"], event["ts"] + event["dur"]
        event |= {"ts": ranks[begin], "dur": ranks[end] - ranks[begin]}


def launch(op, number, at):
    own = {"correlation": number, "External id": op["args"]["External id"]}
    common = {"ph": "X", "pid": op["pid"], "tid": op["tid"]}
    call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": op["ts"], "dur": 0.001}
    kernel = {"cat": "kernel", "name": f"kernel of {op['name']}", "ts": at, "dur": 5.0}
    return (
        common | call | {"args": own},
        common | kernel | {"args": own | {"device": 0, "stream": 7}},
    )


def ops_of(profile):
    return {tuple(op.removeprefix("aten::") for op in p.ops): p for p in profile.problems}


def module_of(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gated():
    gate = A @ W
    y = functional.silu(gate) * B
    y.mul_(A)
    return (torch.sigmoid(B) @ W) + y.view(64, 64)


GATED = ("mm", "silu", "mul", "mul_", "sigmoid", "add")


def test_elementwise_neighbours_are_one_problem_if_one_reads_what_another_wrote(tmp_path):
    ops = ops_of(profile_of(tmp_path, gated, GATED))
    assert set(ops) == {("mm",), ("silu", "mul", "mul_"), ("sigmoid",), ("add",)}
    (case,) = ops["silu", "mul", "mul_"].cases
    assert (case.calls, case.inputs) == (2, ("f32[64, 64]",) * 3)
    assert case.time_ms == pytest.approx(2 * 3 * 5e-3)
    (products,) = ops["mm",].cases
    assert products.calls == 4


def test_the_reference_of_a_chain_computes_what_the_program_did(tmp_path):
    profile = profile_of(tmp_path, gated, GATED)
    files = write_reference_files(profile, tmp_path / "references")
    module = module_of(files[ops_of(profile)["silu", "mul", "mul_"]])
    gate, b, a = module.inputs(device="cpu")
    want = functional.silu(gate) * b * a  # silu's and the first product's results are freed
    torch.testing.assert_close(module.reference(gate, b, a), want)


def test_a_result_that_others_read_is_a_result_of_the_chain(tmp_path):
    def step():
        left = torch.exp(A)
        right = left + B
        return left @ right

    profile = profile_of(tmp_path, step, ("exp", "add", "mm"))
    (problem,) = [p for p in profile.problems if len(p.ops) == 2]
    assert problem.reference.endswith("return y0, y1")


def test_neighbours_that_share_no_tensor_are_apart(tmp_path):
    def step():
        left = torch.exp(A)
        right = torch.cos(B)
        return left @ right

    assert set(ops_of(profile_of(tmp_path, step, ("exp", "cos", "mm")))) == {
        ("exp",), ("cos",), ("mm",),
    }  # fmt: skip


def test_a_chain_that_reads_a_part_of_a_result_is_taken_apart(tmp_path):
    def step():
        return torch.neg(torch.exp(A)[:, :32])

    ops = ops_of(profile_of(tmp_path, step, ("exp", "neg")))
    assert set(ops) == {("exp",), ("neg",)}
    assert all(problem.reference for problem in ops.values())


def test_layouts_types_and_constants_are_as_recorded(tmp_path):
    half = torch.randn(4, 8, 16).bfloat16().transpose(0, 1)

    def step():
        return functional.leaky_relu(half.float(), 0.25)

    profile = profile_of(tmp_path, step, ("copy_", "leaky_relu"))
    files = write_reference_files(profile, tmp_path / "references")
    module = module_of(files[ops_of(profile)["copy_", "leaky_relu"]])
    (x,) = module.inputs(device="cpu")
    assert (x.shape, x.stride(), x.dtype) == (half.shape, half.stride(), half.dtype)
    torch.testing.assert_close(module.reference(x), functional.leaky_relu(x.float(), 0.25))


def test_a_trace_alone_does_not_say_what_flows_so_each_op_is_apart(tmp_path):
    ops = ops_of(profile_of(tmp_path, gated, GATED, flow=False))
    assert set(ops) == {("mm",), ("silu",), ("mul",), ("mul_",), ("sigmoid",), ("add",)}
    assert ops["mul_",].reference.count("torch.ops.aten.mul.Tensor") == 1


def test_what_draws_random_numbers_has_no_reference(tmp_path):
    profile = profile_of(tmp_path, lambda: torch.bernoulli(A.abs() / 9), ("bernoulli",))
    assert [p.reference for p in profile.problems] in ([], [""])


def test_a_manifest_names_the_reference_that_evolve_starts_from(tmp_path):
    profile = profile_of(tmp_path, gated, GATED)
    folder = tmp_path / "work_references"
    files = write_reference_files(profile, folder)
    text = profiled_manifest_of(profile, (), files)
    manifest = parse_manifest(text, "work.toml", tmp_path)
    entry = next(e for e in manifest.kernels if "silu" in e.title)
    assert entry.title == "aten::silu + aten::mul + aten::mul_"
    assert entry.path == ""
    assert re.fullmatch(r"silu_mul_mul_[0-9a-f]{8}\.py", Path(entry.reference).name)
    assert Path(entry.reference).parent == folder
    assert [dict(shape.sizes) for shape in entry.shapes] == [{"case": 0}]
    (left_out,) = [note for note in manifest.left_out() if "silu" in note]
    assert f"`solkit evolve {entry.reference}` makes a kernel" in left_out


def test_a_reference_that_somebody_edited_stays(tmp_path):
    profile = profile_of(tmp_path, gated, GATED)
    files = write_reference_files(profile, tmp_path)
    edited = files[ops_of(profile)["mm",]]
    edited.write_text("# mine\n")
    assert write_reference_files(profile, tmp_path) == files
    assert edited.read_text() == "# mine\n"


def test_an_edited_reference_stands_for_no_other_problem_of_the_same_ops(tmp_path):
    folder = tmp_path / "references"
    scaled = lambda factor: lambda: functional.leaky_relu(A, factor) @ B  # noqa: E731
    edited, second = (
        write_reference_files(profile_of(tmp_path, scaled(factor), ("leaky_relu", "mm")), folder)
        for factor in (0.25, 0.5)
    )
    (first_file,) = (file for problem, file in edited.items() if problem.ops[0] != "aten::mm")
    (second_file,) = (file for problem, file in second.items() if problem.ops[0] != "aten::mm")
    assert first_file != second_file
    assert "0.5" in second_file.read_text()


def test_inputs_whose_elements_share_memory_are_drawn(tmp_path):
    dtypes = (torch.bfloat16, torch.int32, torch.bool, torch.complex64)
    rows = [torch.ones(1, 64, dtype=dtype).expand(64, 64) for dtype in dtypes]
    profile = profile_of(tmp_path, lambda: [torch.eq(row, row.T) for row in rows], ("eq",))
    (file,) = write_reference_files(profile, tmp_path / "references").values()
    drawn = [x for case in range(4) for x in module_of(file).inputs(case, device="cpu")]
    layouts = {(x.shape, x.stride(), x.dtype) for x in drawn}
    assert layouts == {
        (x.shape, x.stride(), x.dtype) for row in rows for x in (row, row.T)
    }  # fmt: skip


def test_a_tensor_that_several_ops_of_a_chain_read_is_one_input(tmp_path):
    def step():
        x = A @ W
        return x * torch.sigmoid(x) + torch.tanh(x)

    profile = profile_of(tmp_path, step, ("mm", "mul", "sigmoid", "tanh", "add"))
    files = write_reference_files(profile, tmp_path / "references")
    problem = ops_of(profile)["sigmoid", "mul", "tanh", "add"]
    (x,) = module_of(files[problem]).inputs(device="cpu")
    want = x * torch.sigmoid(x) + torch.tanh(x)
    torch.testing.assert_close(module_of(files[problem]).reference(x), want)
    assert problem.cases[0].inputs == ("f32[64, 64]",)


def test_parts_of_a_tensor_are_inputs_of_their_own(tmp_path):
    def step():
        x = A @ W
        return torch.neg(x[:, :32]) + x[:, 32:]

    profile = profile_of(tmp_path, step, ("mm", "neg", "add"))
    files = write_reference_files(profile, tmp_path / "references")
    module = module_of(files[ops_of(profile)["neg", "add"]])
    assert len(module.inputs(device="cpu")) == 2
