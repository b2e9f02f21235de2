"""Boosted trees as XGBoost stores them, evaluated for a few rows without XGBoost.

To import XGBoost takes .6 s of a core, most of it for libraries that only its other interfaces
need; a forecast of some dozens of rows takes milliseconds. So what only forecasts reads the file
itself (UBJSON, https://ubjson.org; its fields: XGBoost's ``doc/model.schema``). The numbers are
XGBoost's own, bit by bit: leaves are added to the base score in the order of the trees, in 32 bits.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_FORMATS = {"i": ">b", "U": ">B", "I": ">h", "u": ">H", "l": ">i", "L": ">q", "d": ">f", "D": ">d"}
"""Numbers by their marker; `struct` and numpy call them alike."""
_CONSTANTS = {"T": True, "F": False, "Z": None}


@dataclass(frozen=True)
class StoredTrees:
    """The nodes of all trees of a model, one after another.

    Attributes:
        roots: the place of each tree's first node, (trees,).
        children: the places of both children, or of the node itself if it is a leaf, (nodes, 2).
        features: the column that a node asks about, (nodes,).
        limits: a value below goes to the first child, (nodes,); a leaf's value.
        default_left: whether a missing value goes to the first child, (nodes,).
        base: what the leaves are added to.
    """

    roots: npt.NDArray[np.int64]
    children: npt.NDArray[np.int64]
    features: npt.NDArray[np.int64]
    limits: npt.NDArray[np.float32]
    default_left: npt.NDArray[np.bool_]
    base: np.float32

    @staticmethod
    def parse(content: bytes) -> StoredTrees:
        """Read a model of XGBoost's, with numbers as features and one output.

        Raises:
            ValueError: it is no such model.
        """
        try:
            learner = parse_ubjson(content)["learner"]
            trees = learner["gradient_booster"]["model"]["trees"]
            base = learner["learner_model_param"]["base_score"].strip("[]")
            return _joined(trees, np.float32(base))
        except (AttributeError, IndexError, KeyError, TypeError, struct.error) as error:
            raise ValueError(f"no model of XGBoost's: {error}") from error

    def predict(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Predict (rows,) from features (rows, names); NaN where they are missing."""
        total = np.full(len(values), self.base, np.float32)
        for leaves in self.limits[self._final_nodes(values)].T:
            total += leaves
        return total

    def leaves(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return the leaf of each tree that a row is in, (rows, trees)."""
        return (self._final_nodes(values) - self.roots).astype(np.float32)

    def _final_nodes(self, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        values = np.asarray(values, np.float32)
        rows = np.arange(len(values))[:, None]
        nodes = np.broadcast_to(self.roots, (len(values), len(self.roots)))
        while True:
            numbers, limits = values[rows, self.features[nodes]], self.limits[nodes]
            goes_left = np.where(np.isnan(numbers), self.default_left[nodes], numbers < limits)
            following = np.where(goes_left, self.children[nodes, 0], self.children[nodes, 1])
            if np.array_equal(following, nodes):
                return nodes
            nodes = following


def _joined(trees: list[dict[str, Any]], base: np.float32) -> StoredTrees:
    sizes = [len(tree["left_children"]) for tree in trees]
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    parts = [_children(tree, root) for tree, root in zip(trees, roots, strict=True)]

    def column(name: str) -> npt.NDArray[Any]:
        return np.concatenate([np.asarray(tree[name]) for tree in trees])

    return StoredTrees(
        roots,
        np.concatenate(parts),
        column("split_indices").astype(np.int64),
        column("split_conditions").astype(np.float32),
        column("default_left").astype(bool),
        base,
    )


def _children(tree: dict[str, Any], root: np.int64) -> npt.NDArray[np.int64]:
    pairs = np.stack([tree["left_children"], tree["right_children"]], axis=1).astype(np.int64)
    own = np.arange(len(pairs))[:, None]
    return np.where(pairs < 0, own, pairs) + root


# -------------------------------------------------------------------------------------- UBJSON


def parse_ubjson(content: bytes) -> Any:
    """Return the value of a UBJSON text; arrays of one type of numbers are numpy's.

    Raises:
        ValueError: it has a marker that is not known.
        IndexError, struct.error: it ends too soon.
    """
    return _Reader(content).value()


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content, self._place = content, 0

    def value(self, marker: str = "") -> Any:
        marker = marker or self._marker()
        if marker in _FORMATS:
            (number,) = struct.unpack_from(_FORMATS[marker], self._content, self._place)
            self._place += struct.calcsize(_FORMATS[marker])
            return number
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        if marker == "S":
            return self._text()
        if marker == "{":
            return self._object()
        if marker == "[":
            return self._array()
        raise ValueError(f"unknown marker {marker!r} at byte {self._place - 1}")

    def _marker(self) -> str:
        self._place += 1
        return chr(self._content[self._place - 1])

    def _is_next(self, marker: str) -> bool:
        """Tell whether a marker follows, and go on behind it if so."""
        if chr(self._content[self._place]) != marker:
            return False
        self._place += 1
        return True

    def _text(self) -> str:
        length = int(self.value())
        self._place += length
        return self._content[self._place - length : self._place].decode()

    def _object(self) -> dict[str, Any]:
        count = int(self.value()) if self._is_next("#") else None
        result: dict[str, Any] = {}
        while not self._is_next("}") if count is None else len(result) < count:
            name = self._text()
            result[name] = self.value()
        return result

    def _array(self) -> Any:
        kind = self._marker() if self._is_next("$") else ""
        count = int(self.value()) if self._is_next("#") else None
        if kind in _FORMATS and count is not None:
            numbers = np.frombuffer(self._content, _FORMATS[kind], count, self._place)
            self._place += numbers.nbytes
            return numbers
        items: list[Any] = []
        while not self._is_next("]") if count is None else len(items) < count:
            items.append(self.value(kind))
        return items
