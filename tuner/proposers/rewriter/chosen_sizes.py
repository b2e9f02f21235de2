"""Sizes of blocks that a launcher chooses by branches become parameters.

``if D <= 64: BM, warps = 64, 4`` and ``else: BM, warps = 32, 8`` hide both from a search, as they
are no numbers of the launcher. At the shape at hand one branch is taken, and its numbers are where
tuning begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._carried import unpacked_statements
from solkit.tuner.proposers.rewriter._edit import Parameter, changed_tree
from solkit.tuner.proposers.rewriter._mutation import Facts
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    assigned_names,
    integer_literal,
    names_within,
    single_assignment,
    statements_of,
)
from solkit.tuner.proposers.rewriter._parse import KernelText, Launch, read_module


@dataclass(frozen=True)
class Choice:
    """Branches of a launcher that only choose numbers.

    Attributes:
        statement: the branches.
        values: the numbers that were taken at the shape at hand, by name.
    """

    statement: cst.If
    values: Mapping[str, int]


def choices_of(text: KernelText, launch: Launch, facts: Facts) -> Iterator[Choice]:
    """Yield branches of a launcher that choose numbers of launches, and do nothing else."""
    statements = statements_of(launch.launcher)
    for statement in statements:
        if not isinstance(statement, cst.If) or (branches := _branches_of(statement)) is None:
            continue
        names = set(branches[0])
        others = [other for other in statements if other is not statement]
        params = {
            param.name.value
            for group in (launch.launcher.params.params, launch.launcher.params.kwonly_params)
            for param in group
        }
        if any(set(branch) != names for branch in branches):
            continue
        if names & (set(assigned_names(*others)) | params):
            continue
        if not _are_of_launches(text, names, others):
            continue
        sizes = {name: facts.size(cst.Name(name), launch) for name in names}
        seen = {name: size for name, size in sizes.items() if size is not None}
        taken = [branch for branch in branches if seen and seen.items() <= branch.items()]
        if taken and all(branch == taken[0] for branch in taken):
            yield Choice(statement, taken[0])


def _are_of_launches(text: KernelText, names: set[str], statements: Body) -> bool:
    """Tell whether nothing but launches, and what only they read, follows from names."""
    launches = {id(launch.statement) for launch in text.launches}
    rest = [statement for statement in statements if id(statement) not in launches]
    for statement in rest:
        if not names & names_within(statement):
            continue
        binding = single_assignment(statement)
        others = [other for other in rest if other is not statement]
        if binding is None or binding.target in names_within(*others):
            return False
    return True


def _branches_of(statement: cst.If) -> list[dict[str, int]] | None:
    """Return the numbers of each branch; ``None`` if one does more, or there is no last one."""
    branches: list[dict[str, int]] = []
    node: cst.If | cst.Else | None = statement
    while node is not None:
        numbers: dict[str, int] = {}
        for inner in unpacked_statements(statements_of(node)):
            binding = single_assignment(inner)
            number = None if binding is None else integer_literal(binding.value)
            if binding is None or number is None or binding.operator:
                return None
            numbers[binding.target] = number
        branches.append(numbers)
        if isinstance(node, cst.Else):
            return branches
        node = node.orelse
    return None


def without_choice(text: KernelText, choice: Choice) -> KernelText | None:
    """Return the file with the numbers of a choice as parameters of its launcher."""
    parameters = [Parameter(name, value, (value,)) for name, value in choice.values.items()]
    return read_module(changed_tree(text, launches=[(choice.statement, [])], parameters=parameters))
