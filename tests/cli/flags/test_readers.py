"""Readers of flags: a flag that nothing reads would be accepted and ignored."""

import ast
from collections.abc import Iterator
from pathlib import Path

import trimtab.cli

COMMANDS = Path(trimtab.cli.__file__).parent
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in COMMANDS.rglob("*.py")}
IDLE = "Accepted, without effect"
"""Title of the groups of flags that only the original has a use for."""
UNREAD = {"in_place_skip_disruption_budget"}
"""Flags beside others of their group that have no effect, as their help says."""


def title_of(record: ast.ClassDef) -> str | None:
    """The title of a group of flags; None for other classes."""
    for found in record.decorator_list:
        if isinstance(found, ast.Call) and ast.unparse(found.func) == "flag_group":
            return str(ast.literal_eval(found.args[0]))
    return None


def flags_with_effect() -> Iterator[str]:
    for tree in TREES.values():
        for record in ast.walk(tree):
            if isinstance(record, ast.ClassDef) and title_of(record) not in {None, IDLE}:
                for field in record.body:
                    if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                        yield field.target.id


def test_every_flag_is_read_somewhere() -> None:
    read = {
        found.attr
        for tree in TREES.values()
        for found in ast.walk(tree)
        if isinstance(found, ast.Attribute) and isinstance(found.ctx, ast.Load)
    }
    # Some are read by their name, as all components have them.
    read |= {
        found.value
        for tree in TREES.values()
        for found in ast.walk(tree)
        if isinstance(found, ast.Constant) and isinstance(found.value, str)
    }
    flags = set(flags_with_effect())

    assert len(flags) > 100
    assert flags - read == UNREAD
