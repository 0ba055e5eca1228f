"""Operators: joined by precedence as they come, chains of && and || at their end, as balanced trees."""

from __future__ import annotations

from dray.cel import ast
from dray.cel.ast import Call, Expr
from dray.cel.faults import CelError
from dray.cel.syntax.reading import DEPTH_LIMIT, ParseOptions, Reader

OPERATORS = {
    "||": (ast.OR, 1),
    "&&": (ast.AND, 2),
    "==": (ast.EQUALS, 3),
    "!=": (ast.NOT_EQUALS, 3),
    "<": (ast.LESS, 3),
    "<=": (ast.LESS_EQUALS, 3),
    ">": (ast.GREATER, 3),
    ">=": (ast.GREATER_EQUALS, 3),
    "in": (ast.IN, 3),
    "+": (ast.ADD, 4),
    "-": (ast.SUBTRACT, 4),
    "*": (ast.MULTIPLY, 5),
    "/": (ast.DIVIDE, 5),
    "%": (ast.MODULO, 5),
}
_LOGICAL, _RELATION = 2, 3


class _Operator:
    """One that waits for its right side. Those of a chain of && or || get their number when that side is complete."""

    __slots__ = ("function", "number", "position", "precedence")

    def __init__(self, function: str, precedence: int, number: int, position: int) -> None:
        self.function, self.precedence, self.number, self.position = function, precedence, number, position


class Waiting:
    """Operands and operators of one level of brackets that are not joined yet."""

    __slots__ = ("heights", "operands", "operators")

    def __init__(self) -> None:
        self.operands: list[Expr] = []
        self.heights: list[int] = []
        self.operators: list[_Operator] = []


class Joiner(Reader):
    """Cel-go's grammar goes one level deeper on the right side of a relation and of a calculation: those are counted too."""

    __slots__ = ("_calculations", "_relations", "depth")

    def __init__(self, text: str, options: ParseOptions) -> None:
        super().__init__(text, options)
        self.depth = self._relations = self._calculations = 0

    def check_depth(self) -> None:
        """Raises at a level of brackets, or an operator, too many."""
        if self.depth + max(self._relations, self._calculations) > DEPTH_LIMIT:
            raise CelError(f"expression recursion limit exceeded: {DEPTH_LIMIT}", position=-1)

    def push(self, waiting: Waiting, node: Expr) -> None:
        """The operator that is the next token, with what stands left of it."""
        waiting.operands.append(node)
        waiting.heights.append(self.height)
        function, precedence = OPERATORS[self.kinds[self.at]]
        if waiting.operators:
            self.join(waiting, precedence)
        number = 0
        if precedence > _LOGICAL:
            self.number += 1
            number = self.number
            if precedence == _RELATION:
                self._relations += 1
            else:
                self._calculations += 1
            self.check_depth()
        waiting.operators.append(_Operator(function, precedence, number, self.positions[self.at]))
        self.at += 1

    def join(self, waiting: Waiting, precedence: int) -> None:
        """Joins what binds at least as tightly as the next operator; a chain of && or || waits for its end."""
        operators = waiting.operators
        while operators and (top := operators[-1]).precedence >= precedence:
            if top.precedence > _LOGICAL:
                self._join_two(waiting, operators.pop())
                continue
            if not top.number:
                self.number += 1
                top.number = self.number
            if top.precedence == precedence:
                return
            self._join_chain(waiting, top.precedence)

    def _join_two(self, waiting: Waiting, operator: _Operator) -> None:
        if operator.precedence == _RELATION:
            self._relations -= 1
        else:
            self._calculations -= 1
        right = waiting.operands.pop()
        height = waiting.heights.pop()
        self.grow(max(height, waiting.heights[-1]), operator.position)
        waiting.heights[-1] = self.height
        pair = (waiting.operands[-1], right)
        waiting.operands[-1] = Call(operator.number, operator.position, operator.function, pair)

    def _join_chain(self, waiting: Waiting, precedence: int) -> None:
        operators, first = waiting.operators, len(waiting.operators)
        while first and operators[first - 1].precedence == precedence:
            first -= 1
        start = len(waiting.operands) - (len(operators) - first) - 1
        joined = _balanced(waiting.operands[start:], operators[first:])
        waiting.heights[start:] = [max(waiting.heights[start:])]
        waiting.operands[start:] = [joined]
        del operators[first:]


def _balanced(terms: list[Expr], operators: list[_Operator]) -> Expr:
    """A chain as a tree of about equal halves, as cel-go builds it: costs and depth go by it."""
    middle = len(operators) // 2
    left = terms[0] if middle == 0 else _balanced(terms[: middle + 1], operators[:middle])
    rest = operators[middle + 1 :]
    right = _balanced(terms[middle + 1 :], rest) if rest else terms[-1]
    operator = operators[middle]
    return Call(operator.number, operator.position, operator.function, (left, right))
