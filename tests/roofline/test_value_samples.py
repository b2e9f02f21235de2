"""Products whose precision follows from an absolute tolerance and the size of the results."""

from __future__ import annotations

import pytest

PRELUDE = """
import torch
import torch.nn.functional as F
def R(*shape): return torch.randn(*shape, device="cuda")
def U(*shape): return torch.rand(*shape, device="cuda")
"""


def kinds(path: str) -> set[str]:
    from solkit import kernelfiles
    from solkit.analysis.problem import problem_case

    work = problem_case(kernelfiles.load(path), {}, {}, None).work
    return {key.removeprefix("contraction.") for key in work.operations if "contraction" in key}


@pytest.fixture
def kinds_of(tmp_path, in_child):
    """The kinds of a reference's products, given inputs, the body and `atol`."""

    def find(inputs: str, body: str, atol: float, rtol: float = 0.0) -> set[str]:
        names = ", ".join(f"a{i}" for i in range(inputs.count(";") + 1))
        text = ", ".join(part.strip() for part in inputs.split(";"))
        file = tmp_path / "file.py"
        file.write_text(
            f"{PRELUDE}\nTOLERANCE = {{'rtol': {rtol}, 'atol': {atol}}}\n"
            f"def inputs():\n    return [{text}]\ndef reference({names}):\n    {body}\n"
        )
        return in_child(kinds, str(file))

    return find


PAIR = "R(64, 1024); R(1024, 64)"  # a sum of 1024 products of size 1 is of size 32


@pytest.mark.parametrize(
    ("inputs", "body", "atol", "kind"),
    [
        # the largest error is `atol` where errors are atol / 32 of what is summed: 2^-9 is .0625
        (PAIR, "return a0 @ a1", 0.05, "fp32"),
        (PAIR, "return a0 @ a1", 0.08, "fp32@9"),
        (PAIR, "return a0 @ a1", 0.6, "fp32@6"),
        # never more than a quarter of the results, which 32 * 2^-6 is far below
        (PAIR, "return a0 @ a1", 1e9, "fp32@6"),
        (PAIR, "return a0 @ a1 / 32", 0.0015, "fp32"),
        (PAIR, "return a0 @ a1 / 32", 0.0025, "fp32@9"),
        (PAIR, "return torch.tanh(a0 @ a1 / 320) + 5", 0.0002, "fp32@9"),
        # uniform factors have a mean square of 1/3 each: errors are of size 10.7
        ("U(64, 1024); U(1024, 64)", "return a0 @ a1", 0.018, "fp32"),
        ("U(64, 1024); U(1024, 64)", "return a0 @ a1", 0.025, "fp32@9"),
        # two products in a row: their errors add up to 1.4 times one
        ("R(64, 1024); R(1024, 1024)", "return (a0 @ a1 / 32) @ a1 / 32", 0.0022, "fp32"),
        ("R(64, 1024); R(1024, 1024)", "return (a0 @ a1 / 32) @ a1 / 32", 0.0035, "fp32@9"),
        # norms bring a size to one
        (PAIR, "return F.layer_norm(a0 @ a1, (64,))", 0.0025, "fp32@9"),
        (PAIR, "return F.layer_norm(a0 @ a1, (64,))", 0.0015, "fp32"),
        # 27 taps of 64 channels: 1728 products, of size 41.6
        ("R(1, 64, 8, 8, 8); R(8, 64, 3, 3, 3)", "return F.conv3d(a0, a1)", 0.07, "fp32"),
        ("R(1, 64, 8, 8, 8); R(8, 64, 3, 3, 3)", "return F.conv3d(a0, a1)", 0.1, "fp32@9"),
        # doubles are no more exact than the tolerance asks
        ("R(64, 1024).double(); R(1024, 64).double()", "return a0 @ a1", 0.08, "fp64@9"),
        ("R(64, 1024).double(); R(1024, 64).double()", "return a0 @ a1", 0.01, "fp64"),
        # a size that nothing tells is not assumed
        ("torch.fft.rfft(R(64, 2046)).real; R(1024, 64)", "return a0 @ a1", 0.6, "fp32"),
        # state that starts at zero may become any size
        ("torch.zeros(64, 1024, device='cuda'); R(1024, 64)", "return a0 @ a1", 0.6, "fp32"),
        # but a bias or a moment that starts at zero changes no error
        (f"{PAIR}; torch.zeros(64, device='cuda')", "return a0 @ a1 + a2", 0.6, "fp32@6"),
        (f"{PAIR}; torch.zeros(64, device='cuda')", "return F.linear(a0, a1.T, a2)", 0.6, "fp32@6"),
        (f"{PAIR}; torch.zeros(64, device='cuda')", "return a0 @ a1 * a2", 0.6, "fp32"),
        # an index is no result that may be off
        (PAIR, "y = a0 @ a1\n    return y, y.argmax(-1)", 0.6, "fp32"),
        (PAIR, "return (a0 @ a1).softmax(-1)", 0.6, "fp32>exp"),
        (PAIR, "return (a0 @ a1).bfloat16()", 0.6, "fp32~half"),
    ],
)
def test_errors_within_an_absolute_tolerance(kinds_of, inputs, body, atol, kind):
    assert kinds_of(inputs, body, atol) == {kind}


def test_sampling_leaves_random_numbers_as_they_are(kinds_of):
    drawn = "R(64, 1024); R(int(torch.randint(1000, 1024, (1,))), 64)"
    body = "return a0[:, :a1.shape[0]] @ a1"
    assert kinds_of(drawn, body, 0.08) == kinds_of(drawn, body, 0.08) == {"fp32@9"}
