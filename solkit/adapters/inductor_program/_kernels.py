"""Inductor's Triton functions, and the parameters that may be tuned of each."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import triton

from solkit.adapters.inductor import CaughtKernel, TemplateLaunch
from solkit.adapters.inductor_program._attention_text import AttentionKernel
from solkit.adapters.inductor_program._product_template import plain_text
from solkit.adapters.inductor_space import PROCESSORS, block_values, inductor_space, launch_tests
from solkit.adapters.inductor_text import AXES, parameters, read_kernel, write_grid
from solkit.errors import InputError

_MOST_FREE = 3
"""With more kernels, almost no point of the whole space is valid for each of them."""

_FIXED = ("RSPLIT_SIZE", "RSPLIT")
"""Block sizes that fix the size of a workspace, or of what is made of it."""


@dataclass(frozen=True)
class ProgramKernel:
    """A Triton function of a program.

    Attributes:
        name: its name.
        source: its text with its decorator; helpers come apart.
        helpers: the Triton functions that it calls.
        caught: what `solkit.adapters.inductor_space` needs to know.
        suffix: of its parameters' names in the launcher, e.g. ``"_2"``.
    """

    name: str
    source: str
    helpers: str
    caught: CaughtKernel
    suffix: str = field(default="")

    @staticmethod
    def read(
        name: str, text: str, sizes: Sequence[object], template: TemplateLaunch | None = None
    ) -> ProgramKernel:
        """Return a kernel of a generated module.

        Args:
            name: its name.
            text: as in the module.
            sizes: the arguments of its launch; numbers where they are known.
            template: how it is launched, if a template made it.

        Raises:
            InputError: how it is launched is not known.
        """
        try:
            read = read_kernel(text)
        except AssertionError as error:  # Inductor's, e.g. of settings that exclude each other
            raise InputError(f"Inductor has no configuration of {name}: {error}") from error
        plain = [name for name, constant in parameters(read.function) if not constant]
        blocks = tuple(name for name, constant in parameters(read.function) if constant)
        values = dict(zip(plain, sizes))
        numels = {n: v for n, v in values.items() if n.endswith("numel") and isinstance(v, int)}
        try:
            grid = template.grid if template else write_grid(read.meta, numels, blocks)
        except KeyError:
            grid = ()
        if not grid:
            raise InputError(f"the grid of {name} is not known ({read.meta['grid_type']})")
        if read.cooperative and _rows_at_once(numels, read.configs[0]) > PROCESSORS:
            raise InputError(f"more programs of {name} wait for each other than can run at once")
        if read.cooperative and read.configs[0].get("RSPLIT", 2) == 1:
            raise InputError(f"no two programs of {name} share a reduction")
        tuned = {*blocks, "num_warps", "num_stages"}
        caught = CaughtKernel(
            template=read.template,
            grid=grid,
            axes=AXES.get(read.meta["grid_type"], ()),
            source=read.function,
            buffers=() if template is None else template.operands,
            workspaces=(),
            partials=(),
            numels=numels,
            blocks=blocks,
            configs=tuple(
                {n: int(v) for n, v in {**read.written, **config}.items() if n in tuned}
                for config in read.configs
            ),
            constants=read.meta.get("config_args", {}),
            cooperative=read.cooperative,
            obstacle="",
        )
        function = plain_text(read.function) if template else read.function
        return ProgramKernel(name, f"@triton.jit\n{function.rstrip()}\n", read.helpers, caught)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Parameters that are not tuned."""
        return tuple(name for name, constant in parameters(self.caught.source) if not constant)

    @property
    def tuned(self) -> tuple[str, ...]:
        """Parameters that may be tuned, by the names that the function and Triton know."""
        return (*self.caught.blocks, "num_warps", "num_stages")

    @property
    def choices(self) -> tuple[Mapping[str, int], ...]:
        """The configurations that Inductor would time, by the launcher's names."""
        return tuple(
            {f"{name}{self.suffix}": value for name, value in {**self.defaults, **config}.items()}
            for config in self.caught.configs
        )

    @property
    def defaults(self) -> Mapping[str, int]:
        """Configuration that Inductor would take first."""
        return self.caught.configs[0]

    def named(self, source: str, helpers: str, suffix: str) -> ProgramKernel:
        """Return it with another text, and other names of its parameters in the launcher."""
        return replace(self, source=source, helpers=helpers, suffix=suffix)

    def space(self) -> dict[str, tuple[int, ...]]:
        """Return the values of each parameter."""
        free = inductor_space(self.caught)
        return {**free, **{n: (self.defaults[n],) for n in _FIXED if n in free}}

    def test_text(self, suffix: str) -> str:
        """Return a condition on ``params``, by their names in the launcher."""
        warps = f'params["num_warps{suffix}"]'
        tests = [f"_fits({block_values(self.caught)}, {warps})", *launch_tests(self.caught)]
        return re.sub(_PARAMETER, rf'params["\1{suffix}"]', " and ".join(tests))

    def renamed(self, text: str) -> str:
        """Return an expression of the block sizes with the launcher's names."""
        return re.sub(r"\b([A-Z]\w*)\b", rf"\1{self.suffix}", text)


