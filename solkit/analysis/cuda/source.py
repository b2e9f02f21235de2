"""Separate the device code of a CUDA C++ source from its host code.

Sources for `torch.utils.cpp_extension.load_inline` mix kernels with the host functions that launch
them. NVRTC compiles only device code, without torch's headers. A lexer and the nesting of brackets
separate the two: code that neither runs on the device nor is declared for it is blanked, so that
the compiler's line numbers stay the user's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from solkit.analysis.cuda.conditions import ALTERNATIVE_TOKENS
from solkit.analysis.cuda.preprocess import definitions_of, preprocessed


@dataclass(frozen=True)
class Token:
    """A token of C++.

    Attributes:
        kind: ``"name"``, ``"number"``, ``"string"``, ``"directive"`` or ``"mark"``.
        text: as written, but for words that are operators (``and`` is ``&&``); ``>`` is always a
            token of its own, since it may close a template.
        start, end: offsets in the source.
    """

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Function:
    """A function definition.

    Attributes:
        name: without its namespace.
        template: the tokens between the template's angle brackets; empty if it is none.
        parameters: the tokens of each parameter.
        body: the tokens between the braces.
        is_kernel: whether it is ``__global__``.
    """

    name: str
    template: tuple[Token, ...]
    parameters: tuple[tuple[Token, ...], ...]
    body: tuple[Token, ...]
    is_kernel: bool


_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<directive>\#(?:[^\n\\]|\\.)*)
    |(?P<string>(?:u8|[uUL])?R"(?P<fence>[^(\s]*)\(.*?\)(?P=fence)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\]|\\.)+')
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.]|'\d)*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<mark><\s*<\s*<|<<=|\.\.\.|::|->|\+\+|--|<<|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.DOTALL | re.VERBOSE,
)

_OF_COMPILERS = (
    *("-D__CUDACC__", "-D__NVCC__", "-D__cplusplus=202002L", "-D__linux__", "-D__x86_64__"),
    *("-D__GNUC__=13", "-DCUDA_VERSION=13000", "-DCUDART_VERSION=13000"),
    *("-D__CUDACC_VER_MAJOR__=13", "-D__CUDACC_VER_MINOR__=0", "-DTORCH_API_INCLUDE_EXTENSION_H"),
    *("-DTORCH_VERSION_MAJOR=2", "-DTORCH_VERSION_MINOR=13", "-DWITH_CUDA", "-DNDEBUG"),
)
"""Macros that nvcc, the host's compiler and torch's build define."""
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_ON_DEVICE = frozenset({"__global__", "__device__", "__constant__", "__managed__"})
_OF_HOST = frozenset(
    {"torch", "at", "c10", "pybind11", "py", "ATen", "cudaStream_t", "cublasHandle_t"}
)
_TORCH_ON_DEVICE = frozenset(
    {"Half", "BFloat16", "TensorAccessor", "RestrictPtrTraits", "DefaultPtrTraits"}
    | {f"PackedTensorAccessor{bits}" for bits in ("", "32", "64")}
)
"""Types of torch's headers that prelude.cuh defines: a kernel may use other names for these."""
_HOST_TEMPLATES = frozenset(
    {"vector", "string", "tuple", "optional", "map", "unordered_map", "cout"}
)
_TYPES = frozenset({"struct", "class", "union", "enum"})
_ATTRIBUTES = ("__launch", "__align", "__attr", "__cluster", "__maxnreg", "alignas")

_DEVICE_HEADERS = re.compile(
    r"(cuda_(fp16|bf16|fp8|fp6|fp4)\.hp?p?|mma\.h|math_constants\.h|cooperative_groups.*|cub/(?!cub\.cuh).*|cuda/.*"
    r"|cuda_pipeline.*|cuda_awbarrier.*|cutlass/.*|cute/.*|cuComplex\.h|sm_\w+\.h|vector_types\.h)"
)


_HOST_HEADERS = re.compile(
    r"(cuda|cuda_runtime|cuda_runtime_api|device_launch_parameters|Python|[cmnwus]\w*blas\w*|curand"
    r"|cublas\w*|cudnn\w*|cusparse\w*|cufft\w*|cub/cub|torch/\w+|torch/csrc/.*|pybind11/.*"
    r"|nvToolsExt|nvtx3/.*|ATen/ATen|ATen/cuda/CUDAContext|c10/cuda/CUDA(Guard|Stream|Exception)"
    r"|(std)?(io|lib|def|int|arg|bool)|math|float|limits|assert|string|time)\.(h|cuh)|[a-z_0-9]+"
)
"""Headers without names that device code needs, or with names that the prelude has."""


