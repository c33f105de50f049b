"""Small faults on the syntax tree: a flipped comparison, a lost sign, a deleted statement.

A site is one child of one node and what to put in its place. Sites are found in a fixed order, so
that a number names a mutant of a given source. Annotations, docstrings, decorators, assertions,
texts and what only a `raise` reads are left alone: no promise rests on them. A power of two
constants is one number, and is doubled as one; `return False` becomes `return True`, and not also
None, which means the same to whoever asks yes or no.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_NAMES = {"all": "any", "ceil": "floor", "down": "up", "max": "min"}
_ATTRIBUTES = _NAMES | {
    "argmax": "argmin",
    "log": "log1p",
    "maximum": "minimum",
    "mean": "sum",
    "sf": "cdf",
    "ROUND_CEILING": "ROUND_FLOOR",
}
_NAMES |= {value: key for key, value in _NAMES.items()}
_ATTRIBUTES |= {value: key for key, value in _ATTRIBUTES.items()}
_ROUNDING = "sudare.foundations.rounding"
_SYMMETRIC = {"max", "min", "maximum", "minimum", "logaddexp", "hypot", "gcd", "isinstance", "zip"}
_TELLING = 24
"""Letters of code by which a place is known."""
_UNTOUCHED = (ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class Site:
    """Put `new` where `old` is."""

    parent: ast.AST
    field: str
    index: int | None
    old: ast.AST
    new: ast.AST
    lines: tuple[int, int]
    """First and last line of the statement it is in."""
    around: ast.AST
    """Enough of the code to know the place again."""
    function: str

    def apply(self) -> None:
        """Change the tree that the site was found in."""
        self._put(self.new)

    def texts(self) -> tuple[str, str]:
        """Before and after."""
        if self.around is self.old:
            return _text(self.old), _text(self.new)
        before = _text(self.around)
        self._put(self.new)
        after = _text(self.around)
        self._put(self.old)
        return before, after

    def _put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


@dataclass(frozen=True)
class Mutant:
    """One fault in one module."""

    module: str
    number: int
    lines: tuple[int, int]
    function: str
    before: str
    after: str


def mutants(module: str, source: str) -> list[Mutant]:
    """All mutants of a module's source, as text to read."""
    return [
        Mutant(module, number, site.lines, site.function, *site.texts())
        for number, site in enumerate(_sites(ast.parse(source)))
    ]


def mutated(source: str, number: int) -> str:
    """The source with one fault; comments are lost."""
    tree = ast.parse(source)
    for found, site in enumerate(_sites(tree)):
        if found == number:
            site.apply()
            _import_both_roundings(tree)
            return ast.unparse(ast.fix_missing_locations(tree))
    raise LookupError(f"no mutant {number}")


def _import_both_roundings(tree: ast.Module) -> None:
    """So that the wrong one is a wrong number and not an unknown name."""
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module == _ROUNDING:
            known = {alias.name for alias in statement.names}
            statement.names += [ast.alias(name) for name in sorted({"up", "down"} - known)]


def _sites(tree: ast.Module) -> Iterator[Site]:
    # All of them first: a site that has been applied must not change which come after it.
    yield from list(_walk(tree, tree, (1, 1), ""))


def _walk(node: ast.AST, around: ast.AST, lines: tuple[int, int], function: str) -> Iterator[Site]:
    for parent, field, index, child in _children(node):
        here, known, inside = lines, around, function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = f"{function}.{child.name}".lstrip(".")
        if isinstance(child, ast.stmt):
            here, known = _own_lines(child), child
        elif isinstance(child, ast.expr) and len(_text(child)) >= _TELLING:
            known = child
        for new in _replacements(child):
            yield Site(parent, field, index, child, new, here, known, inside)
        if not (isinstance(child, ast.Raise) or _is_power(child)):
            yield from _walk(child, known, here, inside)


