"""T1: the auto-tuning community's description of a tuning problem; its search space is read.

https://github.com/odgaard/TuningSchema, and Kernel Tuner's ``schema/T1/1.0.0/input-schema.json``.
Lists of values and conditions are text in Python's syntax. It is parsed, never executed: see
`solkit.core.arithmetic`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solkit.core import Constraint, Space
from solkit.core.arithmetic import Expression, evaluate
from solkit.datasets.formats._base import Document
from solkit.errors import InputError, ParamsError

_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "uint": (int,),
    "float": (int, float),
    "bool": (bool, int),
    "string": (str,),
}


def recognises(document: Document) -> bool:
    """Tell whether a file is T1; cheap."""
    return document.has("ConfigurationSpace")


def space(document: Document) -> Space:
    """Return the space that a T1 file describes.

    A condition's names are taken from its expression, as files list fewer in ``Parameters``.

    Raises:
        InputError: a parameter or condition is invalid; names it and what was expected.
    """
    definition = document.json["ConfigurationSpace"]
    values: dict[str, Any] = {}
    try:
        for parameter in definition["TuningParameters"]:
            name, listed = parameter["Name"], _values_of_parameter(parameter)
            if values.setdefault(name, listed) != listed:
                raise ValueError(f"{name} is listed twice, with other values")
        conditions = [
            _condition(condition, values) for condition in definition.get("Conditions") or ()
        ]
        return Space(values, tuple(conditions))
    except (AttributeError, KeyError, TypeError, ValueError, ParamsError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{document.path} is no T1 file: {what}") from error


def _values_of_parameter(parameter: Mapping[str, Any]) -> Any:
    """Return the values of a parameter: text as in the schema, or a list.

    Raises:
        ValueError: they do not have its type.
    """
    name, kind, listed = parameter["Name"], parameter["Type"], parameter["Values"]
    if isinstance(listed, str):
        listed = evaluate(listed, {})
    if not isinstance(listed, (list, range)):
        raise ValueError(f"{name} has the values {listed!r}; expected a list")
    if kind not in _TYPES:
        raise ValueError(f"{name} has the type {kind!r}; choose one of: {', '.join(_TYPES)}")
    checked = listed[:1] if isinstance(listed, range) else listed
    for value in checked:
        if not isinstance(value, _TYPES[kind]):
            raise ValueError(f"{name} has the value {value!r}, which is no {kind}")
    return listed


def _condition(condition: Mapping[str, Any], values: Mapping[str, Any]) -> Constraint:
    read = Expression.read(condition["Expression"])
    unknown = [name for name in read.names if name not in values]
    if unknown:
        raise ValueError(
            f"the condition {read.text!r} names {', '.join(unknown)}; "
            f"the parameters are: {', '.join(values)}"
        )
    return Constraint(read.text, read.value, read.names)
