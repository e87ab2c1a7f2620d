"""Safe arithmetic: numbers, + - * / // % ** and parentheses, parsed by `ast`, never evaluated as code."""

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

MAX_CHARACTERS = 200
MAX_EXPONENT = 64
MAX_MAGNITUDE = 1e100
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


def calculate(expression: str) -> float | int:
    """The value of `expression`; ValueError says, for the model to read, what is wrong with it."""
    if len(expression) > MAX_CHARACTERS:
        raise ValueError(f"at most {MAX_CHARACTERS} characters")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        return _value(tree.body)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError("not an arithmetic expression") from None
    except ZeroDivisionError:
        raise ValueError("division by zero") from None
    except OverflowError:
        raise ValueError("too large") from None


def _value(node: ast.expr) -> float | int:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            a, b = _value(left), _value(right)
            if isinstance(op, ast.Pow) and abs(b) > MAX_EXPONENT:
                raise ValueError("too large")
            return _bounded(_BINARY[type(op)](a, b))
    raise ValueError("only numbers, + - * / // % ** and parentheses")


def _bounded(value: Any) -> float | int:
    if isinstance(value, complex) or not math.isfinite(value) or abs(value) > MAX_MAGNITUDE:
        raise ValueError("too large")
    return value