AnyKernel = ProgramKernel | AttentionKernel


def named_apart(kernels: Sequence[AnyKernel]) -> tuple[AnyKernel, ...]:
    """Make the kernels' parameter names distinct, by the numbers that Inductor gave the kernels."""
    numbers = [re.search(r"_\d+$", kernel.name) for kernel in kernels]
    suffixes = [number[0] if number else "" for number in numbers]
    if len(set(suffixes)) < len(suffixes) or "" in suffixes:
        suffixes = [f"_{index}" for index in range(len(kernels))]
    if len(kernels) == 1:
        suffixes = [""]
    renamed, helpers = [], dict[str, str]()
    for kernel, suffix in zip(kernels, suffixes, strict=True):
        text, source = _helpers_apart(kernel.helpers, kernel.source, helpers)
        renamed.append(kernel.named(source, text, suffix))
    return tuple(renamed)


def _helpers_apart(text: str, source: str, bodies: dict[str, str]) -> tuple[str, str]:
    """Return new helpers, and the function that calls them: two of one name may differ."""
    new = []
    for part in re.split(r"(?=@triton\.jit\n)", text):
        if not (match := re.search(r"^def (\w+)\(", part, re.MULTILINE)):
            continue
        name, body = match[1], part.strip()
        free = next(n for n in _numbered_names(name) if bodies.get(n, body) == body)
        if free not in bodies:
            bodies[free] = body
            new.append(re.sub(rf"\b{name}\b", free, body) + "\n")
        source = re.sub(rf"\b{name}\b", free, source)
    return "\n\n".join(new), source


def _numbered_names(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}_{number}" for number in itertools.count(2))


# -------------------------------------------------------------------------------------- spaces


def kernel_spaces(kernels: Sequence[AnyKernel]) -> dict[str, tuple[int, ...]]:
    """Return the values of all parameters, by the launcher's names."""
    values_by_name: dict[str, tuple[int, ...]] = {}
    for kernel in kernels:
        free = kernel.space()
        if len(kernels) > _MOST_FREE:
            free = _find_valid_box(kernel, free)
        values_by_name |= {f"{name}{kernel.suffix}": values for name, values in free.items()}
    return values_by_name


def _find_valid_box(
    kernel: AnyKernel, free: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Return values about the first choice of which every combination is valid."""
    holds = eval(
        f"lambda params: {kernel.test_text('')}", {"_fits": _fits_limits, "triton": triton}
    )  # of our own text
    box: dict[str, tuple[int, ...]] = {name: (kernel.defaults[name],) for name in free}
    steps = sorted(
        (abs(values.index(value) - values.index(kernel.defaults[name])), name, value)
        for name, values in free.items()
        for value in values
        if value != kernel.defaults[name]
    )
    for _, name, value in steps:
        others = [values if parameter != name else (value,) for parameter, values in box.items()]
        if all(holds(dict(zip(box, point))) for point in itertools.product(*others)):
            box[name] = tuple(sorted((*box[name], value)))
    return box


def _fits_limits(values: int, warps: int) -> bool:
    return values <= 128 * 32 * warps and 32 * warps <= max(32, values)


def _rows_at_once(numels: Mapping[str, int], config: Mapping[str, int]) -> int:
    """Return blocks of rows of a cooperative reduction, each of at least one program."""
    return -(-numels.get("xnumel", 0) // config.get("XBLOCK", 1))


_PARAMETER = r'params\["([A-Z]\w*|num_warps|num_stages)"\]'


def valid_lines(kernels: Sequence[AnyKernel]) -> str:
    """Return the functions ``valid`` and ``_fits`` of a kernel file."""
    tests = "".join(f"            {kernel.test_text(kernel.suffix)},\n" for kernel in kernels)
    return (
        "def _fits(values, warps):\n"
        '    """At most 128 values a thread, and no idle thread."""\n'
        "    return values <= 128 * 32 * warps and 32 * warps <= max(32, values)\n\n\n"
        f"def valid(params, shape):\n    return all(\n        (\n{tests}        )\n    )\n"
    )
