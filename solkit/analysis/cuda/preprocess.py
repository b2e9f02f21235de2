"""Run the C preprocessor on CUDA C++: conditions, definitions and macros of a project itself.

Projects hide kernels, launches and ``__device__`` behind macros, so items and calls can be told
apart only after expansion. Each line stays where it was: an expansion stands on the line of its
call. Directives that are in force stay in the text, for the compiler's own headers; an ``#include``
is not followed. Macros are expanded by Prosser's algorithm, which the C standard words (6.10.3).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from solkit.analysis.cuda.conditions import condition_holds


@dataclass(frozen=True)
class _Piece:
    """A preprocessing token, white space or a directive.

    Attributes:
        kind: ``"name"``, ``"number"``, ``"string"``, ``"space"``, ``"directive"`` or ``"mark"``.
        text: as written; a comment is white space.
        hidden: macros that must not replace it any more.
    """

    kind: str
    text: str
    hidden: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Macro:
    """A definition.

    Attributes:
        body: its replacement.
        parameters: ``None`` if it takes no arguments.
        rest: the parameter for all further arguments, if there is one.
    """

    body: tuple[_Piece, ...]
    parameters: tuple[str, ...] | None = None
    rest: str = ""


_PIECE = re.compile(
    r"""(?P<space>(?:\s|\\\n|//(?:\\\n|[^\n])*|/\*.*?\*/)+)
    |(?P<string>(?:u8|[uUL])?R"(?P<fence>[^(\s]*)\(.*?\)(?P=fence)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+')
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.]|'\w)*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<mark>\#\#|<<<|<<=|>>=|\.\.\.|::|->|\+\+|--|<<|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.DOTALL | re.VERBOSE,
)
_DIRECTIVE = re.compile(r"[ \t]*\#((?:/\*.*?\*/|\\\n|[^\n])*)", re.DOTALL)
_DEFINE = re.compile(r"define\s+(\w+)(\((?P<parameters>[^)]*)\))?(?P<body>.*)", re.DOTALL)
_CONDITIONS = frozenset({"if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif"})
_MOST_PIECES = 2_000_000


def definitions_of(flags: Sequence[str]) -> dict[str, Macro]:
    """Return the macros that compiler options define, as ``-DN=4``, ``-D N=4`` and ``-UN`` do."""
    macros: dict[str, Macro] = {}
    for index, flag in enumerate(flags):
        match = re.fullmatch(r"(?:-|/)([DU])\s*(.*)", flag, re.DOTALL)
        if match is None:
            continue
        following = flags[index + 1] if index + 1 < len(flags) else ""
        name, _, value = (match[2] or following).partition("=")
        if match[1] == "U":
            macros.pop(name, None)
        elif name:
            defined = "=" in (match[2] or following)
            macros |= _macro_of_directive(f"define {name} {value if defined else 1}")
    return macros


def preprocessed(text: str, macros: Mapping[str, Macro]) -> str:
    """Return the text that a compiler reads, line for line.

    Args:
        text: C++.
        macros: macros that are defined before its first line.
    """
    return _Expansion(dict(macros), _active_pieces(text)).text()


def _split_pieces(text: str) -> list[_Piece]:
    pieces = (_Piece(match.lastgroup or "", match[0]) for match in _PIECE.finditer(text))
    return [_blanked_piece(piece) if piece.kind == "space" else piece for piece in pieces]


def _blanked_piece(piece: _Piece) -> _Piece:
    return replace(piece, text="\n" * piece.text.count("\n") or " ")


def _active_pieces(text: str) -> Iterator[_Piece]:
    """Yield the pieces of a text; a line with a directive is one piece."""
    at = 0
    while at < len(text):
        line_starts = at == 0 or text[at - 1] == "\n"
        directive = _DIRECTIVE.match(text, at) if line_starts else None
        if directive is not None:
            yield _Piece("directive", directive[0])
            at = directive.end()
            continue
        match = _PIECE.match(text, at)
        assert match is not None
        end = match.end()
        if match.lastgroup == "space" and "\n" in match[0]:
            end = _end_of_space(text, at, end)
        piece = _Piece(match.lastgroup or "", text[at:end])
        if piece.kind == "space":
            kept = re.sub(r"//(?:\\\n|[^\n])*|/\*.*?\*/", _newlines, piece.text, flags=re.DOTALL)
            piece = replace(piece, text=kept)
        yield piece
        at = end


def _end_of_space(text: str, start: int, end: int) -> int:
    """Return the end of white space before the next directive, if one follows within it."""
    last = text.rfind("\n", start, end)
    return last + 1 if last >= 0 and text[last + 1 : end].strip() == "" else end


def _newlines(comment: re.Match[str]) -> str:
    return "\n" * comment[0].count("\n") or " "


def _macro_of_directive(directive: str) -> dict[str, Macro]:
    """Return the macro of ``define NAME(a, b) body``."""
    match = _DEFINE.match(directive.replace("\\\n", " "))
    if match is None:
        return {}
    body = [replace(p, text=" ") if p.kind == "space" else p for p in _split_pieces(match["body"])]
    named = match["parameters"]
    if named is None:
        return {match[1]: Macro(tuple(_trimmed_pieces(_joined_tokens(body))))}
    names = [name.strip() for name in named.split(",") if name.strip()]
    rest = ""
    if names and names[-1].endswith("..."):
        rest = names.pop()[:-3].strip() or "__VA_ARGS__"
    return {match[1]: Macro(tuple(_trimmed_pieces(_joined_tokens(body))), tuple(names), rest)}


def _joined_tokens(body: Sequence[_Piece]) -> list[_Piece]:
    """Join tokens: remove the white space around ``##``."""
    kept: list[_Piece] = []
    for piece in body:
        if piece.text == "##":
            while kept and kept[-1].kind == "space":
                kept.pop()
        elif piece.kind == "space" and kept and kept[-1].text == "##":
            continue
        kept.append(piece)
    return kept


def _trimmed_pieces(pieces: Sequence[_Piece]) -> list[_Piece]:
    first, last = 0, len(pieces)
    while first < last and pieces[first].kind == "space":
        first += 1
    while last > first and pieces[last - 1].kind == "space":
        last -= 1
    return list(pieces[first:last])


@dataclass
class _Branch:
    """An ``#if`` that is open: whether its text counts, and whether one of its parts did."""

    around: bool
    counts: bool
    done: bool


@dataclass
class _Expansion:
    """Expands a stream of pieces.

    Attributes:
        macros: defined so far.
        source: of pieces; read as far as needed, since a directive changes what follows.
        pending: pieces before the source's next.
        branches: conditions that are open.
    """

    macros: dict[str, Macro]
    source: Iterator[_Piece]
    pending: deque[_Piece] = field(default_factory=deque)
    branches: list[_Branch] = field(default_factory=list)

    def text(self) -> str:
        """Return all pieces, expanded."""
        return "".join(piece.text for piece in self.expanded())

    def expanded(self) -> Iterator[_Piece]:
        count = 0
        while (piece := self.next()) is not None:
            count += 1
            if count > _MOST_PIECES:  # macros that double each other
                return
            macro = self.macros.get(piece.text) if piece.kind == "name" else None
            if macro is None or piece.text in piece.hidden or not self.replaced(piece, macro):
                yield piece

    def next(self) -> _Piece | None:
        """Return the next piece that is compiled; directives are obeyed on the way."""
        while True:
            piece = self.pending.popleft() if self.pending else next(self.source, None)
            if piece is None:
                return None
            if piece.kind == "directive":
                piece = self.obeyed(piece)
            elif self.branches and not self.branches[-1].counts:
                piece = _Piece("space", "\n" * piece.text.count("\n"))
            if piece.text:
                return piece

    def obeyed(self, piece: _Piece) -> _Piece:
        """Follow conditions and definitions; the directive stays if a compiler needs it."""
        bare = re.sub(r"/\*.*?\*/|//[^\n]*", " ", piece.text, flags=re.DOTALL)
        words = bare.strip().removeprefix("#").strip()
        name = (re.match(r"\w*", words) or [""])[0]
        blank = _Piece("space", "\n" * piece.text.count("\n"))
        if name in _CONDITIONS:
            self.branch(name, words[len(name) :].replace("\\\n", " ").strip())
            return blank
        if self.branches and not self.branches[-1].counts:
            return blank
        if name == "define":
            self.macros |= _macro_of_directive(words)
        elif name == "undef":
            self.macros.pop(words[len(name) :].strip(), None)
        elif name == "pragma":  # its numbers may be macros
            inner = _Expansion(self.macros, iter(_split_pieces(piece.text.replace("\\\n", " "))))
            return _Piece("pragma", inner.text() + blank.text)
        return replace(piece, kind="kept")

    def branch(self, name: str, rest: str) -> None:
        """Follow one of `_CONDITIONS`."""
        if name.startswith("if"):
            around = not self.branches or self.branches[-1].counts
            counts = around and self.true(name, rest)
            self.branches.append(_Branch(around, counts, counts))
        elif self.branches and name == "endif":
            self.branches.pop()
        elif self.branches:
            open_ = self.branches[-1]
            may_count = open_.around and not open_.done
            open_.counts = may_count and (name == "else" or self.true(name, rest))
            open_.done = open_.done or open_.counts

    def true(self, name: str, rest: str) -> bool:
        if name.endswith("def"):
            defined = (rest.split() or [""])[0] in self.macros
            return defined != name.endswith("ndef")
        decided = re.sub(
            r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))",
            lambda match: str(int((match[1] or match[2]) in self.macros)),
            rest,
        )
        pieces = list(_Expansion(self.macros, iter(_split_pieces(decided))).expanded())
        return condition_holds([piece.text for piece in pieces if piece.kind != "space"])

    # -------------------------------------------------------------------- macros

    def replaced(self, piece: _Piece, macro: Macro) -> bool:
        """Put a macro's replacement before what follows; not if its arguments are missing."""
        hidden = piece.hidden | {piece.text}
        if macro.parameters is None:
            self.pending.extendleft(reversed(self.filled(macro, {}, hidden)))
            return True
        read: list[_Piece] = []
        arguments = self.arguments(read)
        if arguments is None:
            self.pending.extendleft(reversed(read))
            return False
        inside = _bound_arguments(macro, arguments)
        lines = "".join("\n" * read_piece.text.count("\n") for read_piece in read)
        after = [_Piece("space", lines)] if lines else []
        self.pending.extendleft(reversed([*self.filled(macro, inside, hidden), *after]))
        return True

    def arguments(self, read: list[_Piece]) -> list[list[_Piece]] | None:
        """Split what stands between the brackets here at its outer commas.

        Args:
            read: gets each piece that is taken from the stream.
        """
        while (piece := self.next()) is not None:
            read.append(piece)
            if piece.kind not in ("space", "kept", "pragma"):
                break
        if piece is None or piece.text != "(":
            return None
        parts: list[list[_Piece]] = [[]]
        depth = 1
        while (piece := self.next()) is not None:
            read.append(piece)
            if piece.kind == "mark":
                depth += (piece.text == "(") - (piece.text == ")")
                if not depth:
                    return [_trimmed_pieces(part) for part in parts]
                if piece.text == "," and depth == 1:
                    parts.append([])
                    continue
            parts[-1].append(_argument_piece(piece))
        return None

    def filled(
        self, macro: Macro, arguments: Mapping[str, list[_Piece]], hidden: frozenset[str]
    ) -> list[_Piece]:
        """Return a macro's body with its arguments."""
        body = _optional(macro, arguments)
        filled: list[_Piece] = []
        index = 0
        while index < len(body):
            piece = body[index]
            after = body[index + 1] if index + 1 < len(body) else None
            if piece.text == "#" and macro.parameters is not None and after is not None:
                name = next((p for p in body[index + 1 : index + 3] if p.kind != "space"), after)
                if name.text in arguments:
                    filled.append(_Piece("string", _stringified(arguments[name.text])))
                    index = body.index(name, index) + 1
                    continue
            if piece.text == "##" and filled and after is not None:
                self.paste(filled, arguments.get(after.text, [after]), after.text == macro.rest)
                index += 2
                continue
            if piece.text in arguments and piece.kind == "name":
                raw = arguments[piece.text]
                joins = after is not None and after.text == "##"
                filled += (raw or [_Piece("space", "")]) if joins else self.alone(raw)
            else:
                filled.append(piece)
            index += 1
        return [replace(piece, hidden=piece.hidden | hidden) for piece in filled if piece.text]

    def alone(self, pieces: Sequence[_Piece]) -> list[_Piece]:
        """Return an argument, expanded by itself."""
        return list(_Expansion(self.macros, iter(pieces)).expanded())

    def paste(self, output: list[_Piece], right: Sequence[_Piece], is_rest: bool) -> None:
        """Join the last piece with the first of those to its right."""
        if is_rest and output[-1].text == ",":  # GNU's: no argument takes the comma with it
            output[-1:] = [output[-1], *self.alone(right)] if right else []
            return
        last = output.pop()
        first, *others = right or [_Piece("space", "")]
        joined = _split_pieces(last.text + first.text)
        output += [*(joined or [_Piece("space", "")]), *others]


