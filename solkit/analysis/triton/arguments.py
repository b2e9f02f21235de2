"""Values of a launch's arguments under the names that its IR gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from solkit.adapters.launch_recording import Argument, TensorArgument
from solkit.adapters.triton_ir import Function
from solkit.analysis.common.regions import ADDRESS_BITS
from solkit.analysis.interpreter.storages import Storages
from solkit.analysis.interpreter.values import Array
from solkit.analysis.triton.arithmetic import scalar_value
from solkit.analysis.triton.tensor_sink import Descriptor


def bind_arguments(
    function: Function, arguments: Mapping[str, Argument], storages: Storages
) -> tuple[dict[str, Any], dict[int, str]]:
    """Return values by the function's names, and the first parameter in each storage.

    Args:
        function: the kernel.
        arguments: by parameter.
        storages: where tensors get their addresses.
    """
    values: dict[str, Any] = {}
    parameters: dict[int, str] = {}
    rest: list[Array] = []
    names = parameters_in_order(function, arguments)
    for position, (name, _) in enumerate(function.arguments):
        parameter = name[1:] if names is None else names[position]
        argument = arguments.get(parameter)
        if isinstance(argument, TensorArgument):
            address = storages.address_of(argument)
            parameters.setdefault(address >> ADDRESS_BITS, parameter)
            values[name], rest = scalar_value(address), []
            if argument.block:
                values[name] = _descriptor(values[name], argument)
                rest = [scalar_value(n) for n in (*argument.shape, *argument.strides)]
        elif isinstance(argument, bool | int):
            values[name] = scalar_value(int(argument))
        elif isinstance(argument, float):
            values[name] = np.array([argument], np.float32)
        elif rest:  # a descriptor is followed by its shape and strides
            values[name] = rest.pop(0)
    return values, parameters


def parameters_in_order(function: Function, arguments: Mapping[str, Argument]) -> list[str] | None:
    """Return the parameter of each of a function's arguments; ``None`` if their numbers differ.

    The IR may name an argument after a variable that it is assigned to.
    """
    names: list[str] = []
    for name, argument in arguments.items():
        boxed = isinstance(argument, TensorArgument) and argument.block
        names += [name, *[""] * (2 * len(boxed) if boxed else 0)]
    return names if len(names) == len(function.arguments) else None


def _descriptor(base: Array, argument: TensorArgument) -> Descriptor:
    size = argument.element_bytes
    return Descriptor(
        base,
        tuple(map(scalar_value, argument.shape)),
        tuple(scalar_value(stride * size) for stride in argument.strides),
        size,
    )
