"""Blocks of cuTile's IR, as its compiler has them after all passes, without cuTile."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

_READ, _WRITTEN = ("tile_load", "load_pointer"), ("tile_store", "store_pointer", "tile_atomic_rmw")


class TileTy:
    """A tile's type; the reader tells it from a token's by its name."""

    def __init__(self, dtype, shape=()):
        self.dtype, self.shape = dtype, tuple(shape)


class Token:
    """Type of what orders accesses."""


class Var(SimpleNamespace):
    def get_type(self):
        return self.kind


class Block(list):
    def __init__(self, operations=(), params=()):
        super().__init__(operations)
        self.params = tuple(params)


_numbers = itertools.count()


def var(dtype="int32", shape=(), name=""):
    return Var(name=name or f"${next(_numbers)}", kind=TileTy(dtype, shape))


def view(tile, **more):
    return Var(name=f"$view{next(_numbers)}", kind=SimpleNamespace(tile_shape=tile, **more))


def operation(op, *results, line=1, blocks=(), **fields):
    """An operation at a line of ``k.py``."""
    effect = "LOAD" if op in _READ else "STORE" if op in _WRITTEN else "NONE"
    loc = SimpleNamespace(filename="/tmp/k.py", line=line, col=0, call_site=None)
    return SimpleNamespace(
        op=op,
        result_vars=results,
        loc=loc,
        nested_blocks=blocks,
        memory_effect=SimpleNamespace(name=effect),
        **fields,
    )


def constant(value, dtype="int32", shape=()):
    result = var(dtype, shape)
    return result, operation("typed_const", result, value=value)


def array(name, dtype, rank):
    """Flat parameters of an array, its variable and the operation that makes it."""
    parameters = [var(f"pointer[{dtype}]", name=f"{name}_0")]
    parameters += [var(name=f"{name}_{n}") for n in range(1, 2 * rank + 1)]
    whole = Var(name=name, kind=SimpleNamespace(dtype=dtype))
    new_operation = operation(
        "make_tensor_view",
        whole,
        base_ptr=parameters[0],
        shape=tuple(parameters[1 : rank + 1]),
        strides=tuple(parameters[rank + 1 :]),
    )
    return parameters, whole, new_operation


def tiles_of(whole, tile, **more):
    """A view by tiles, and the operation that makes it."""
    seen = view(tile, **more)
    return seen, operation("make_partition_view", seen, array=whole)


def loop(variable, bounds, carried, results, body):
    """``for variable in range(*bounds)`` with (name inside, start) pairs that are carried."""
    inside = [name for name, _ in carried]
    block = Block(body, (variable, *inside))
    return operation(
        "loop",
        *results,
        blocks=(block,),
        is_for_loop=True,
        start=bounds[0],
        stop=bounds[1],
        step=bounds[2],
        induction_var=variable,
        body_vars=inside,
        initial_values=[start for _, start in carried],
        body=block,
    )