def _argument_piece(piece: _Piece) -> _Piece:
    """Return a piece within an argument: a line's end is white space, a pragma an operator."""
    if piece.kind == "pragma":
        words = piece.text.strip().removeprefix("#").strip().removeprefix("pragma").strip()
        return _Piece("name", f"_Pragma({_stringified([_Piece('name', words)])}) ")
    if piece.kind in ("space", "kept"):
        return _Piece("space", " ")
    return piece


def _bound_arguments(macro: Macro, arguments: list[list[_Piece]]) -> dict[str, list[_Piece]]:
    """Return the arguments by their parameters' names."""
    names = macro.parameters or ()
    bound = {name: arguments[i] if i < len(arguments) else [] for i, name in enumerate(names)}
    if macro.rest:
        comma = [_Piece("mark", ","), _Piece("space", " ")]
        further = arguments[len(names) :]
        bound[macro.rest] = [p for i, part in enumerate(further) for p in (comma * (i > 0) + part)]
    return bound


def _optional(macro: Macro, arguments: Mapping[str, list[_Piece]]) -> list[_Piece]:
    """Return a body with its ``__VA_OPT__(...)`` decided."""
    body = list(macro.body)
    while (at := next((i for i, p in enumerate(body) if p.text == "__VA_OPT__"), None)) is not None:
        depth, end = 0, at + 1
        while end < len(body):
            depth += (body[end].text == "(") - (body[end].text == ")")
            if not depth and body[end].kind != "space":
                break
            end += 1
        kept = body[at + 1 : end][1:] if arguments.get(macro.rest) else []
        body[at : end + 1] = kept
    return body


def _stringified(pieces: Sequence[_Piece]) -> str:
    """``#x``."""
    text = "".join(
        re.sub(r'(["\\])', r"\\\1", p.text) if p.kind in ("string", "name") else p.text
        for p in pieces
    )
    return f'"{text.strip()}"'
