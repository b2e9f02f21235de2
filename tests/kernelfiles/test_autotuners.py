"""Parameters that reach a kernel through its autotuner."""

from __future__ import annotations

import itertools
import sys
import textwrap
from dataclasses import replace

import pytest
import triton

from solkit import kernelfiles
from solkit.adapters import launch_recording
from solkit.errors import ParamsError
from solkit.kernelfiles._source import import_file, restrict_autotuners

KERNEL = """
    import torch, triton, triton.language as tl

    @triton.autotune([triton.Config({"BLOCK": b}, num_warps=w)
                      for b in (256, 1024) for w in (4, 8)], key=["n"])
    @triton.jit
    def add(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr = False):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, i < n), i < n)
"""
NATIVE = """
    import torch, triton
    from {module} import add
    def reference(x): return x
    def inputs(N=4096, device="cuda"): return torch.randn(N, device=device)
    def kernel(x):
        out = torch.empty_like(x)
        add[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
        return out
"""
HEURISTIC = '\n    add = triton.heuristics({"EVEN": lambda a: False})(add)\n'
LAUNCH = """
    LAUNCH = dict(sizes={"N": 4096}, args={"x": "fp32[N]", "out": "fp32[N]", "n": "N"},
                  outputs=["out"], grid=["cdiv(N, BLOCK)"])
"""
FORMS = {
    "imported": {"tuned_beside.py": KERNEL, "file.py": NATIVE.format(module="tuned_beside")},
    "heuristics": {
        "heuristics_beside.py": KERNEL + HEURISTIC,
        "file.py": NATIVE.format(module="heuristics_beside"),
    },
    "launch": {"file.py": KERNEL + LAUNCH},
}


UNDER_THE_TUNER = """
    import torch, triton
    from {module} import add
    SPACE = {{"BLOCK": [512], "num_warps": [2]}}
    def reference(x): return x
    def inputs(N=4096, device="cuda"): return torch.randn(N, device=device)
    def kernel(x, *, BLOCK=512, num_warps=2):
        out = torch.empty_like(x)
        add.fn[(triton.cdiv(x.numel(), BLOCK),)](
            x, out, x.numel(), BLOCK=BLOCK, num_warps=num_warps)
        return out
"""


def load(tmp_path, files):
    for name, text in files.items():
        tmp_path.joinpath(name).write_text(textwrap.dedent(text))
    return kernelfiles.load(str(tmp_path / "file.py"), None)


def launched(tmp_path, files, *each_params):
    loaded = load(tmp_path, files)
    for params in each_params:
        workload = loaded.workload({}, params)
        with launch_recording.recording_launches(params) as seen:
            workload.run_kernel()
    return [captured.launch for captured in seen.launches], seen.notes()


def test_a_function_under_its_tuner_takes_values_that_the_tuner_lacks(in_child, tmp_path):
    files = {
        "under_beside.py": KERNEL,
        "file.py": UNDER_THE_TUNER.format(module="under_beside"),
    }
    params = {"BLOCK": 512, "num_warps": 2}  # the tuner has 256 and 1024, with 4 and 8 warps
    (launch,), _ = in_child(launched, tmp_path, files, params)
    assert (launch.grid[0], launch.num_warps) == (8, 2)


BESIDE_ANOTHER = """
    import torch, triton
    from {module} import add
    SPACE = {{"BLOCK": [512, 1024], "num_warps": [2, 4]}}
    def reference(x): return x
    def inputs(N=4096, device="cuda"): return torch.randn(N, device=device)
    def kernel(x, *, BLOCK=512, num_warps=2):
        out = torch.empty_like(x)
        if x.numel() < 5000:
            add[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
        else:
            add.fn[(triton.cdiv(x.numel(), BLOCK),)](
                x, out, x.numel(), BLOCK=BLOCK, num_warps=num_warps)
        return out
"""


def test_what_a_launcher_takes_itself_selects_no_configuration_of_a_tuner(in_child, tmp_path):
    files = {"beside_another.py": KERNEL, "file.py": BESIDE_ANOTHER.format(module="beside_another")}
    params = {"BLOCK": 1024, "num_warps": 4}  # the tuner has 1024, too

    def launched_and_kept():
        (launch,), _ = launched(tmp_path, files, params)
        return launch, len(sys.modules["beside_another"].add.configs)

    launch, kept = in_child(launched_and_kept)
    assert (launch.grid[0], launch.constants["BLOCK"]) == (16, 256)  # the first, as without any
    assert kept == 4


