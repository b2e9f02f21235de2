"""Names that a kernel file's syntax tree shows, refused before torch is loaded."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

from solkit.cli._declared import check_declared_names
from solkit.errors import KernelFileError, ParamsError, ShapeError

NATIVE = """
    def reference(x): ...
    def inputs(M=4, N=8, device="cuda"): ...
    def kernel(x, *, ROWS=1, num_warps=4): ...
    SPACE = {"ROWS": [1, 2], "num_stages": [1]}
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "mine.py"
        path.write_text(dedent(text))
        return str(path)

    return write


def test_a_size_that_the_problem_lacks_is_refused(file):
    path = file(NATIVE)
    with pytest.raises(ShapeError) as failure:
        check_declared_names(path, None, [{"M": 1}, {"K": 3}])
    message = f"{path} has no size 'K' (given as K=3); its sizes are: M, N"
    assert str(failure.value) == message


def test_a_parameter_that_the_kernel_lacks_is_refused(file):
    path = file(NATIVE)
    with pytest.raises(ParamsError) as failure:
        check_declared_names(path, params={"ROWS": 1, "ROW": 2})
    message = f"{path} has no parameter 'ROW'; its parameters are: ROWS, num_warps, num_stages"
    assert str(failure.value) == message


def test_a_word_for_a_number_is_refused(file):
    path = file(NATIVE)
    with pytest.raises(ShapeError) as failure:
        check_declared_names(path, None, [{"M": "abc"}])
    assert str(failure.value) == f"{path}: size 'M' is a number, as in M=4; given is M=abc"


@pytest.mark.parametrize("name", ["notes.md", "kernel.cu", "kernel"])
def test_a_file_of_no_known_kind_is_refused(tmp_path, name):
    (tmp_path / name).write_text("text")
    with pytest.raises(KernelFileError, match="is not a Python file: expected a name that ends"):
        check_declared_names(str(tmp_path / name))
    check_declared_names(str(tmp_path / name), str(tmp_path))  # a solution of a problem folder


def test_declared_names_pass(file):
    names = {"ROWS": 1, "num_stages": 2}
    check_declared_names(file(NATIVE), None, [{"M": 1, "N": 2}], names)
    words = file('def reference(x): ...\ndef inputs(M=4, *, kind="a", wide=None): ...\n')
    check_declared_names(words, None, [{"M": 1.5, "kind": "b", "wide": "c"}])


OPEN = {
    "decorated": NATIVE.replace("    def kernel", "    @wrapped\n    def kernel"),
    "keywords": NATIVE.replace("num_warps=4", "num_warps=4, **others"),
    "bound twice": NATIVE + "    if True:\n        kernel = other\n",
    "star import": NATIVE + "    from other import *\n",
    "computed space": NATIVE.replace('"num_stages": [1]', "**more"),
    "space changed": NATIVE + "    SPACE = make()\n",
    "autotuned": NATIVE + "    @triton.autotune(configs)\n    def inner(): ...\n",
    "Helion's": "    import helion\n" + NATIVE,
    "imported": "    from other import kernel\n",
    "no Python": "    def kernel(",
}


@pytest.mark.parametrize("text", OPEN.values(), ids=OPEN)
def test_what_the_tree_leaves_open_is_not_refused(file, text):
    check_declared_names(file(text), params={"ROW": 2})


def test_sizes_of_other_forms_are_not_refused(file):
    check_declared_names(file("    class Model: ...\n    def inputs(M=1): ...\n"), None, [{"K": 3}])


def test_a_separate_problem_has_the_sizes(file, tmp_path):
    problem = tmp_path / "problem.py"
    problem.write_text("def reference(x): ...\ndef inputs(K=2): ...\n")
    check_declared_names(file(NATIVE), str(problem), [{"K": 3}])
    with pytest.raises(ShapeError, match=r"problem\.py has no size 'M'.*its sizes are: K"):
        check_declared_names(file(NATIVE), str(problem), [{"M": 3}])


@pytest.mark.parametrize(
    "arguments", [["tune", "--params", "ROW=2"], ["score", "--shape", "K=3"]], ids=" ".join
)
def test_commands_refuse_before_torch_is_imported(file, arguments):
    command, *options = arguments
    code = (
        "import sys; from solkit.cli import main; sys.argv[0] = 'solkit'\n"
        "try: main()\n"
        "finally: assert not {'torch', 'numpy', 'solkit.pipeline'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, command, file(NATIVE), *options],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "AssertionError" not in done.stderr
    assert "mine.py has no" in done.stderr
