"""Translates single-expression Python functions to TypeScript, such as plan/constraints.py."""

import ast
import json
from collections.abc import Sequence

TYPESCRIPT_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.Eq: "===",
    ast.NotEq: "!==",
    ast.Is: "===",
    ast.IsNot: "!==",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.And: "&&",
    ast.Or: "||",
}
# A builtin's TypeScript name; `len`, `sum` and `range` are functions there too.
TYPESCRIPT_BUILTINS = {
    "min": "Math.min",
    "max": "Math.max",
    "len": "len",
    "sum": "sum",
    "range": "range",
}
TYPESCRIPT_TYPES = {
    "int": "number",
    "str": "string",
    "bool": "boolean",
    "object": "unknown",
    "None": "null",
}
TYPESCRIPT_GENERICS = {
    "Sequence": "readonly ({0})[]",
    "Mapping": "ReadonlyMap<{0}, {1}>",
    "AbstractSet": "ReadonlySet<{0}>",
    "RecordSet": "RecordSet<{0}>",
}


class TypeScriptTranslator:
    """Translates a module's functions, records and constants; raises for unsupported code."""

    def __init__(
        self,
        source: str,
        names: dict[str, str],
        *,
        excluded: Sequence[str],
        exported: Sequence[str],
    ) -> None:
        self.tree = ast.parse(source)
        self.excluded, self.exported = excluded, exported
        functions = [node.name for node in self.tree.body if isinstance(node, ast.FunctionDef)]
        self.names = {name: to_camel_case(name) for name in [*functions, *excluded]} | names

    def translate_module(self) -> str:
        """All top-level definitions except the excluded ones."""
        return "\n".join(filter(None, map(self._translate_definition, self.tree.body)))

    def _translate_definition(self, node: ast.stmt) -> str:
        doc = ""
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.Assign(targets=[ast.Name(id=name)])
                | ast.AnnAssign(target=ast.Name(id=name))
            ) if name in self.excluded:
                return ""
            case ast.FunctionDef(
                name=name,
                body=[ast.Expr(value=ast.Constant(value=str(doc))), ast.Return(value=value)],
            ) if value is not None:
                arguments = ", ".join(
                    f"{one.arg}: {self.translate_type(one.annotation)}" for one in node.args.args
                )
                text = (
                    f"function {to_camel_case(name)}({arguments}): "
                    f"{self.translate_type(node.returns)} "
                    f"{{\n  return {self.translate_expression(value)};\n}}\n"
                )
            case ast.ClassDef(
                name=name, body=[ast.Expr(value=ast.Constant(value=str(doc))), *fields]
            ):
                lines = [
                    f"  readonly {ast.unparse(one.target)}: "
                    f"{self.translate_type(one.annotation)};\n"
                    for one in fields
                    if isinstance(one, ast.AnnAssign)
                ]
                text = f"interface {name} {{\n{''.join(lines)}}}\n"
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                text = f"const {self.names.get(name, name)} = {self.translate_expression(value)};\n"
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                kind = self.translate_type(node.annotation)
                text = f"const {name}: {kind} = {self.translate_expression(value)};\n"
            case ast.Expr() | ast.Import() | ast.ImportFrom() | ast.If():
                return ""  # the module's docstring and imports
            case _:
                raise NotImplementedError(f"more than an expression: {ast.unparse(node)}")
        comment = f"/** {doc.splitlines()[0]} */\n" if doc else ""
        return f"{comment}{'export ' if name in self.exported else ''}{text}"

    def translate_type(self, node: ast.expr | None) -> str:
        """Translate a type annotation."""
        match node:
            case ast.Name(id=name):
                return TYPESCRIPT_TYPES.get(name) or self.names.get(name, name)
            case ast.Constant(value=None):
                return "null"
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return f"{self.translate_type(left)} | {self.translate_type(right)}"
            case ast.Subscript(value=ast.Name(id=name), slice=inner) if name in TYPESCRIPT_GENERICS:
                kinds = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                return TYPESCRIPT_GENERICS[name].format(*map(self.translate_type, kinds))
        raise NotImplementedError(f"type {ast.unparse(node) if node else None}")

    def translate_expression(self, node: ast.expr) -> str:
        """Translate an expression, with parentheses if it may need them in any context."""
        match node:
            case ast.Constant(value=value):
                return json.dumps(value, ensure_ascii=False)
            case ast.Name(id=name):
                return self.names.get(name, name)
            case ast.Attribute(value=value, attr=name):
                return f"{self.translate_expression(value)}.{name}"
            case ast.Subscript(value=value, slice=ast.Slice(lower=None, upper=ast.expr() as end)):
                return (
                    f"{self.translate_expression(value)}.slice(0, {self.translate_expression(end)})"
                )
            case ast.Subscript(value=value, slice=index):
                return f"at({self.translate_expression(value)}, {self.translate_expression(index)})"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"-{self.translate_expression(operand)}"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"!{self.translate_expression(operand)}"
            case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
                quotient = f"{self.translate_expression(left)} / {self.translate_expression(right)}"
                return f"Math.floor({quotient})"
            case ast.BinOp(left=left, op=operator, right=right):
                return self._join_operands([left, right], self._translate_operator(operator))
            case ast.BoolOp(op=operator, values=values):
                return self._join_operands(values, self._translate_operator(operator))
            case ast.Compare(left=left, ops=operators, comparators=others):
                pairs = zip([left, *others], operators, others, strict=False)
                return f"({' && '.join(self._translate_comparison(*pair) for pair in pairs)})"
            case ast.IfExp(test=test, body=body, orelse=other):
                parts = [self.translate_expression(one) for one in (test, body, other)]
                return f"({parts[0]} ? {parts[1]} : {parts[2]})"
            case ast.JoinedStr(values=values):
                return f"`{''.join(map(self._translate_template_part, values))}`"
            case ast.Lambda(args=arguments, body=body):
                names = self._used_parameters([one.arg for one in arguments.args], body)
                return f"({', '.join(names)}) => {self.translate_expression(body)}"
            case ast.Call():
                return self._translate_call(node)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return f"[{', '.join(map(self.translate_expression, items))}]"
            case ast.Set(elts=items):
                return f"new Set([{', '.join(map(self.translate_expression, items))}])"
            case ast.Starred(value=value):
                return f"...{self.translate_expression(value)}"
            case ast.ListComp() | ast.GeneratorExp():
                return self._translate_comprehension(node.generators, "map", node.elt)
            case ast.SetComp(elt=item, generators=generators):
                return f"new Set({self._translate_comprehension(generators, 'map', item)})"
            case ast.DictComp(key=key, value=value, generators=generators):
                pair = ast.Tuple([key, value])
                entries = self._translate_comprehension(generators, "map", pair, " as const")
                return f"new Map({entries})"
        raise NotImplementedError(ast.unparse(node))

    def _used_parameters(self, names: list[str], body: ast.expr) -> list[str]:
        """A function's parameters up to the last used one; unused ones get a _ prefix."""
        used = {one.id for one in ast.walk(body) if isinstance(one, ast.Name)}
        while names and names[-1] not in used:
            names.pop()
        return [name if name in used else f"_{name}" for name in names]

    def _translate_operator(self, node: ast.AST) -> str:
        if type(node) not in TYPESCRIPT_OPERATORS:
            raise NotImplementedError(type(node).__name__)
        return TYPESCRIPT_OPERATORS[type(node)]

    def _join_operands(self, items: Sequence[ast.expr], operator: str) -> str:
        return f"({f' {operator} '.join(map(self.translate_expression, items))})"

    def _translate_comparison(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> str:
        a, b = self.translate_expression(left), self.translate_expression(right)
        if isinstance(operator, ast.In | ast.NotIn):
            return f"{'' if isinstance(operator, ast.In) else '!'}has({b}, {a})"
        return f"{a} {self._translate_operator(operator)} {b}"

    def _translate_template_part(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=str(text)):
                return text.replace("\\", "\\\\").replace("`", "\\`").replace("$", "\\$")
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return f"${{{self.translate_expression(value)}}}"
        raise NotImplementedError(ast.unparse(node))

    def _translate_call(self, node: ast.Call) -> str:
        match node:
            case ast.Call(func=ast.Name(id="all"), args=[ast.GeneratorExp() as one]):
                return self._translate_comprehension(one.generators, "every", one.elt)
            case ast.Call(func=ast.Name(id="enumerate"), args=[items]):
                return f"[...{self.translate_expression(items)}.entries()]"
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=[items]):
                return f"Math.{name}(...{self.translate_expression(items)})"
            case ast.Call(func=ast.Name(id="set"), args=[items]):
                return f"new Set({self.translate_expression(items)})"
            case ast.Call(func=ast.Attribute(value=value, attr="index"), args=[item]):
                return (
                    f"{self.translate_expression(value)}.indexOf({self.translate_expression(item)})"
                )
            case ast.Call(func=ast.Attribute(value=value, attr="get"), args=[key, default]):
                got = f"{self.translate_expression(value)}.get({self.translate_expression(key)})"
                return f"({got} ?? {self.translate_expression(default)})"
            case ast.Call(func=ast.Name(id=name), args=[], keywords=[_, *_] as fields):
                lines = ", ".join(
                    f"{one.arg}: {self.translate_expression(one.value)}" for one in fields
                )
                return f"{{ {lines} }}"
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                if name == "Constraint":
                    records, *functions = map(self.translate_expression, arguments)
                    return "\n  constraint(" + ",\n    ".join([records, *functions]) + ")"
                if name == "RecordSet":
                    of, called = map(self.translate_expression, arguments)
                    return f"{{\n  select: {of},\n  label: {called},\n}}"
                found = TYPESCRIPT_BUILTINS.get(name) or self.names.get(name)
                if found:
                    return f"{found}({', '.join(map(self.translate_expression, arguments))})"
        raise NotImplementedError(ast.unparse(node))

    def _translate_comprehension(
        self,
        generators: Sequence[ast.comprehension],
        method: str,
        item: ast.expr,
        ending: str = "",
    ) -> str:
        """Translate a comprehension to `items.filter(…).map(…)`; nested for nested loops.

        The method is `every` instead of `map` for `all`.
        """
        (first, *others) = generators
        items = self.translate_expression(first.iter)
        for test in first.ifs:
            parameter = self._translate_loop_target(first.target, test)
            items += f".filter(({parameter}) => {self.translate_expression(test)})"
        target = self._translate_loop_target(first.target, item, *(one.iter for one in others))
        if others:
            inner = self._translate_comprehension(others, method, item, ending)
            return f"{items}.{'flatMap' if method == 'map' else method}(({target}) => {inner})"
        return f"{items}.{method}(({target}) => {self.translate_expression(item)}{ending})"

    def _translate_loop_target(self, node: ast.expr, *used_in: ast.expr) -> str:
        """A loop's destructuring target, without unused names."""
        used = {one.id for each in used_in for one in ast.walk(each) if isinstance(one, ast.Name)}
        match node:
            case ast.Name(id=name):
                return name
            case ast.Tuple(elts=items):
                names = [ast.unparse(one) for one in items]
                while names[-1] not in used:
                    names.pop()
                return f"[{', '.join(name if name in used else '' for name in names)}]"
        raise NotImplementedError(ast.unparse(node))


def to_camel_case(name: str) -> str:
    """A function's name as TypeScript writes it."""
    if not name.islower():
        return name
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
