"""Whatever is mistyped, on any command: one clear line, a hint, code 2, and never a traceback."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.readers.command_line import COMPONENTS, FORGIVING, Words, flags_of, leaves
from support.servers.read_only_cluster import write_kubeconfig

from trimtab.cli.main import main

TRIMTAB = Path(sys.executable).parent / "trimtab"
ONE_LINE = re.compile(r"trimtab: [^\n]+; see trimtab[a-z -]* --help\n")
LIBRARY_WORDS = re.compile(r"invalid literal|convert|Invalid value|Tokens|[\[\]{}]|float|class")
"""Words of Python and of libraries, which no person should have to read."""
NONSENSE = "frobnicate"
_FREE = (str, Path)
_NEEDS = {
    ("validate",): ["some.yaml"],
    ("checkpoint", "import"): ["some.yaml"],
    ("completion",): ["bash"],
    ("explain",): ["web"],
}
"""What a command has to be given beside flags."""
_ASKING = [
    words
    for words in leaves()
    if any("--kubeconfig" in flag.names for flag in flags_of(words)) and words != ("backtest",)
]


def _is_free(hint: object) -> bool:
    """Whether any text will do."""
    return hint in _FREE or "str" in str(hint) or "Path" in str(hint)


def _typed_flags() -> Iterator[object]:
    """Each flag that not any text will do for, with the first command that has it."""
    known = set()
    for words in leaves():
        for flag in flags_of(words):
            name = flag.names[0]
            if not _is_free(flag.hint) and (name, str(flag.hint)) not in known:
                known.add((name, str(flag.hint)))
                yield pytest.param(words, name, flag.hint is bool, id=f"{' '.join(words)} {name}")


def _numeric_flags() -> Iterator[tuple[Words, str]]:
    """Each flag that takes a number or a quantity, with the first command that has it."""
    known = set()
    for words in leaves():
        for flag in flags_of(words):
            hint = str(flag.hint)
            if re.search("int|float", hint) and (flag.names[0], hint) not in known:
                known.add((flag.names[0], hint))
                yield words, flag.names[0]


def _told(capsys: pytest.CaptureFixture[str]) -> str:
    told = capsys.readouterr()
    assert told.out == ""
    return told.err


@pytest.mark.parametrize(("words", "flag", "is_switch"), list(_typed_flags()))
def test_a_value_that_makes_no_sense_is_one_line_that_names_the_flag(
    words: Words, flag: str, capsys: pytest.CaptureFixture[str], *, is_switch: bool
) -> None:
    given = [f"{flag}={NONSENSE}"] if is_switch else [flag, NONSENSE]
    code = main([*words, *_NEEDS.get(words, []), *given])
    told = _told(capsys)

    assert code == 2
    assert ONE_LINE.fullmatch(told), told
    assert told.startswith(f"trimtab: {flag}: ")
    assert not LIBRARY_WORDS.search(told), told


@pytest.mark.parametrize(
    "text", ["nan", "inf", "-inf", "1e400", "9" * 5000, ""], ids=lambda t: t[:9]
)
def test_no_flag_takes_a_number_that_is_none_or_endless(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rate or a limit of NaN or infinity would limit nothing, without a word."""
    for words, flag in _numeric_flags():
        code = main([*words, *_NEEDS.get(words, []), f"{flag}={text}"])
        told = _told(capsys)

        assert (code, flag) == (2, flag)
        assert ONE_LINE.fullmatch(told), told
        assert told.startswith(f"trimtab: {flag}: ")
        assert not LIBRARY_WORDS.search(told), told
        assert len(told) < 300


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("updater --v=abc", '--v: "abc" is not a whole number'),
        ("updater --v=1.5", '--v: "1.5" is not a whole number'),
        ("updater --log-file-max-size=é", '--log-file-max-size: "é" is not a whole number'),
        ("updater --eviction-rate-limit=NaN", '--eviction-rate-limit: "NaN" is not a number'),
        (
            "run --eviction-rate-limit=1e-300",
            '--eviction-rate-limit: "1e-300" is closer to 0 than a number may be',
        ),
        (
            "recommender --kube-api-burst=1e400",
            '--kube-api-burst: "1e400" is larger than a number may be',
        ),
        (
            "recommender --container-recommendation-max-allowed-cpu=1e400",
            '--container-recommendation-max-allowed-cpu: "1e400" is larger than a quantity may be',
        ),
        (
            "admission-controller --register-by-url=abc",
            '--register-by-url: "abc" is neither true nor false',
        ),
        ("explain a b c", 'unused arguments "b", "c"'),
        ("doctor foo", 'unused argument "foo"'),
        ("report --watch-for=-5s", "--watch-for: -5s is less than no time; try 2m"),
        ("report --watchfor=5s", "flag --watchfor is unknown; did you mean --watch-for?"),
        ("report --bogus", "flag --bogus is unknown"),
        ("get -o jsn", '-o: "jsn" is none of table, json, yaml, csv; did you mean json?'),
        ("explain", "NAME is missing"),
        ("backtest --sweep --margin=nan", '--margin: "nan" is not a number'),
        ("backtest --namespace=x --days=99999999999", "--days must be at most 3650, and"),
        ("simulate --hours=99999999999", "--hours must be at most 87600, not 99999999999"),
        ("demo --speed=1e18", "--speed must be more than 0 and at most 1e+09, not 1e+18"),
        ("bogus", 'there is no command "bogus"'),
        ("help doctor", 'there is no command "help"'),
        ("doctr", 'there is no command "doctr"; did you mean doctor?'),
        ("checkpoint exprot", 'there is no command "exprot"; did you mean export?'),
    ],
)
def test_a_mistake_is_named_in_words_for_people_by_a_fresh_process(line: str, told: str) -> None:
    done = subprocess.run(
        [TRIMTAB, *line.split()],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert ONE_LINE.fullmatch(done.stderr), done.stderr
    assert done.stderr.startswith(f"trimtab: {told}")
    # A list of commands that lacks some would hide these.
    assert "vailable" not in done.stderr


@pytest.mark.parametrize("words", leaves(), ids=" ".join)
def test_a_flag_without_its_value_is_one_line(
    words: Words, capsys: pytest.CaptureFixture[str]
) -> None:
    # One that takes all words that follow may take none.
    taking = [flag.names[0] for flag in flags_of(words) if flag.token_count() == (1, False)]
    for flag in taking[:1]:
        code = main([*words, *_NEEDS.get(words, []), flag])
        told = _told(capsys)

        assert code == 2
        assert ONE_LINE.fullmatch(told), told
        assert flag in told


@pytest.mark.parametrize(
    "words", [words for words in leaves() if words[0] not in FORGIVING], ids=" ".join
)
def test_an_unknown_flag_is_one_line(words: Words, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*words, *_NEEDS.get(words, []), f"--{NONSENSE}"])
    told = _told(capsys)

    assert code == 2
    assert ONE_LINE.fullmatch(told), told
    assert NONSENSE in told


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([NONSENSE], id="an unknown command"),
        pytest.param(["checkpoint", NONSENSE], id="an unknown command of a group"),
        pytest.param(["report", NONSENSE], id="a needless argument"),
        pytest.param(["report", "--selector", "app=(web"], id="no selector"),
        pytest.param(["report", "--watch-for", "-1m"], id="a span of less than no time"),
        pytest.param(["report", "--min-samples", "0"], id="no samples at all"),
        pytest.param(["report", "--prometheus-address", "nowhere"], id="no address"),
        pytest.param(
            ["report", "--prometheus-address", "http://x", "--history-length", "0d"], id="no past"
        ),
    ],
)
def test_other_nonsense_is_one_line_too(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(arguments)
    told = _told(capsys)

    assert code == 2
    assert ONE_LINE.fullmatch(told), told


@pytest.mark.parametrize("words", _ASKING, ids=" ".join)
def test_without_a_cluster_the_code_is_1_and_nothing_is_a_traceback(
    words: Words, tmp_path: Path
) -> None:
    file = tmp_path / "some.yaml"
    file.write_text("{}\n", encoding="utf-8")
    # Nobody listens there.
    nowhere = write_kubeconfig(tmp_path, "http://127.0.0.1:9")
    needs = [str(file) if each == file.name else each for each in _NEEDS.get(words, [])]
    done = subprocess.run(
        [TRIMTAB, *words, *needs, "--kubeconfig", nowhere],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "HOME": str(tmp_path)},
    )

    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert done.stdout == ""
    if words[0] not in COMPONENTS:
        assert re.fullmatch(r"trimtab: [^\n]+\n", done.stderr), done.stderr