@pytest.mark.quick("launch")
@pytest.mark.parametrize("form", FORMS)
def test_the_configuration_asked_for_is_shown_among_all(form, in_child, tmp_path):
    params = {"BLOCK": 1024, "num_warps": 8}
    (launch,), notes = in_child(launched, tmp_path, FORMS[form], params)
    assert launch.grid == (4, 1, 1)  # 4096 elements in blocks of 1024
    assert (launch.constants["BLOCK"], launch.num_warps) == (1024, 8)
    assert "4 configurations, showing the one asked for" in notes[0]


@pytest.mark.quick("launch")
@pytest.mark.parametrize("form", FORMS)
def test_without_parameters_the_first_is_shown(form, in_child, tmp_path):
    (launch,), notes = in_child(launched, tmp_path, FORMS[form], {})
    assert launch.grid == (16, 1, 1)
    assert "4 configurations, showing the first" in notes[0]


@pytest.mark.slow
def test_one_made_anew_under_the_same_name_is_restricted_too(in_child, tmp_path):
    def made_anew():
        (tmp_path / "file.py").write_text(textwrap.dedent(KERNEL))
        module = import_file(str(tmp_path / "file.py"))
        restrict_autotuners(module, {"BLOCK": 256})
        module.add = triton.autotune(module.add.every_config, key=["n"])(module.add.fn)
        restrict_autotuners(module, {"BLOCK": 1024})
        return [config.kwargs["BLOCK"] for config in module.add.configs]

    assert in_child(made_anew) == [1024, 1024]


@pytest.mark.slow
def test_a_configuration_that_is_not_there_is_refused(in_child, tmp_path):
    def refused():
        with pytest.raises(ParamsError, match=r"no configuration with .*7"):
            launched(tmp_path, FORMS["imported"], {"BLOCK": 7})
        return True

    assert in_child(refused)


@pytest.mark.slow
def test_other_parameters_start_from_all_configurations_again(in_child, tmp_path):
    (launch,), notes = in_child(
        launched, tmp_path, FORMS["launch"], {"BLOCK": 256}, {"BLOCK": 1024}
    )
    assert launch.constants["BLOCK"] == 1024
    assert "4 configurations" in notes[0]


ASKED = """
    import torch
    from {module} import add
    def reference(x): return x
    def inputs(N=4, device="cpu"): return torch.randn(N, device=device)
    def kernel(x):
        chosen = [config.kwargs["BLOCK"] + config.num_warps for config in add.configs]
        return torch.tensor(chosen)
"""
MODEL = """
    import torch
    from {module} import add
    class Model(torch.nn.Module):
        def forward(self, x): return x
    class ModelNew(torch.nn.Module):
        def forward(self, x):
            return torch.tensor([c.kwargs["BLOCK"] + c.num_warps for c in add.configs])
    def get_inputs(): return [torch.ones(1)]
"""


@pytest.mark.parametrize("text", [ASKED, MODEL], ids=["native", "kernelbench"])
def test_calls_of_several_configurations_that_take_turns_keep_their_own(text, in_child, tmp_path):
    """As `solkit tune` times them."""

    def take_turns():
        name = f"turns_{len(text)}"
        loaded = load(tmp_path, {f"{name}.py": KERNEL, "file.py": text.format(module=name)})
        first = loaded.workload({}, {}, "cpu")
        params = [{"BLOCK": 256, "num_warps": 4}, {"BLOCK": 1024, "num_warps": 8}]
        one, other = (loaded.with_params(first, point) for point in params)
        turns = (one, other, one, first, other, first)
        return [workload.run_kernel()[0].tolist() for workload in turns]

    every = [260, 264, 1028, 1032]
    assert in_child(take_turns) == [[260], [1032], [260], every, [1032], every]


HANDED = """
    import torch, triton
    from {module} import add
    SPACE = {{"BLOCK": [512], "num_warps": [2]}}
    class Layer(torch.nn.Module):  # the original's, under its tuner
        def forward(self, x):
            add[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, x, x.numel())
    def kernel(x, *, BLOCK=512, num_warps=2):
        return torch.tensor([BLOCK + num_warps])
    class Model(torch.nn.Module):
        def forward(self, x): return x
    class ModelNew(torch.nn.Module):
        def forward(self, x, **params): return kernel(x, **params)
    def get_inputs(): return [torch.ones(1)]
"""


