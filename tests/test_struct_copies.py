"""Copies of structs: `dataclasses.replace` fails on them at run time, and mypy does not see it.

msgspec tells mypy that its structs are like data classes. They need `msgspec.structs.replace`.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src/trimtab"


class Records(NamedTuple):
    """Fields of all records, by the name of the class."""

    structs: Mapping[str, set[str]]
    dataclasses: Mapping[str, set[str]]


def parse_source() -> dict[str, ast.Module]:
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def find_records(trees: Mapping[str, ast.Module]) -> Records:
    classes = [
        node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    ]
    bases = {
        node.name: {ast.unparse(base).split(".")[-1] for base in node.bases} for node in classes
    }
    own = {
        node.name: {
            field.target.id
            for field in node.body
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        }
        for node in classes
    }

    def lineage(name: str) -> set[str]:
        return {name}.union(*(lineage(base) for base in bases.get(name, ()) if base != name))

    fields = {name: set().union(*(own.get(each, set()) for each in lineage(name))) for name in own}
    structs = {name for name in own if "Struct" in lineage(name)}
    return Records(
        {name: fields[name] for name in structs},
        {name: fields[name] for name in own.keys() - structs},
    )


def copies(tree: ast.Module) -> list[ast.Call]:
    """The calls of `dataclasses.replace` in a module."""
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        for alias in node.names
        if alias.name == "replace"
    }
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in names:
                found.append(node)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="dataclasses"), attr="replace")):
                found.append(node)
            case _:
                pass
    return found


def types_of_names(tree: ast.Module) -> Iterator[tuple[ast.AST, str, str]]:
    """Yield each function with a name in it, and the class that the name is of."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                match node:
                    case ast.arg(arg=name, annotation=ast.expr() as of):
                        yield function, name, ast.unparse(of).strip("'\"")
                    case ast.AnnAssign(target=ast.Name(id=name), annotation=of):
                        yield function, name, ast.unparse(of).strip("'\"")
                    case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=of)):
                        yield function, name, ast.unparse(of)
                    case _:
                        pass


def wrong_copies(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield the calls whose record is a struct by its annotation, or by the fields it must have."""
    records = find_records(trees)
    for place, tree in trees.items():
        calls = copies(tree)
        if not calls:
            continue
        known = {
            (id(call), name): of.split(".")[-1]
            for function, name, of in types_of_names(tree)
            for call in ast.walk(function)
            if isinstance(call, ast.Call)
        }
        for call in calls:
            given = {word.arg for word in call.keywords if word.arg}
            named = known.get((id(call), ast.unparse(call.args[0])), "")
            if named in records.dataclasses:
                continue
            fits = [name for name, fields in records.dataclasses.items() if given <= fields]
            if named in records.structs or (given and not fits):
                yield f"{place}:{call.lineno}: {ast.unparse(call)}"


def test_no_struct_is_copied_as_a_data_class() -> None:
    assert list(wrong_copies(parse_source())) == []


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("def f(one: Point): return replace(one, x=1)", id="a parameter"),
        pytest.param("def f():\n    one = Point(1)\n    return replace(one, x=1)", id="a variable"),
        pytest.param("def f(): return replace(g().h[0], y=1)", id="a field of structs alone"),
        pytest.param("def f(one: 'Deep'): return replace(one, x=1)", id="a class below a struct"),
    ],
)
def test_a_struct_that_is_copied_as_a_data_class_is_found(call: str) -> None:
    records = """
from dataclasses import dataclass, replace
class Point(msgspec.Struct):
    x: int
    y: int
class Deep(Point): pass
@dataclass
class Other:
    x: int
"""

    assert len(list(wrong_copies({"here.py": ast.parse(records + call)}))) == 1
