"""Loops along rows of any length and place take whole vectors, and the odd ends apart.

A row whose length is no multiple of 16 begins at any address, and a mask that ends within a vector
has it taken apart: the compiler reads such rows element by element. With V elements a vector, and a
row that begins at the element `begin` of its tensor, the loop over ``[low, end)`` becomes three::

    first = ceil(begin / V) V       head = min(first - begin, end - low)
    whole = floor((end - low - head) / V) V

    head    low                   to low + head           at most V - 1 elements
    middle  low + head            to low + head + whole   blocks of whole vectors
    tail    low + head + whole    to end                  at most V - 1 elements

The middle's first element is `first`, which is a multiple of V by the way it is computed, and so is
the bound of its mask: the compiler knows that from the arithmetic, and no hint says it. Each of the
three runs the loop's own statements with masks of its own, so nothing outside the row is read or
written, whatever the row's length is and wherever it begins. Vectors have 16 bytes where the tensor
itself begins at a multiple of 16 bytes, for which Triton looks at each launch; elsewhere the
middle is read element by element, as before. CUDA's vectorised softmax in PyTorch takes rows apart
in the same way (aten/src/ATen/native/cuda/PersistentSoftmax.cuh and SoftMax.cu, `ilpReduce`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from solkit.tuner.proposers.rewriter._edit import (
    changed_text,
    renamed_function,
)
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import Body, parse_expression, render_code, with_body
from solkit.tuner.proposers.rewriter._parse import KernelText, Launch, in_launcher
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, relaunched
from solkit.tuner.proposers.rewriter._row_blocks import BlockWriter
from solkit.tuner.proposers.rewriter._row_writer import RowWriter


class AlignedRows:
    """Rows that begin at odd places, or are of odd lengths, are read and written in whole vectors.

    Applies to loops over blocks of contiguous elements with a mask for the row's end, whose results
    do not depend on how the row is cut into blocks: sums, extremes and their places, sums relative
    to a running maximum, and what is computed elementwise. The tuned shape must have a stride or a
    length that is no multiple of 16.
    """

    kind = "aligned rows"
    helps = (
        *("instructions", "arithmetic instructions", "narrow accesses", "narrow requests"),
        "latency",
    )

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for launch in text.single:
            for kind in (RowWriter, BlockWriter):
                writer = kind(launch, facts)
                body = writer.rewritten()
                source = _source(text, launch, body, list(writer.tests)) if body else ""
                if source:
                    name, why = (
                        launch.function.name,
                        facts.explain_factors("instructions", "latency"),
                    )
                    yield Variant(
                        source,
                        f"Rows of {name} begin at any element, so each is accessed alone; the "
                        f"middle of a row is whole vectors of 16 bytes{why}.",
                    )
                    break


def _source(text: KernelText, launch: Launch, body: Body, tests: Sequence[str]) -> str:
    """Return the file; the original launch stays where tensors' rows do not begin alike."""
    function = launch.function
    if not tests:
        node = with_body(function.node, body)
        return changed_text(text, functions={function.name: node})
    conditions = [in_launcher(parse_expression(test), launch) for test in tests]
    written = [render_code(node) for node in conditions if node is not None]
    if len(written) < len(tests):
        return ""
    node = renamed_function(function, text.fresh(f"{function.name}_aligned"), body)
    return relaunched(text, NewLaunch(launch, node), condition=" and ".join(written))