def test_a_model_takes_parameters_itself_that_an_autotuner_of_its_file_lacks(in_child, tmp_path):
    """As a rewritten file does, which keeps the original's layer and its autotuner."""

    def handed():
        loaded = load(tmp_path, {"handed.py": KERNEL, "file.py": HANDED.format(module="handed")})
        workload = loaded.workload({}, {"BLOCK": 512, "num_warps": 2}, "cpu")
        again = loaded.with_params(workload, {"BLOCK": 512, "num_warps": 2})
        return [bound.run_kernel()[0].tolist() for bound in (workload, again)]

    assert in_child(handed) == [[514], [514]]


# ------------------------------------------------------------------------------- spaces


def space(tmp_path, files):
    return list(load(tmp_path, files).space({}).walk())


@pytest.mark.quick("imported", "launch")
@pytest.mark.parametrize("form", FORMS)
def test_the_space_of_an_autotuned_file_is_its_configurations(form, in_child, tmp_path):
    points = in_child(space, tmp_path, FORMS[form])
    rest = {"num_ctas": 1, "num_stages": 3}  # Triton's defaults
    assert points == [{"BLOCK": b, "num_warps": w, **rest} for b in (256, 1024) for w in (4, 8)]


HOOKED = KERNEL.replace(
    """[triton.Config({"BLOCK": b}, num_warps=w)
                      for b in (256, 1024) for w in (4, 8)]""",
    """[triton.Config({"BLOCK": 256}, num_warps=4, pre_hook=lambda nargs: nargs["x"].zero_()),
                       triton.Config({"BLOCK": 512}, num_warps=8, maxnreg=64)]""",
)


def test_a_pre_hook_is_no_part_of_a_point_and_still_runs(in_child, tmp_path):
    files = {"file.py": HOOKED + LAUNCH}

    def launched_at_each_point():
        loaded, seen = load(tmp_path, files), []
        for params in loaded.space({}).walk():
            workload = loaded.workload({}, params)
            with launch_recording.recording_launches(params) as recording:
                workload.run_kernel()
            seen += [
                (params, captured.launch.constants["BLOCK"]) for captured in recording.launches
            ]
        return seen

    rest = {"num_ctas": 1, "num_stages": 3}
    assert in_child(launched_at_each_point) == [
        ({"BLOCK": 256, "num_warps": 4, **rest, "maxnreg": None}, 256),
        ({"BLOCK": 512, "num_warps": 8, **rest, "maxnreg": 64}, 512),
    ]


def test_what_two_autotuners_share_has_one_value(in_child, tmp_path):
    other = KERNEL.replace("add(", "other(").replace("BLOCK", "TILE").replace("(4, 8)", "(8, 16)")
    files = {
        "file.py": KERNEL + other + LAUNCH.replace("LAUNCH = dict(", "LAUNCH = dict(kernel='add', ")
    }
    points = in_child(space, tmp_path, files)
    assert [(p["BLOCK"], p["TILE"], p["num_warps"]) for p in points] == [
        (block, tile, 8) for block in (256, 1024) for tile in (256, 1024)
    ]


TUNED = """
    import torch
    def reference(x): return x
    def inputs(N=4096, device="cuda"): return torch.randn(N, device=device)
    def kernel(x, *, BLOCK=64, WARPS=2): return x
    SPACE = {"BLOCK": range(16, 10**9, 16), "WARPS": [1, 2, 4]}
    def valid(params, shape): return params["BLOCK"] * params["WARPS"] <= shape["N"]
"""


def test_the_space_of_a_native_file_is_what_is_valid_at_a_shape(in_child, tmp_path):
    def points():
        loaded = load(tmp_path, {"file.py": TUNED})
        assert loaded.description.candidate.space.values["BLOCK"] == range(16, 10**9, 16)
        small = loaded.space({"N": 40})
        blocks = replace(small, values={**small.values, "BLOCK": range(16, 100, 16)})
        return (
            list(itertools.islice(blocks.walk(), 9)),
            {"BLOCK": 48, "WARPS": 1} in small,
            {"BLOCK": 48, "WARPS": 1} in loaded.space({}),
        )

    start, small, large = in_child(points)
    assert start == [
        {"BLOCK": 16, "WARPS": 1},
        {"BLOCK": 16, "WARPS": 2},
        {"BLOCK": 32, "WARPS": 1},
    ]
    assert (small, large) == (False, True)


def test_a_valid_that_fails_names_the_configuration(in_child, tmp_path):
    def refused():
        fails = TUNED.replace('shape["N"]', 'shape["M"]')
        with pytest.raises(
            ParamsError, match=r"valid\(\) of .*file.py raised KeyError: 'M' at BLOCK=16"
        ):
            next(load(tmp_path, {"file.py": fails}).space({}).walk())
        return True

    assert in_child(refused)
