"""Meaning of a failure's message: does it depend on parameters, and what would fix it."""

from __future__ import annotations

import re

_RESOURCES = re.compile(
    r"out of (?:resource|memory)|outofresources|too (?:many|much) (?:resources|shared|registers)"
    r"|cuda[ _]error|\[cuda\]|acceleratorerror|ended its process",
    re.IGNORECASE,
)

# of `solkit.measure.checking.tolerance`: an output's form, or the number of outputs
_FORM = re.compile(r"^output \d+: (shape|dtype|device) .+ where the reference has (.+)$")
_COUNT = re.compile(r"^\d+ output\(s\); the reference has (\d+)$")

_TOO_LATE = re.compile(r": killed after [\d.e+]+ s\b")  # of the guarded bench

# of `name_admitting`
_ADMITTED = re.compile(r"factors rounded to (\w+) explain it, which an rtol of (\S+) admits")

_OF_FORM = {
    "shape": "Return outputs of shape {}, or correct the reference's.",
    "dtype": "Convert the output to {}, or let the reference return the kernel's dtype.",
    "device": "Return outputs on {}.",
}


def wants_resources(message: str) -> bool:
    """Tell whether a configuration wanted too much of the GPU, or broke its context."""
    return _RESOURCES.search(message) is not None


def is_about_form(message: str) -> bool:
    """Tell whether outputs differ from the reference's in number, shape, dtype or device."""
    return bool(_FORM.match(message) or _COUNT.match(message))


def name_admitting(dtype: str, rtol: float) -> str:
    """Say that an error is one of fp32 products in a coarser dtype, which a tolerance admits."""
    return f"factors rounded to {dtype} explain it, which an rtol of {rtol:g} admits"


def remedy_of(message: str) -> str:
    """Return a sentence that says what would fix a failure which parameters do not change."""
    if form := _FORM.match(message):
        return _OF_FORM[form[1]].format(form[2])
    if count := _COUNT.match(message):
        return (
            f"Return {count[1]} output(s), or name the arguments that the kernel writes in OUTPUTS."
        )
    if message.startswith("running it: "):
        return "Correct the function that launches the kernel, or the inputs that it is given."
    if message.startswith("it writes to memory"):
        return "Name the arguments that the kernel writes in OUTPUTS."
    if message.startswith("the file's check()"):
        return "Correct the kernel, or the file's check()."
    if admitted := _ADMITTED.search(message):
        rounded, rtol = admitted.groups()
        return (
            f"It is no more exact than {rounded} products: compute it in fp32, or admit that with "
            f'TOLERANCE = {{"rtol": {rtol}, "atol": {rtol}}} in the file of the reference.'
        )
    if "for its autotuner, whose list" in message:
        return "That is no verdict on the kernel: shorten the list, or give more GPU seconds."
    if _TOO_LATE.search(message):
        return "It may be right, but slow to begin with: give a longer limit, or more GPU seconds."
    if message.startswith("output "):
        return "Correct the kernel, which computes something else than its reference."
    return "Correct the kernel's source: no choice of its parameters compiles or runs."
