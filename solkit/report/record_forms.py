"""Frozen records as fields of JSON models: their JSON form follows from their type hints.

A model of `solkit.report.schema` holds a record, e.g. a `solkit.core.Access`, under the type
``Json[Access]``. What comes from a file or a request is validated field by field, and an error
names the field; then it is a record again. So a record needs no second class for its JSON.

JSON has no numbers that are not finite: a measured or derived one becomes ``null``, and is read as
NaN where the record has no ``None``; a shape size or parameter becomes ``"inf"``, ``"-inf"`` or
``"nan"``.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    PlainSerializer,
    create_model,
)
from pydantic_core import CoreSchema, core_schema

from solkit.core import Value
from solkit.core.values import finite_or_none

T = TypeVar("T")


def _null_unless_finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _word_unless_finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _nan_for_null(value: float | None) -> float:
    return math.nan if value is None else value


Number = Annotated[float | None, BeforeValidator(_null_unless_finite)]
"""A measured or derived number; ``None`` if it is not finite."""
Setting = Annotated[Value, BeforeValidator(_word_unless_finite)]
"""A shape size, tuning parameter or compile-time constant."""
_Float = Annotated[float | None, AfterValidator(_nan_for_null), PlainSerializer(finite_or_none)]
"""A number of a record that has no ``None``."""


class JsonModel(BaseModel):
    """A part of the contract, made from a noun with the same fields by `model_validate`.

    Unknown fields are ignored: later versions may add some.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", populate_by_name=True, from_attributes=True
    )


@dataclass(frozen=True)
class RecordForm:
    """The JSON form of a record, as an annotation of its class.

    Attributes:
        name: in JSON schemas; by default the record's, with "Json".
        about: more on it in JSON schemas.
        required: fields that have a default, but that each file has; ``True`` for all.
        added: defaults of fields that old files lack, and the record requires.
    """

    name: str = ""
    about: str = ""
    required: tuple[str, ...] | bool = ()
    added: tuple[tuple[str, Any], ...] = ()

    def __get_pydantic_core_schema__(
        self, record: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate records and JSON objects as records, and write them as JSON objects."""
        model = _model_of(record, self)

        def read(value: Any, validate: Callable[[Any], BaseModel]) -> Any:
            if isinstance(value, record):
                return value
            valid = validate(value)
            return record(**{field.name: getattr(valid, field.name) for field in fields(record)})

        def write(value: Any) -> dict[str, Any]:
            return model.model_validate(value).model_dump(mode="json")

        return core_schema.no_info_wrap_validator_function(
            read,
            handler.generate_schema(model),
            serialization=core_schema.plain_serializer_function_ser_schema(write),
        )


Json = Annotated[T, RecordForm()]
"""A record in a JSON model."""


@functools.cache
def _model_of(record: Any, form: RecordForm) -> type[JsonModel]:
    """Return a model with the fields of a record."""
    hints, added = get_type_hints(record), dict(form.added)
    columns: dict[str, Any] = {}
    for field in fields(record):
        default: Any = added.get(field.name, field.default)
        if field.default_factory is not MISSING:
            default = field.default_factory()
        if form.required is True or (form.required and field.name in form.required):
            default = MISSING
        columns[field.name] = (_hint(hints[field.name]), ... if default is MISSING else default)
    module = "solkit.core" if record.__module__.startswith("solkit.core.") else record.__module__
    about = f"`{module}.{record.__name__}`{form.about}."
    name = form.name or f"{record.__name__}Json"
    model: type[JsonModel] = create_model(name, __base__=JsonModel, __doc__=about, **columns)
    return model


def _hint(hint: Any) -> Any:
    """Return the type of a model's field for that of a record's."""
    origin, args = get_origin(hint), get_args(hint)
    if hint == Value:
        return Setting
    if hint is float:
        return _Float
    if origin in (Union, types.UnionType):
        return Number if float in args else Union[tuple(map(_hint, args))]
    if origin is tuple:
        items = (item if item is Ellipsis else _hint(item) for item in args)
        return types.GenericAlias(tuple, tuple(items))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return types.GenericAlias(dict, (args[0], _hint(args[1])))
    return cast(Any, Json)[hint] if is_dataclass(hint) else hint