def _children(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    skipped = {"annotation", "returns", "decorator_list", "type_params", "bases"}
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        yield node, "value", None, node.value
        return
    for field, value in ast.iter_fields(node):
        if field in skipped or (field == "keywords" and isinstance(node, ast.ClassDef)):
            continue
        several = value if isinstance(value, list) else [value]
        for index, child in enumerate(several):
            if isinstance(child, ast.AST) and not isinstance(child, _UNTOUCHED):
                yield node, field, index if isinstance(value, list) else None, child


def _own_lines(statement: ast.stmt) -> tuple[int, int]:
    """Without the body of a compound statement: its tests run it whether or not they go inside."""
    last = statement.end_lineno or statement.lineno
    body: Any = getattr(statement, "body", None)
    if body:
        last = max(statement.lineno, body[0].lineno - 1)
    return statement.lineno, last


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.BinOp() if _is_power(node):
            yield ast.BinOp(ast.Constant(2), ast.Mult(), node)
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                for other in _COMPARISONS[type(operator)]:
                    changed = copy.deepcopy(node)
                    changed.ops[place] = other()
                    yield changed
        case ast.BinOp() if type(node.op) in _ARITHMETIC:
            yield ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
            if isinstance(node.op, ast.Add | ast.Sub) and not _is_text(node.left):
                yield ast.BinOp(ast.UnaryOp(ast.USub(), node.left), node.op, node.right)
        case ast.AugAssign():
            if type(node.op) in _ARITHMETIC:
                yield ast.AugAssign(node.target, _ARITHMETIC[type(node.op)](), node.value)
            yield ast.Pass()
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert()):
            yield node.operand
        case ast.BoolOp():
            yield ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
        case ast.Constant():
            yield from _constants(node)
        case ast.Name() if node.id in _NAMES:
            yield ast.Name(_NAMES[node.id], node.ctx)
        case ast.Attribute() if node.attr in _ATTRIBUTES:
            yield ast.Attribute(node.value, _ATTRIBUTES[node.attr], node.ctx)
        case ast.Call():
            yield from _swapped(node)
        case ast.stmt():
            yield from _statements(node)
        case ast.IfExp():
            yield ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)


def _constants(node: ast.Constant) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(1 if value == 0 else 2 * value)


def _swapped(node: ast.Call) -> Iterator[ast.AST]:
    """The first two arguments in each other's place."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if len(node.args) < 2 or name in _SYMMETRIC:
        return
    first, second, *rest = node.args
    if isinstance(first, ast.Starred) or isinstance(second, ast.Starred):
        return
    if ast.dump(first) != ast.dump(second):
        yield ast.Call(node.func, [second, first, *rest], node.keywords)


def _statements(node: ast.stmt) -> Iterator[ast.AST]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom()):
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Raise() | ast.Break() | ast.Continue() | ast.Delete():
            yield ast.Pass()
        case ast.Return(value=ast.expr()) if not _is_false(node.value):
            yield ast.Return(ast.Constant(None))
        case ast.If() | ast.While():
            changed = copy.copy(node)
            changed.test = ast.UnaryOp(ast.Not(), node.test)
            yield changed


def _is_false(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)


def _is_power(node: ast.AST) -> bool:
    """Such as 2.0**-40: one number, written so that it can be read."""
    exponent = node.right if isinstance(node, ast.BinOp) else None
    if isinstance(exponent, ast.UnaryOp):
        exponent = exponent.operand
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Pow)
        and isinstance(node.left, ast.Constant)
        and isinstance(exponent, ast.Constant)
    )


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _text(node: ast.AST) -> str:
    """One line of it; of a compound statement its condition."""
    if isinstance(getattr(node, "body", None), list):
        node = copy.copy(node)
        node.body = [ast.Pass()]  # type: ignore[attr-defined]
    lines = ast.unparse(node).splitlines()
    return next((line.strip() for line in lines if not line.startswith("@")), "")
