"""Run the tests nearest to a change: `make quick`.

A change is the difference to the main branch, with files that are not committed yet. Test files are
ordered by how many imports lie between them and a changed module, and are run as far as the time
reaches. What is left out is printed. `make test` runs everything.
"""

import ast
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
PLACES: Final = ("src", "tests", ".")
"""Folders from which modules are imported, as pyproject.toml has them."""
TREES: Final = ("src", "tests", "bench", "oracle", "reference", "rig")
DURATIONS: Final = ROOT / ".pytest_cache/v/trimtab/durations"
"""Seconds of each test file in its last run on this machine; `tests/conftest.py` writes it."""
UNKNOWN_SECONDS: Final = 1.0
"""Assumed duration of a test file that has not been run here."""
ALWAYS: Final = ("tests/test_tidy.py",)
SECONDS: Final = 35
"""Time for tests; starting pytest takes some more."""
NEEDS_CLUSTER: Final = ("tests/e2e/", "tests/smoke/", "tests/attack/")


class Selection(NamedTuple):
    """Test files to run, nearest first, and those that are left out."""

    chosen: list[str]
    left_out: list[str]


def main() -> int:
    """Run the nearest tests and return the exit code of pytest."""
    changed = changed_files(os.environ.get("BASE", "main"))
    files = {path: (ROOT / path).read_text(encoding="utf-8") for path in python_files()}
    distances = measure(changed, files)
    durations = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    cores = os.cpu_count() or 1
    selection = select(changed, distances, durations, seconds=SECONDS * cores)
    for line in describe(changed, selection, distances):
        print(line, flush=True)  # noqa: T201
    if not selection.chosen:
        return 0
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(cores), "--dist", "worksteal"]
    unmarked = "not e2e and not smoke and not attack and not long"
    return subprocess.call([*command, "-m", unmarked, *sys.argv[1:], *selection.chosen], cwd=ROOT)


def changed_files(base: str) -> list[str]:
    """Return the files that differ from the branch point of `base`, committed or not."""
    start = _git("merge-base", "HEAD", base)[0]
    return sorted(
        {*_git("diff", "--name-only", start), *_git("ls-files", "-o", "--exclude-standard")}
    )


def _git(*words: str) -> list[str]:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()


def python_files() -> Iterator[str]:
    """Yield all modules, tests among them, relative to the root."""
    for tree in TREES:
        for path in sorted((ROOT / tree).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix()


def measure(changed: Sequence[str], files: Mapping[str, str]) -> dict[str, int]:
    """Return the number of imports between each test file and the nearest changed file."""
    importers = find_importers(files)
    distances = {path: 0 for path in changed if path in files}
    for path in changed:
        for test in tests_beside(path, files):
            distances.setdefault(test, 1)
    waiting = deque(sorted(distances, key=lambda path: distances[path]))
    while waiting:
        path = waiting.popleft()
        for importer in sorted(importers[path]):
            if importer not in distances:
                distances[importer] = distances[path] + 1
                waiting.append(importer)
    return {path: distance for path, distance in distances.items() if is_test(path)}


def find_importers(files: Mapping[str, str]) -> Mapping[str, set[str]]:
    """Return for each module the files that import it when they run."""
    paths = {name: path for path in files for name in module_names(path)}
    importers: dict[str, set[str]] = defaultdict(set)
    for path, text in files.items():
        for name in imported_names(text):
            if name in paths:
                importers[paths[name]].add(path)
    return importers


def module_names(path: str) -> Iterator[str]:
    """Yield the names by which a file may be imported."""
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    yield ".".join(parts[1:] if parts[0] in PLACES else parts)


def imported_names(text: str) -> Iterator[str]:
    """Yield the modules that a module imports; what is only for types is left out."""
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            inner = (ast.stmt, ast.ExceptHandler, ast.match_case)
            waiting += [each for each in ast.iter_child_nodes(node) if isinstance(each, inner)]


def tests_beside(path: str, files: Mapping[str, str]) -> Iterator[str]:
    """Yield the tests of a changed file that no import leads to."""
    name = Path(path).name
    if path.startswith("tests/") and not is_test(path):
        # Conftests, and modules that are found by their names, serve the tests below them.
        yield from (
            each for each in files if is_test(each) and each.startswith(f"{Path(path).parent}/")
        )
    elif not path.endswith(".py"):
        yield from (each for each in files if is_test(each) and name in files[each])


def is_test(path: str) -> bool:
    """Return True if pytest collects the file without a cluster."""
    is_near = path.startswith("tests/") and not path.startswith(NEEDS_CLUSTER)
    return is_near and Path(path).name.startswith("test_")


def select(
    changed: Sequence[str],
    distances: Mapping[str, int],
    durations: Mapping[str, float],
    *,
    seconds: float,
) -> Selection:
    """Choose the nearest test files; equally near ones by the same folder, then by duration."""
    folders = {str(Path(path).parent).replace("src/trimtab", "tests") for path in changed}

    def rank(path: str) -> tuple[int, bool, float, str]:
        is_elsewhere = str(Path(path).parent) not in folders
        return distances[path], is_elsewhere, durations.get(path, UNKNOWN_SECONDS), path

    chosen, left_out = list(ALWAYS), []
    rest = seconds
    for path in sorted(distances, key=rank):
        lasts = durations.get(path, UNKNOWN_SECONDS)
        if path in chosen:
            continue
        if lasts <= rest:
            rest -= lasts
            chosen.append(path)
        else:
            left_out.append(path)
    return Selection(chosen, left_out)


def describe(
    changed: Sequence[str], selection: Selection, distances: Mapping[str, int]
) -> Iterator[str]:
    """Yield the lines that say what is run and what is left out."""
    yield f"{len(changed)} changed files: {_some(changed)}"
    yield f"runs {len(selection.chosen)} test files: {_counts(selection.chosen, distances)}"
    if selection.left_out:
        yield f"leaves out {len(selection.left_out)}: {_counts(selection.left_out, distances)}"
        folders = Counter(str(Path(path).parent) for path in selection.left_out)
        yield "  " + ", ".join(f"{folder} {count}" for folder, count in folders.most_common(8))
    yield "leaves out tests marked long, e2e, smoke and attack, and what imports no changed module"


def _counts(paths: Iterable[str], distances: Mapping[str, int]) -> str:
    found = Counter(distances.get(path, 1) for path in paths)
    return ", ".join(f"{found[distance]} at distance {distance}" for distance in sorted(found))


def _some(paths: Sequence[str], most: int = 5) -> str:
    return ", ".join(paths[:most]) + (" …" if len(paths) > most else "")


if __name__ == "__main__":
    sys.exit(main())
