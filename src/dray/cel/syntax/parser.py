"""Tokens to a tree: operators by precedence with a stack of their own, everything else by descent.

A level of brackets takes three calls, so that the 250 levels which cel-go allows fit Python's stack. Numbers of nodes are
given out in cel-go's order. The limits are its limits: 250 levels of each rule of its grammar, and 250 levels of what a node
is made of (`height`): operators, selections, indexes, member calls, conditionals.
"""

from __future__ import annotations

from collections.abc import Callable

from dray.cel.ast import (
    CONDITIONAL,
    INDEX,
    NEGATE,
    NOT,
    OPTIONAL_INDEX,
    OPTIONAL_SELECT,
    Call,
    Entry,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    Struct,
    StructField,
)
from dray.cel.faults import CelError
from dray.cel.syntax.lexer import BYTES, END, FLOAT, INT, NAME, STRING, UINT
from dray.cel.syntax.operators import OPERATORS, Joiner, Waiting
from dray.cel.syntax.reading import NUMBERS, WORDS, ParseOptions

SIZE_LIMIT = 100_000
_CONTROL = {
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "let",
    "loop",
    "return",
    "var",
    "while",
}
RESERVED = frozenset(
    {"as", "false", "import", "in", "namespace", "null", "package", "true", "void"} | _CONTROL
)
_NO_NODE = Literal(0, 0, None)


def parse(text: str, *, options: ParseOptions) -> Expr:
    """The tree of an expression, macros expanded. Raises `CelError`."""
    if len(text) > SIZE_LIMIT:
        message = f"expression code point size exceeds limit: size: {len(text)}, limit {SIZE_LIMIT}"
        raise CelError(message, position=-1)
    try:
        return _Parser(text, options).whole()
    except RecursionError:
        raise CelError("expression is nested too deeply", position=-1) from None


