"""Parameters that reach a kernel through its autotuner."""

from __future__ import annotations

import textwrap

import pytest
import triton

from solkit import kernelfiles
from solkit.adapters import fake_triton
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


def load(tmp_path, files):
    for name, text in files.items():
        tmp_path.joinpath(name).write_text(textwrap.dedent(text))
    return kernelfiles.load(str(tmp_path / "file.py"), None)


def launched(tmp_path, files, *each_params):
    loaded = load(tmp_path, files)
    for params in each_params:
        workload = loaded.workload({}, params)
        with fake_triton.recording(params) as seen:
            workload.run_kernel()
    return [captured.launch for captured in seen.launches], seen.notes()


@pytest.mark.parametrize("form", FORMS)
def test_the_configuration_asked_for_is_shown_among_all(form, in_child, tmp_path):
    params = {"BLOCK": 1024, "num_warps": 8}
    (launch,), notes = in_child(launched, tmp_path, FORMS[form], params)
    assert launch.grid == (4, 1, 1)  # 4096 elements in blocks of 1024
    assert (launch.constants["BLOCK"], launch.num_warps) == (1024, 8)
    assert "4 configurations, showing the one asked for" in notes[0]


@pytest.mark.parametrize("form", FORMS)
def test_without_parameters_the_first_is_shown(form, in_child, tmp_path):
    (launch,), notes = in_child(launched, tmp_path, FORMS[form], {})
    assert launch.grid == (16, 1, 1)
    assert "4 configurations, showing the first" in notes[0]


def test_one_made_anew_under_the_same_name_is_restricted_too(in_child, tmp_path):
    def made_anew():
        (tmp_path / "file.py").write_text(textwrap.dedent(KERNEL))
        module = import_file(str(tmp_path / "file.py"))
        restrict_autotuners(module, {"BLOCK": 256})
        module.add = triton.autotune(module.add.every_config, key=["n"])(module.add.fn)
        restrict_autotuners(module, {"BLOCK": 1024})
        return [config.kwargs["BLOCK"] for config in module.add.configs]

    assert in_child(made_anew) == [1024, 1024]


def test_a_configuration_that_is_not_there_is_refused(in_child, tmp_path):
    def refused():
        with pytest.raises(ParamsError, match=r"no configuration with .*7"):
            launched(tmp_path, FORMS["imported"], {"BLOCK": 7})
        return True

    assert in_child(refused)


def test_other_parameters_start_from_all_configurations_again(in_child, tmp_path):
    (launch,), notes = in_child(
        launched, tmp_path, FORMS["launch"], {"BLOCK": 256}, {"BLOCK": 1024}
    )
    assert launch.constants["BLOCK"] == 1024
    assert "4 configurations" in notes[0]
