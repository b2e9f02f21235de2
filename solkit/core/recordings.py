"""A launch recorded from a running program: all that it takes to launch it again elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from solkit.core.codec import to_json
from solkit.core.kernel_programs import FunctionOrigin
from solkit.core.launches import Launch
from solkit.core.outcomes import canonical
from solkit.core.tuned import Launcher
from solkit.core.values import Value


@dataclass(frozen=True)
class TensorRecipe:
    """Recipe by which the contents of a tensor are drawn again; no weights are kept.

    Attributes:
        mean, std: of its finite elements.
        low, high: least and greatest of these.
        minus_infinity_share: share of elements that are minus infinity, as in masks.
        values: all elements of an integer tensor up to a size, as base64 of zlib of little-endian
            int64; empty if they are drawn between `low` and `high`.
    """

    mean: float = 0.0
    std: float = 1.0
    low: float | None = None
    high: float | None = None
    minus_infinity_share: float = 0.0
    values: str = ""


@dataclass(frozen=True)
class ChoiceAnswer:
    """Answer of the host code for a choice of parameters.

    Attributes:
        choice: values of `RecordedLaunch.choice_names`.
        grid: programs in x, y and z.
        derived: constants that heuristics compute from the choice.
    """

    choice: tuple[Value, ...]
    grid: tuple[int, ...]
    derived: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class RecordedLaunch:
    """A distinct launch of a program.

    Attributes:
        launch: kernel, grid, constants, arguments and the text of all that it runs.
        launcher: ``"autotuner"`` if Triton's autotuner chose the configuration, ``"inductor"`` if
            torch.compile made the kernel, else ``"jit"``.
        options: the compiler's options that were passed, such as ``num_warps``.
        space: values of each parameter that may vary, the one in use first.
        configs: the configurations of the autotuner's list, as points over `space`; empty if all
            combinations may be tried.
        choice_names: parameters that the grid or a heuristic reads.
        heuristics: constants that ``triton.heuristics`` computes.
        answers: what they answer, by choice; one with an empty choice if nothing is read.
        tiles: constants of `space` that only say which program computes an element; the grid of
            their values follows from that in use.
        recipes: of tensors, by parameter.
        imports: modules that names of a function stand for, by function and name.
        decorators: by function, e.g. ``"@triton.jit"``.
        helpers: texts of functions that the compiler calls, by qualified name.
        origins: of the program's functions, by their keys in it.
        inductor_source: the file that Inductor wrote for its kernel; empty for others' kernels.
        obstacle: why it cannot be launched again; empty if it can.
        calls: how often the program launched it.
        graph_calls: those of them that a CUDA graph captured.
        host_ms: host time that passed before these launches since the launch before.
        reuse_bytes: by tensor, as in `Deployment`: the median of its calls.
    """

    launch: Launch
    launcher: Launcher = "jit"
    options: Mapping[str, Value] = field(default_factory=dict)
    space: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    configs: tuple[tuple[Value, ...], ...] = ()
    choice_names: tuple[str, ...] = ()
    heuristics: tuple[str, ...] = ()
    answers: tuple[ChoiceAnswer, ...] = ()
    tiles: tuple[str, ...] = ()
    recipes: Mapping[str, TensorRecipe] = field(default_factory=dict)
    imports: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    decorators: Mapping[str, str] = field(default_factory=dict)
    helpers: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, FunctionOrigin] = field(default_factory=dict)
    inductor_source: str = ""
    obstacle: str = ""
    calls: int = 0
    graph_calls: int = 0
    host_ms: float = 0.0
    reuse_bytes: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def params(self) -> dict[str, Value]:
        """The configuration in use."""
        return {name: values[0] for name, values in self.space.items()}

    @property
    def digest(self) -> str:
        """Hex digest of what is launched: equal launches of all processes share it.

        Contents of tensors and counts are left out, and so is what differs between ranks: where
        functions are from and what their process had compiled, and Inductor's file.
        """
        same = replace(self, recipes={}, calls=0, graph_calls=0, host_ms=0.0, reuse_bytes={})
        same = replace(same, origins={}, inductor_source="")
        return hashlib.sha256(canonical(to_json(same)).encode()).hexdigest()

    def counted(self, calls: int, graph_calls: int, host_ms: float) -> RecordedLaunch:
        """Return the launch with further calls."""
        return replace(
            self,
            calls=self.calls + calls,
            graph_calls=self.graph_calls + graph_calls,
            host_ms=self.host_ms + host_ms,
        )


@dataclass(frozen=True)
class PrecompiledKernel:
    """Kernel that a recorded launch added to a cache.

    Attributes:
        kernel: the kernel's name.
        launcher: what chose its configuration.
        compiled: folders in Triton's cache of kernels that were compiled.
        cached: keys of those that were there already.
        why: why it, or a part of it, could not be compiled; empty if it could.
    """

    kernel: str
    launcher: Launcher
    compiled: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    why: str = ""