def tokens_of(text: str) -> tuple[Token, ...]:
    """Return the tokens of C++ without comments; a preprocessor line is one token.

    A launch may be written ``<< <``, as formatters for C++ leave it.
    """
    matches = (match for match in _TOKEN.finditer(text) if match.lastgroup != "skip")
    return tuple(_token_of_match(match) for match in matches)


def _token_of_match(match: re.Match[str]) -> Token:
    kind, text = match.lastgroup or "", match[0]
    if kind == "mark" and text.count("<") == 3:
        text = "<<<"
    elif kind == "name" and text in ALTERNATIVE_TOKENS:
        kind, text = "mark", ALTERNATIVE_TOKENS[text]
    return Token(kind, text, match.start(), match.end())


def closing_bracket(tokens: Sequence[Token], at: int) -> int:
    """Return the index of the bracket that closes the one at `at`, or past the end."""
    depth = 0
    for index in range(at, len(tokens)):
        token = tokens[index]
        if token.kind == "mark" and token.text in _PAIRS:
            depth += 1
        elif token.kind == "mark" and token.text in _PAIRS.values():
            depth -= 1
            if not depth:
                return index
    return len(tokens)


def split_arguments(tokens: Sequence[Token], angles: bool = False) -> list[tuple[Token, ...]]:
    """Split tokens at their outer commas.

    Args:
        tokens: between two brackets.
        angles: whether ``<`` and ``>`` nest, too.
    """
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        opens = token.text in _PAIRS or (angles and token.text == "<")
        closes = token.text in _PAIRS.values() or (angles and token.text == ">")
        depth += (opens - closes) if token.kind == "mark" else 0
        if token.text == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return [tuple(part) for part in parts if part]


def declared_name(parameter: Sequence[Token]) -> str:
    """Return the name that a parameter declares; empty if it has none."""
    names = _names_before_marks(parameter, ("=", "["))
    return names[-1].text if names else ""


@dataclass(frozen=True)
class Source:
    """CUDA C++, of one file or several.

    Attributes:
        text: all of it, with ``#line`` for each file, without the folder, on which no fact of a
            kernel may depend.
        flags: options of the compiler, of which those count that define macros.
    """

    text: str
    flags: tuple[str, ...] = ()

    @classmethod
    def of(cls, parts: Sequence[tuple[str, str, int]], flags: Sequence[str] = ()) -> Source:
        """Join several texts in one source.

        Args:
            parts: each text with its file and its first line there.
            flags: as above.
        """
        named = ((text, Path(file).name, line) for text, file, line in parts)
        lines = "\n".join(f'#line {line} "{file}"\n{text}' for text, file, line in named)
        return cls(lines, tuple(flags))

    @cached_property
    def host_text(self) -> str:
        """The text as the host's compiler reads it, line for line."""
        return self._preprocessed([])

    def device_text(self, architecture: int, without: Collection[str] = ()) -> str:
        """Return the text as the device's compiler reads it, with all else blanked, line for line.

        Args:
            architecture: ``__CUDA_ARCH__``: 900 for compute capability 9.0.
            without: places of declarations that are blanked, too, unless these are the device's.
        """
        text = self._preprocessed([f"-D__CUDA_ARCH__={architecture}"])
        for item in _items_of_scope(tokens_of(text)):
            start, end = item.tokens[0].start, item.tokens[-1].end
            is_left_out = not item.is_on_device and _spans(text, start, end, without)
            if is_left_out or not item.for_device:
                text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
        return text

    def _preprocessed(self, more: Sequence[str]) -> str:
        return preprocessed(self.text, definitions_of([*_OF_COMPILERS, *more, *self.flags]))

    @cached_property
    def unread_headers(self) -> tuple[str, ...]:
        """Headers that may hold device code, but that no compiler here gets."""
        names = (_included(item) for item in self._items if item.is_directive)
        return tuple(
            dict.fromkeys(
                name
                for name in names
                if name
                and not _DEVICE_HEADERS.fullmatch(name)
                and not _HOST_HEADERS.fullmatch(name)
            )
        )

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """The definitions by name; the first of several."""
        functions: dict[str, Function] = {}
        for item in self._items:
            function = item.function
            if function is not None:
                functions.setdefault(function.name, function)
        return functions

    @cached_property
    def constants(self) -> tuple[tuple[Token, ...], ...]:
        """The declarations of global constants."""
        return tuple(
            item.tokens
            for item in self._items
            if item.tokens[0].text in ("const", "constexpr", "static", "inline", "enum")
            and item.function is None
        )

    @cached_property
    def fields(self) -> Mapping[str, tuple[str, ...]]:
        """The fields of each structure, in the order of their declarations."""
        fields: dict[str, tuple[str, ...]] = {"cudaLaunchConfig_t": (
            "gridDim", "blockDim", "dynamicSmemBytes", "stream", "attrs", "numAttrs",
        )}  # fmt: skip
        for item in self._items:
            body = _structure(item.tokens)
            if body is not None:
                fields.setdefault(body[0], tuple(_structure_fields(body[1])))
        return fields

    def place(self, offset: int) -> str:
        """``file:line`` of an offset of `host_text`."""
        return _place_in(self.host_text, offset)

    @cached_property
    def _items(self) -> tuple[_Item, ...]:
        return tuple(_items_of_scope(tokens_of(self.host_text)))