class _Parser(Joiner):
    __slots__ = ("_macros",)

    def __init__(self, text: str, options: ParseOptions) -> None:
        super().__init__(text, options)
        self._macros = options.macros

    def whole(self) -> Expr:
        node = self.expression()
        if self.kinds[self.at] != END:
            raise self.unexpected("<EOF>")
        return node

    # Levels

    def expression(self, *, is_middle: bool = False) -> Expr:
        """With `is_middle`, what may stand between `?` and `:`, which is everything but another `?`."""
        if not is_middle:
            self.depth += 1
            self.check_depth()
        node = self.operand()
        kinds = self.kinds
        if kinds[self.at] in OPERATORS:
            waiting = Waiting()
            while kinds[self.at] in OPERATORS:
                self.push(waiting, node)
                node = self.operand()
            waiting.operands.append(node)
            waiting.heights.append(self.height)
            self.join(waiting, 0)
            node = waiting.operands[0]
            self.height = waiting.heights[0]
        if is_middle:
            return node
        if kinds[self.at] == "?":
            position, height = self.positions[self.at], self.height
            self.at += 1
            self.number += 1
            number = self.number
            chosen = self.expression(is_middle=True)
            height = max(height, self.height)
            self.expect(":")
            otherwise = self.expression()
            self.grow(max(height, self.height), position)
            node = Call(number, position, CONDITIONAL, (node, chosen, otherwise))
        self.depth -= 1
        return node

    # Operands

    def operand(self) -> Expr:
        """Signs, then a name, literal, call or bracket, then what is selected from it."""
        kinds, start = self.kinds, self.at
        sign = kinds[start]
        number = 0
        if sign == "!" or (sign == "-" and kinds[start + 1] not in NUMBERS):
            while kinds[self.at] == sign:
                self.at += 1
            if (self.at - start) % 2:
                self.number += 1
                number = self.number
        kind = kinds[self.at]
        if kind == NAME and kinds[self.at + 1] == "(":
            node = self._call(None)
        else:
            node = _FIRST.get(kind, _Parser.nothing)(self)
        while (kind := kinds[self.at]) == "." or kind == "[":
            if kind == "[":
                node = self._index(node)
            elif kinds[self.at + 1] == NAME and kinds[self.at + 2] == "(":
                self.at += 1
                node = self._call(node)
            else:
                node = self._select(node)
        if number:
            function = NOT if sign == "!" else NEGATE
            return Call(number, self.positions[start], function, (node,))
        return node

    def nothing(self) -> Expr:
        raise self.unexpected("an operand")

    def name(self) -> Expr:
        kinds, at = self.kinds, self.at
        after = at + 1
        while kinds[after] == "." and kinds[after + 1] == NAME:
            after += 2
        if kinds[after] == "{":
            return self._struct()
        name = self.texts[at]
        if name in RESERVED:
            raise CelError(f"reserved identifier: {name}", position=self.positions[at])
        self.at = at + 1
        self.number += 1
        self.height = 0
        return Ident(self.number, self.positions[at], name)

    def rooted(self) -> Expr:
        """A name or call with a leading dot."""
        self.at += 1
        if self.kinds[self.at] != NAME:
            raise self.unexpected("IDENTIFIER")
        if self.kinds[self.at + 1] == "(":
            return self._call(None, dot=".")
        node = self.name()
        if isinstance(node, Struct):
            return Struct(node.id, node.position, f".{node.name}", node.fields)
        assert isinstance(node, Ident)
        return Ident(node.id, node.position, f".{node.name}")

    def nested(self) -> Expr:
        self.at += 1
        node = self.expression()
        self.expect(")")
        return node

    # What follows an operand

    def _select(self, operand: Expr) -> Expr:
        position = self.positions[self.at]
        self.at += 1
        is_optional = self.skip_mark(".?", position)
        name, name_position = self.field_name()
        self.grow(self.height, position)
        self.number += 1
        if is_optional:
            field = Literal(self.number, name_position, name)
            self.number += 1
            return Call(self.number, position, OPTIONAL_SELECT, (operand, field))
        return Select(self.number, position, operand, name)

    def _index(self, operand: Expr) -> Expr:
        position, height = self.positions[self.at], self.height
        self.number += 1
        number = self.number
        self.at += 1
        function = OPTIONAL_INDEX if self.skip_mark("[?", position) else INDEX
        index = self.expression()
        self.expect("]")
        self.grow(max(height, self.height), position)
        return Call(number, position, function, (operand, index))

    def _call(self, target: Expr | None, dot: str = "") -> Expr:
        """A call or macro; the token is the function's name."""
        name, named_at = self.texts[self.at], self.positions[self.at]
        if target is None and name in RESERVED:
            raise CelError(f"reserved identifier: {name}", position=named_at)
        position = self.positions[self.at + 1]
        self.at += 2
        self.number += 1
        number = self.number
        height = 0 if target is None else self.height
        arguments: list[Expr] = []
        while self.kinds[self.at] != ")" or arguments:
            arguments.append(self.expression())
            height = max(height, self.height)
            if self.kinds[self.at] != ",":
                break
            self.at += 1
        self.expect(")")
        self.height = height
        if target is not None:
            self.grow(height, position)
        return self._made(Call(number, position, dot + name, tuple(arguments), target))

    def _made(self, call: Call) -> Expr:
        macro = self._macros.get((call.function, len(call.arguments), call.target is not None))
        if macro is None:
            return call
        self.place = call.position
        return macro.expand(self, call.target or _NO_NODE, call.arguments) or call

    # Lists, maps and messages

    def list_(self) -> Expr:
        position = self.positions[self.at]
        self.at += 1
        self.number += 1
        number, height = self.number, 0
        items: list[Expr] = []
        optional: list[int] = []
        while self.has_more("]", items):
            if self.skip_mark("?", self.positions[self.at]):
                optional.append(len(items))
            items.append(self.expression())
            height = max(height, self.height)
        self.height = height
        return ListLiteral(number, position, tuple(items), frozenset(optional))

    def map_(self) -> Expr:
        position = self.positions[self.at]
        self.at += 1
        self.number += 1
        number, height = self.number, 0
        entries: list[Entry] = []
        while self.has_more("}", entries):
            self.number += 1
            entry = self.number
            is_optional = self.skip_mark("?", self.positions[self.at])
            key = self.expression()
            height = max(height, self.height)
            colon = self.expect(":")
            value = self.expression()
            height = max(height, self.height)
            entries.append(Entry(entry, colon, key, value, is_optional))
        self.height = height
        return MapLiteral(number, position, tuple(entries))

    def _struct(self) -> Expr:
        names = [self.texts[self.at]]
        self.at += 1
        while self.kinds[self.at] == ".":
            names.append(self.texts[self.at + 1])
            self.at += 2
        position = self.positions[self.at]
        self.at += 1
        self.number += 1
        number, height = self.number, 0
        fields: list[StructField] = []
        while self.has_more("}", fields):
            self.number += 1
            entry = self.number
            is_optional = self.skip_mark("?", self.positions[self.at])
            name, _ = self.field_name()
            colon = self.expect(":")
            value = self.expression()
            height = max(height, self.height)
            fields.append(StructField(entry, colon, name, value, is_optional))
        self.height = height
        return Struct(number, position, ".".join(names), tuple(fields))


_FIRST: dict[str, Callable[[_Parser], Expr]] = {
    NAME: _Parser.name,
    ".": _Parser.rooted,
    "(": _Parser.nested,
    "[": _Parser.list_,
    "{": _Parser.map_,
    "-": _Parser.signed,
    INT: _Parser.read_number,
    FLOAT: _Parser.read_number,
    UINT: _Parser.unsigned,
    STRING: _Parser.quoted,
    BYTES: _Parser.quoted,
    **dict.fromkeys(WORDS, _Parser.word),
}
