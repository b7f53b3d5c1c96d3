"""Plain command lines of components: read without the parser, as the parser reads them."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from command_line import flags_of
from cyclopts import CycloptsError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trimtab.cli import declaring
from trimtab.cli.commands import app
from trimtab.cli.component_commands import COMPONENTS
from trimtab.cli.plain_lines import read_line

Line = list[str]
Variables = dict[str, str]

TEXTS: Mapping[object, tuple[str, str]] = {
    bool: ("false", "true"),
    float: ("0.25", "1e3"),
    int: ("7", "11"),
    int | None: ("250m", "2Gi"),
    str: ("some:1,other=[2]", ""),
    timedelta: ("1h30m", "5s"),
}
"""Two values of each type of flags, as somebody may write them."""
ODD_TEXTS = [
    *(text for pair in TEXTS.values() for text in pair),
    *("-1", "--v", "-h", "--help", "--", "=", "1_0", " 7 ", "0x1f", "None", "null", "8d", "1w"),
    *(
        "TRUE",
        "yes",
        "on",
        "0",
        "JSON",
        "console",
        "warn",
        "{}",
        '{"v": 1}',
        "[1]",
        "@file",
        "a b",
        "x",
    ),
]


def usual(component: str) -> dict[str, object]:
    found = getattr(declaring, COMPONENTS[component]).__kwdefaults__
    assert isinstance(found, dict)
    return found


def parse(component: str, words: Sequence[str]) -> dict[str, object]:
    """What the parser reads; a CycloptsError where that is nothing."""
    _, bound, *_ = app.parse_args([component, *words], exit_on_error=False, print_error=False)
    if bound.args:
        raise CycloptsError(msg="a component gets more than flags")
    return {**usual(component), **bound.kwargs}


def read_both(
    component: str, words: Sequence[str], variables: Mapping[str, str]
) -> tuple[dict[str, object] | None, dict[str, object] | None]:
    """What is read plainly, and what the parser reads."""
    with pytest.MonkeyPatch.context() as patch:
        for name, text in variables.items():
            patch.setenv(name, text)
        plainly = read_line(usual(component), words, os.environ)
        try:
            return plainly, parse(component, words)
        except CycloptsError:
            return plainly, None


def texts(flag: Any) -> tuple[str, str]:
    if choices := flag.get_choices():
        return choices[0], choices[-1]
    return TEXTS[flag.hint]


def variable(flag: Any) -> str:
    return f"TRIMTAB_{flag.names[0].removeprefix('--').replace('-', '_').upper()}"


def with_equals(flag: Any) -> Line:
    return [f"{flag.names[0]}={texts(flag)[0]}"]


def with_blanks(flag: Any) -> Line:
    return [flag.names[-1]] if flag.hint is bool else [flag.names[-1], texts(flag)[1]]


def by_variable(flag: Any) -> Variables:
    return {variable(flag): texts(flag)[0]}


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize(
    ("on_line", "in_environment"),
    [
        pytest.param(lambda _: [], lambda _: {}, id="not at all"),
        pytest.param(with_equals, lambda _: {}, id="with an equals sign"),
        pytest.param(with_blanks, lambda _: {}, id="with a blank"),
        pytest.param(lambda _: [], by_variable, id="by the environment"),
        pytest.param(with_blanks, by_variable, id="both by the line and by the environment"),
        pytest.param(
            lambda flag: with_equals(flag) + with_blanks(flag), lambda _: {}, id="twice, and mixed"
        ),
        pytest.param(
            lambda flag: with_blanks(flag) + with_equals(flag), lambda _: {}, id="the other way"
        ),
    ],
)
def test_every_flag_of_a_component_is_read_as_the_parser_reads_it(
    component: str,
    on_line: Callable[[object], Line],
    in_environment: Callable[[object], Variables],
) -> None:
    flags = flags_of((component,))
    words = [word for flag in flags for word in on_line(flag)]
    variables = dict(pair for flag in flags for pair in in_environment(flag).items())
    plainly, parsed = read_both(component, words, variables)

    assert plainly is not None
    assert plainly == parsed


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_that_is_told_nothing_has_its_usual_flags(component: str) -> None:
    assert read_line(usual(component), [], {"TRIMTABLE": "x"}) == usual(component)


def any_texts() -> st.SearchStrategy[str]:
    # Neither can be in an environment.
    written = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
    return st.sampled_from(ODD_TEXTS) | st.text(written, max_size=4)


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, Line, Variables]:
    """Command lines of a component, most of them well-formed."""
    component = draw(st.sampled_from(sorted(COMPONENTS)))
    words: Line = []
    variables: Variables = {}
    for flag in draw(st.lists(st.sampled_from(flags_of((component,))), max_size=5)):
        text = draw(st.sampled_from(texts(flag)) | any_texts())
        name = draw(st.sampled_from(flag.names))
        match draw(st.sampled_from(["equals", "blank", "alone", "variable"])):
            case "equals":
                words.append(f"{name}={text}")
            case "blank":
                words += [name, text]
            case "alone":
                words.append(name)
            case _:
                variables[variable(flag)] = text
    return component, words, variables


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lines())
def test_what_is_read_plainly_the_parser_would_have_read_as_well(
    line: tuple[str, Line, Variables],
) -> None:
    plainly, parsed = read_both(*line)

    assert plainly in (None, parsed)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--help"], id="help"),
        pytest.param(["-h"], id="help in short"),
        pytest.param(["--v=3", "--help"], id="help after a flag"),
        pytest.param(["--version"], id="the version"),
        pytest.param(["--frobnicate"], id="an unknown flag"),
        pytest.param(["--frobnicate=1", "--v=3"], id="an unknown flag with a value"),
        pytest.param(["frobnicate"], id="a word"),
        pytest.param(["--leader-elect", "false"], id="a word after a switch"),
        pytest.param(["--"], id="the end of flags"),
        pytest.param(["-"], id="a dash"),
        pytest.param([""], id="nothing"),
        pytest.param(["=3"], id="a value without a name"),
        pytest.param(["--=3"], id="a value without a name, but with dashes"),
        pytest.param(["--kubeconfig"], id="no value"),
        pytest.param(["--kubeconfig", "--leader-elect"], id="a flag in place of a value"),
        pytest.param(["--kube-api-qps", "-1"], id="a negative number after a blank"),
        pytest.param(["--v", "--", "3"], id="the end of flags in place of a value"),
        pytest.param(["--v="], id="an empty number"),
        pytest.param(["--v=x"], id="no number"),
        pytest.param(["--leader-elect=x"], id="neither on nor off"),
        pytest.param(["--leader-elect=yes"], id="on, as others spell it"),
        pytest.param(["--leader-elect=on"], id="on, as nobody spells it"),
        pytest.param(["--log-format=yaml"], id="no choice"),
        pytest.param(["--log-format=JSON"], id="a choice in capitals"),
        pytest.param(["--leader-elect-lease-duration=1"], id="no span"),
        pytest.param(["--leader-elect-lease-duration=9999999999999h"], id="too long a span"),
        pytest.param(["--v=x", "--v=3"], id="a mistake that is put right"),
        pytest.param(["--kube_api_qps=3"], id="underscores"),
        pytest.param(["-v3"], id="a short flag with its value"),
        pytest.param(["-kubeconfig=x"], id="one dash"),
        pytest.param(["--flags.loop.address=x"], id="a path"),
        pytest.param(["--stray=x"], id="an argument that is no flag"),
    ],
)
def test_what_is_not_plain_is_left_to_the_parser(words: Line) -> None:
    assert read_line(usual("updater"), words, {}) is None


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({"TRIMTAB_V": "x"}, id="no number"),
        pytest.param({"TRIMTAB_V": ""}, id="an empty number"),
        pytest.param({"TRIMTAB_KUBE-API-QPS": "3"}, id="dashes"),
        pytest.param({"TRIMTAB_STRAY": "x"}, id="an argument that is no flag"),
    ],
)
def test_variables_that_are_not_plain_are_left_to_the_parser(variables: Variables) -> None:
    assert read_line(usual("updater"), [], variables) is None


@pytest.mark.parametrize(
    "name",
    [
        *("TRIMTAB_UPDATER_METRICS_PORT", "TRIMTAB_UPDATER_METRICS_SERVICE_HOST"),
        *("TRIMTAB_v", "TRIMTAB_", "TRIMTAB_V_V", "TRIMTAB__V", "V"),
    ],
)
def test_variables_of_no_flag_are_nobody_s_affair(name: str) -> None:
    plainly, parsed = read_both("updater", ["--v=3"], {name: "x"})

    assert plainly is not None
    assert plainly == parsed


def test_a_command_is_declared_by_its_module_and_its_name() -> None:
    with pytest.raises(AttributeError, match="updater"):
        _ = declaring.updater