def _place_in(text: str, offset: int) -> str:
    marks = re.finditer(r'^#line (\d+) "(.*)"\n', text[: offset + 1], re.MULTILINE)
    file, line, start = "cuda", 1, 0
    for mark in marks:
        file, line, start = mark[2], int(mark[1]), mark.end()
    return f"{file}:{line + text.count(chr(10), start, offset)}"


def _spans(text: str, start: int, end: int, places: Collection[str]) -> bool:
    """Tell if one of some places lies between two offsets."""
    if not places:
        return False
    file, _, first = _place_in(text, start).rpartition(":")
    last = int(first) + text.count("\n", start, end)
    return any(f"{file}:{line}" in places for line in range(int(first), last + 1))


# ----------------------------------------------------------------------------------- items


@dataclass(frozen=True)
class _Item:
    """A preprocessor line, or a declaration or definition at namespace scope."""

    tokens: tuple[Token, ...]

    @property
    def is_directive(self) -> bool:
        return self.tokens[0].kind == "directive"

    @property
    def is_on_device(self) -> bool:
        """True if it says that the device runs or has it."""
        return any(t.kind == "name" and t.text in _ON_DEVICE for t in self._header)

    @property
    def for_device(self) -> bool:
        """True if the device's compiler needs it."""
        if self.is_directive:
            include = _included(self)
            return not include or _DEVICE_HEADERS.fullmatch(include) is not None
        if self.is_on_device:
            return True
        names = {token.text for token in self._header if token.kind == "name"}
        if self.tokens[0].text in ("typedef", "using") and names & _TORCH_ON_DEVICE:
            return True
        if names & _OF_HOST or (names & _HOST_TEMPLATES and "std" in names):
            return False
        return "constexpr" in names if self._body is not None else not self._is_prototype

    @property
    def function(self) -> Function | None:
        """The function that it defines."""
        if self._body is None:
            return None
        header, body = self._header, self.tokens[self._body + 1 : -1]
        template: tuple[Token, ...] = ()
        if header[0].text == "template":
            end = _closing_angle(header)
            template, header = header[2:end], header[end + 1 :]
        opening = next((i for i in _parameter_lists(header)), None)
        if opening is None:
            return None
        inside = header[opening + 1 : closing_bracket(header, opening)]
        parameters = tuple(split_arguments(inside, angles=True))
        is_kernel = any(token.text == "__global__" for token in header)
        return Function(header[opening - 1].text, template, parameters, body, is_kernel)

    @cached_property
    def _body(self) -> int | None:
        """The index of the brace that opens a function's body."""
        if self.is_directive or self.tokens[-1].text != "}":
            return None
        opening = next(i for i, token in enumerate(self.tokens) if token.text == "{")
        return opening if _is_function(self.tokens[:opening]) else None

    @property
    def _header(self) -> tuple[Token, ...]:
        return self.tokens if self._body is None else self.tokens[: self._body]

    @property
    def _is_prototype(self) -> bool:
        """``int f(int x);``, which the device does not need."""
        first, last = self.tokens[0].text, self.tokens[-2:]
        plain = first not in _TYPES | {"typedef", "using", "template"}
        return plain and [token.text for token in last] == [")", ";"]


def _included(item: _Item) -> str:
    """Return the header that a directive includes; empty if it is another one."""
    match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)', item.tokens[0].text)
    return match[1] if match else ""


