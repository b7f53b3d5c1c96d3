"""Bounds on the shape of the source: folders, names, prose. A bound may only become tighter."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/trimtab"
MOST_MODULES = 20
LONGEST_MODULE = {
    "api/explain/pods": 540,
}
"""Lines of the modules that are longer than `USUAL_LINES`; none may be added."""
USUAL_LINES = 510
MOST_IMPORTED_NAMES = 91
MOST_REPEATED_CLASSES = 19
MOST_OPENERS = 0.001
"""Docstrings that open with a question word, as a share of all."""
MOST_OLD_WORDS = 1.5
"""Words per 10 000 of docstrings that name no actor."""
LEAST_COMMENTS = 0.021
"""Comment lines for each line of code; the goal is 0.05."""
MOST_NAME_CHARACTERS = 80
"""Length of the name of a test."""
LEAST_WORDS = 3
"""Words in the name of a test, which is a sentence about behaviour."""
OPENERS = re.compile(r"(What|Who|Whose|Whom|Whether|Of|How|Which)\b")
OLD_WORDS = re.compile(
    r"\b(nobody|somebody|anybody|everybody|whoever|whom|anew|for want of"
    r"|(?:is|are|be|was|were) told|tells?)\b",
    re.IGNORECASE,
)


class Module(NamedTuple):
    name: str
    text: str
    tree: ast.Module


@cache
def modules() -> list[Module]:
    return [
        Module(
            path.relative_to(SOURCE).with_suffix("").as_posix(),
            text := path.read_text(encoding="utf-8"),
            ast.parse(text),
        )
        for path in sorted(SOURCE.rglob("*.py"))
    ]


def docstrings() -> Iterator[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, kinds) and (text := ast.get_docstring(node)):
                yield text


def names_from_other_folders(module: Module) -> Iterator[str]:
    """Functions and values that a module imports by themselves; types are left out."""
    known = {f"trimtab.{each.name.replace('/', '.')}" for each in modules()}
    own = ".".join(("trimtab", *module.name.split("/")[:-1]))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("trimtab."):
            folder = node.module.rpartition(".")[0]
            for alias in node.names:
                is_module = f"{node.module}.{alias.name}" in known
                if not is_module and folder != own and not alias.name[0].isupper():
                    yield alias.name


def test_no_folder_holds_more_modules_than_a_reader_can_scan() -> None:
    own = [each.name for each in modules() if not each.name.endswith("__init__")]
    folders = Counter(name.rpartition("/")[0] for name in own)

    assert {name: count for name, count in folders.items() if count > MOST_MODULES} == {}


def test_no_module_grows_beyond_its_bound() -> None:
    lengths = {each.name: each.text.count("\n") for each in modules()}
    bounds = {name: LONGEST_MODULE.get(name, USUAL_LINES) for name in lengths}

    assert {name: count for name, count in lengths.items() if count > bounds[name]} == {}


def test_functions_are_called_through_their_modules() -> None:
    found = [name for module in modules() for name in names_from_other_folders(module)]

    assert len(found) <= MOST_IMPORTED_NAMES


def test_a_docstring_names_no_module_that_is_gone() -> None:
    found = {
        (module.name, named)
        for module in modules()
        for named in re.findall(r"`([a-z_/]+)\.py`", module.text)
        if not any(
            place.joinpath(f"{named}.py").exists()
            for place in (SOURCE, *(SOURCE / module.name).parents)
        )
    }

    assert found == set()


def test_every_code_of_a_rule_has_a_row_and_a_test_that_exists() -> None:
    page = (ROOT / "docs/rules.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([DFS]\d+) \|.*\| `([^`]+)` \|$", page, re.MULTILINE))
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")]
    texts = [*pages, *(module.text for module in modules())]
    cited = {code for text in texts for code in re.findall(r"\b[DFS]\d{1,2}\b", text)}

    assert cited - rows.keys() == set()
    assert [test for test in rows.values() if not (ROOT / "tests" / test).is_file()] == []


def test_a_class_name_means_one_thing() -> None:
    where = defaultdict(set)
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].add(module.name)

    assert len([name for name, found in where.items() if len(found) > 1]) <= MOST_REPEATED_CLASSES


def test_docstrings_open_with_a_verb_or_a_noun() -> None:
    found = list(docstrings())

    assert sum(bool(OPENERS.match(text)) for text in found) / len(found) <= MOST_OPENERS


def test_docstrings_name_the_actor() -> None:
    found = list(docstrings())
    words = sum(len(text.split()) for text in found)

    assert 10_000 * sum(len(OLD_WORDS.findall(text)) for text in found) / words <= MOST_OLD_WORDS


def test_lines_that_are_not_obvious_have_comments() -> None:
    lines = [line.strip() for each in modules() for line in each.text.splitlines() if line.strip()]
    comments = [line for line in lines if line.startswith("#")]

    assert len(comments) / (len(lines) - len(comments)) >= LEAST_COMMENTS


def test_names_of_tests_are_sentences_that_fit_a_line() -> None:
    names = [
        (path.name, node.name)
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    ]

    assert [each for each in names if len(each[1]) > MOST_NAME_CHARACTERS] == []
    assert [each for each in names if each[1].count("_") < LEAST_WORDS] == []
