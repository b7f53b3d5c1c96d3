"""Help as somebody reads it in a terminal of 80 columns."""

import re
import shlex

import pytest
from support.readers.command_line import Words, flags_of, walk

from trimtab.cli.app import app
from trimtab.cli.main import main

ALL = [words for words, _ in walk()]
MACHINE_WORDS = re.compile(
    r"\b(STR|INT|FLOAT|BOOL|CHOICE|None|NoneType|False|True|tuple|dict|Optional|timedelta)\b"
)
EXAMPLES = re.compile(r"\nFor example:\n((?:  .*\n)+)")


def _name(words: Words) -> str:
    return " ".join(words) or "trimtab"


@pytest.fixture(params=ALL, ids=_name)
def words(request: pytest.FixtureRequest) -> Words:
    found: Words = request.param
    return found


@pytest.fixture
def page(words: Words, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*words, "--help"]) == 0
    return capsys.readouterr().out


def test_help_fits_a_terminal_of_80_columns_and_starts_with_one_sentence(
    words: Words, page: str
) -> None:
    lines = page.splitlines()
    summary = page.split("\n\n")[1]

    assert lines[0].startswith(" ".join(["Usage: trimtab", *words]))
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line != line.rstrip() or "\t" in line]
    assert summary.endswith(".")
    assert summary.count(". ") == 0


def test_help_has_no_words_that_only_programmers_know(page: str) -> None:
    assert MACHINE_WORDS.findall(page) == []


def test_every_flag_is_explained_below_its_name(words: Words, page: str) -> None:
    # A flag stands two columns in, and what it means six.
    blocks = re.findall(r"^  (-.+)\n((?: {6}.+\n)*)", page, re.MULTILINE)
    explained = {name for names, meaning in blocks if meaning for name in re.split("[ ,]+", names)}
    flags = flags_of(words) if words and not _is_group(words) else []

    assert {flag.names[0] for flag in flags} <= explained


def test_examples_are_calls_that_make_sense(page: str) -> None:
    found = EXAMPLES.search(page)

    assert found is not None
    for line in found.group(1).splitlines():
        call = re.search(r"trimtab((?: [^ |>)]+)*)", line)
        assert call is not None
        tokens = shlex.split(re.split(r"\s{2,}", call.group(1).strip())[0])
        app.parse_args(tokens, exit_on_error=False, print_error=False)


def _is_group(words: Words) -> bool:
    return words == ("checkpoint",)