def _items_of_scope(tokens: Sequence[Token]) -> Iterator[_Item]:
    at = 0
    while at < len(tokens):
        inside = _transparent(tokens, at)
        if inside is not None:
            end = closing_bracket(tokens, inside)
            yield from _items_of_scope(tokens[inside + 1 : end])
            at = end + 1
            continue
        end = _end_of_item(tokens, at)
        item = _Item(tuple(tokens[at:end]))
        if item.tokens[0].text != ";":
            yield item
        at = end


def _transparent(tokens: Sequence[Token], at: int) -> int | None:
    """Return the brace of a namespace or ``extern "C"``, whose contents are items themselves."""
    first = at + (tokens[at].text == "inline")
    if first >= len(tokens) or tokens[first].text not in ("namespace", "extern"):
        return None
    for index in range(first + 1, min(first + 8, len(tokens))):
        if tokens[index].text == "{":
            return index
        if tokens[index].kind not in ("name", "string") and tokens[index].text != "::":
            return None
        if tokens[first].text == "extern" and tokens[index].kind != "string":
            return None
    return None


def _end_of_item(tokens: Sequence[Token], at: int) -> int:
    if tokens[at].kind == "directive":
        return at + 1
    index = at
    while index < len(tokens):
        text = tokens[index].text if tokens[index].kind == "mark" else ""
        if text == ";":
            return index + 1
        if text == "{" and _is_function(tokens[at:index]):
            return min(closing_bracket(tokens, index) + 1, len(tokens))
        # a preprocessor line in the middle of an item belongs to it
        index = closing_bracket(tokens, index) + 1 if text in _PAIRS else index + 1
    return len(tokens)


def _is_function(header: Sequence[Token]) -> bool:
    """Tell whether a brace after these tokens opens a function's body."""
    if header and header[0].text == "template":
        header = header[_closing_angle(header) + 1 :]
    if any(token.text in _TYPES or token.text == "=" for token in header[:1]):
        return False
    return next(_parameter_lists(header), None) is not None


def _parameter_lists(header: Sequence[Token]) -> Iterator[int]:
    """Yield the place of ``name (``, except for attributes such as ``__launch_bounds__(256)``."""
    index = 1
    while index < len(header):
        token = header[index]
        if token.text == "=" and token.kind == "mark":
            return
        before = header[index - 1]
        called = token.text == "(" and before.kind == "name"
        if called and not before.text.startswith(_ATTRIBUTES):
            yield index
        if token.kind == "mark" and token.text in _PAIRS:
            index = closing_bracket(header, index)
        index += 1


def _closing_angle(tokens: Sequence[Token]) -> int:
    """Return the index of the ``>`` that closes the ``<`` behind the first token."""
    depth, index = 0, 1
    while index < len(tokens):
        text = tokens[index].text
        if text in _PAIRS:
            index = closing_bracket(tokens, index)
        depth += (text == "<") - (text == ">")
        if not depth:
            return index
        index += 1
    return index


def _structure(tokens: Sequence[Token]) -> tuple[str, Sequence[Token]] | None:
    """Return the name of a structure and what is between its braces, if it has a body."""
    if tokens[0].text == "template":
        tokens = tokens[_closing_angle(tokens) + 1 :]
    if not tokens or tokens[0].text not in ("struct", "class"):
        return None
    opening = next((i for i, token in enumerate(tokens) if token.text in "{;"), len(tokens))
    named = [token.text for token in tokens[1:opening] if token.kind == "name"]
    if opening == len(tokens) or tokens[opening].text == ";" or not named:
        return None
    colon = next((i for i in range(1, opening) if tokens[i].text == ":"), opening)
    named = [t.text for t in tokens[1:colon] if t.kind == "name" and t.text != "final"]
    return named[-1], tokens[opening + 1 : closing_bracket(tokens, opening)]


def _structure_fields(body: Sequence[Token]) -> Iterator[str]:
    """Yield the names of a structure's own variables."""
    for item in _items_of_scope(body):
        texts = [token.text for token in item.tokens]
        if item.function is not None or "(" in texts or texts[0] in _TYPES | {"using", "static"}:
            continue
        if texts[0] in ("typedef", "friend", "constexpr", "template") or item.is_directive:
            continue
        for part in split_arguments(item.tokens[:-1], angles=True):
            names = _names_before_marks(part, ("=", "[", "{", ":"))
            if names:
                yield names[-1].text


def _names_before_marks(tokens: Sequence[Token], marks: Sequence[str]) -> list[Token]:
    """Return the names before the first of some marks."""
    end = next((i for i, token in enumerate(tokens) if token.text in marks), len(tokens))
    return [token for token in tokens[:end] if token.kind == "name"]
