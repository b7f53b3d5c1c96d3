"""Command lines as users and manifests write them, each read by a fresh process.

A process of its own shows what no test in this one can: that reading does not depend on which
modules were imported before.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.readers.command_line import COMPONENTS, FORGIVING, Words, flags_of, leaves

TRIMTAB = Path(sys.executable).parent / "trimtab"
FLAGS_PAGE = (Path(__file__).parents[2] / "docs/flags.md").read_text(encoding="utf-8")
ONE_LINE = re.compile(r"trimtab: [^\n]+; see trimtab[a-z -]* --help\n")
NEEDS: Mapping[Words, list[str]] = {
    ("validate",): ["some.yaml"],
    ("checkpoint", "import"): ["some.yaml"],
    ("completion",): ["bash"],
    ("explain",): ["web"],
}
"""What a command has to be given beside flags."""
READ = """
import json, sys
from dataclasses import fields, is_dataclass
from trimtab.cli.app import app

def walk(record, usual):
    for field in fields(record):
        value, default = getattr(record, field.name), getattr(usual, field.name)
        if is_dataclass(value):
            yield from walk(value, default)
        elif value != default:
            yield field.name, str(value)

_, bound, unused, _ = app.parse_known_args(sys.argv[1:])
print(json.dumps([[*walk(each, type(each)())] for each in bound.kwargs.values()]))
print(json.dumps(unused))
"""
"""Prints the fields that a command line changes, and the words that no flag takes."""
TEXTS: Mapping[object, tuple[str, str]] = {
    float: ("0.375", "0.375"),
    int: ("7", "7"),
    int | None: ("3k", "3000000"),
    str: ("some:1,other=[2]", "some:1,other=[2]"),
    timedelta: ("1h31m", "1:31:00"),
}
"""By the type of a flag a value that is no default, and how Python shows it."""


def start(words: Sequence[str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TRIMTAB, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=surroundings() | variables,
    )


def surroundings() -> dict[str, str]:
    """The environment, without what would say where a cluster is."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TRIMTAB_", "KUBE"))}
    return kept | {"HOME": "/nowhere", "COLUMNS": "80"}


def started_with(run: subprocess.CompletedProcess[str]) -> dict[str, object]:
    """The flags that a component says it starts with, but for the kubeconfig."""
    assert run.returncode == 1, run.stderr
    first, *_ = (json.loads(line) for line in run.stderr.splitlines() if line.startswith("{"))
    assert first["event"] == "starting"
    flags: dict[str, object] = first["flags"]
    assert flags.pop("kubeconfig") == "/nowhere/config"
    return flags


def warnings_of(run: subprocess.CompletedProcess[str]) -> list[str]:
    events = [json.loads(line) for line in run.stderr.splitlines() if line.startswith("{")]
    return [event["problem"] for event in events if event["event"] == "command line"]


# Every flag of every component, in every way it can be given.


def value_of(flag: Any) -> tuple[str, str]:
    """A value that is not the default: as it is written, and as Python shows it."""
    default = flag.field_info.default
    if flag.hint is bool:
        return str(not default).lower(), str(not default)
    if choices := flag.get_choices():
        other = next(choice for choice in choices if choice != str(default))
        return other, other
    if "memory" in flag.names[0] and flag.hint not in (int, float, timedelta):
        return ("3k", "3000") if flag.hint is not str else TEXTS[str]
    return TEXTS[flag.hint]


def field_of(flag: Any) -> str:
    return str(flag.names[0].removeprefix("--").replace("-", "_"))


def with_equals(flag: Any) -> tuple[list[str], dict[str, str]]:
    return [f"{flag.names[0]}={value_of(flag)[0]}"], {}


def with_blanks(flag: Any) -> tuple[list[str], dict[str, str]]:
    text, _ = value_of(flag)
    return ([f"{flag.names[-1]}={text}"] if flag.hint is bool else [flag.names[-1], text]), {}


def with_underscores(flag: Any) -> tuple[list[str], dict[str, str]]:
    return [f"--{field_of(flag)}={value_of(flag)[0]}"], {}


def by_variable(flag: Any) -> tuple[list[str], dict[str, str]]:
    return [], {f"TRIMTAB_{field_of(flag).upper()}": value_of(flag)[0]}


@pytest.mark.parametrize("component", sorted(COMPONENTS))
@pytest.mark.parametrize(
    ("give", "more"),
    [
        pytest.param(with_equals, [], id="with an equals sign"),
        pytest.param(with_blanks, [], id="with a blank"),
        pytest.param(with_underscores, ["--frobnicate=1"], id="beside an unknown flag"),
        pytest.param(by_variable, ["--frobnicate"], id="by the environment, beside an unknown one"),
    ],
)
def test_every_flag_of_a_component_is_read(
    component: str,
    give: Callable[[object], tuple[list[str], dict[str, str]]],
    more: list[str],
) -> None:
    flags = flags_of((component,))
    given = [give(flag) for flag in flags]
    variables = {name: text for _, pairs in given for name, text in pairs.items()}
    run = subprocess.run(
        [sys.executable, "-c", READ, component, *more, *(w for words, _ in given for w in words)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=surroundings() | variables,
    )
    records, unused = (json.loads(line) for line in run.stdout.splitlines())
    changed = [tuple(pair) for record in records for pair in record]

    assert sorted(changed) == sorted((field_of(flag), value_of(flag)[1]) for flag in flags)
    assert unused == more


@pytest.mark.parametrize("component", ["updater", "run"])
@pytest.mark.parametrize(
    ("words", "flags"),
    [
        pytest.param(["--v=2"], {"v": 2}, id="an equals sign"),
        pytest.param(["--v", "2"], {"v": 2}, id="a blank"),
        pytest.param(["-v=2"], {"v": 2}, id="one dash and an equals sign"),
        pytest.param(["-v", "2"], {"v": 2}, id="one dash and a blank"),
        pytest.param(["-v2"], {"v": 2}, id="one dash and nothing between"),
        pytest.param(["--v=3", "--v=2"], {"v": 2}, id="twice: the last one counts"),
        pytest.param(["--kube_api_qps=7"], {"kube_api_qps": 7.0}, id="underscores"),
        pytest.param(["--kube-api-qps", "-1"], {"kube_api_qps": -1.0}, id="a negative number"),
        pytest.param(["--profiling"], {"profiling": True}, id="a switch alone"),
        pytest.param(["--profiling=true"], {"profiling": True}, id="a switch that is true"),
        pytest.param(["--profiling=T"], {"profiling": True}, id="a switch that is T, as Go has it"),
        pytest.param(["--profiling=1"], {"profiling": True}, id="a switch that is 1"),
        pytest.param(["--logtostderr=false"], {"logtostderr": False}, id="a switch that is false"),
        pytest.param(["--logtostderr=F"], {"logtostderr": False}, id="a switch that is F"),
        pytest.param(["--logtostderr=0"], {"logtostderr": False}, id="a switch that is 0"),
        pytest.param(
            ["--stderrthreshold=error", "--vmodule=a=1", "--alsologtostderr", "--log-dir", "/x"],
            {
                "stderrthreshold": "error",
                "vmodule": "a=1",
                "alsologtostderr": True,
                "log_dir": "/x",
            },
            id="flags of klog",
        ),
    ],
)
def test_spellings_of_the_original_s_users_mean_what_they_mean_there(
    component: str, words: list[str], flags: dict[str, object]
) -> None:
    reach = ["--kubeconfig=/nowhere/config", *(["--no-admission"] if component == "run" else [])]
    found = started_with(start([component, *words, *reach]))
    found.pop("no_admission", None)

    assert found == flags


def test_false_switches_leader_election_off_where_it_is_on() -> None:
    run = start(["run", "--kubeconfig=/nowhere/config", "--no-admission", "--leader-elect=false"])

    assert started_with(run) == {"leader_elect": False, "no_admission": True}


# Unknown flags.


@pytest.mark.parametrize("component", sorted(FORGIVING))
def test_a_component_ignores_an_unknown_flag_alone_and_says_so(component: str) -> None:
    run = start([component, "--kube-api-qsp=7", "--kubeconfig=/nowhere/config", "--v=2"])

    assert started_with(run) == {"v": 2}
    assert warnings_of(run) == [
        "flag --kube-api-qsp is unknown and is ignored; did you mean --kube-api-qps?"
    ]


@pytest.mark.parametrize(
    ("component", "strict"),
    [
        pytest.param("recommender", ["--strict-flags"], id="a recommender"),
        pytest.param("updater", ["--strict-flags=true"], id="an updater"),
        pytest.param("admission-controller", ["--strict-flags"], id="an admission controller"),
        pytest.param("roles", [], id="roles, by a variable"),
    ],
)
def test_a_component_refuses_an_unknown_flag_where_flags_are_strict(
    component: str, strict: list[str]
) -> None:
    words = [component, "--kube-api-qsp=7", "--kubeconfig=/nowhere/config", *strict]
    run = start(words, **({} if strict else {"TRIMTAB_STRICT_FLAGS": "true"}))

    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        "trimtab: flag --kube-api-qsp is unknown; did you mean --kube-api-qps?;"
        f" see trimtab {component} --help\n"
    )


def test_a_strict_component_takes_flags_of_the_original_that_do_nothing_here() -> None:
    run = start(["updater", "--kubeconfig=/nowhere/config", "--strict-flags", "--log-file=x"])

    assert started_with(run) == {"strict_flags": True, "log_file": "x"}
    assert '"flags": ["--log-file"], "event": "flags without effect here"' in run.stderr


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(["--frobnicate"], [], id="first"),
        pytest.param(["--frobnicate=1"], [], id="first, with a value"),
        pytest.param([], ["--frobnicate", "1"], id="last, with a value behind it"),
        pytest.param([], ["-frobnicate"], id="last, with one dash"),
    ],
)
def test_run_refuses_an_unknown_flag_before_it_looks_for_a_cluster(
    before: list[str], after: list[str]
) -> None:
    run = start(["run", *before, "--kubeconfig=/nowhere/config", "--no-admission", *after])

    assert (run.returncode, run.stdout) == (2, "")
    assert ONE_LINE.fullmatch(run.stderr), run.stderr
    assert "frobnicate" in run.stderr


@pytest.mark.parametrize(
    "words",
    [["run"], ["updater", "--strict-flags"], ["admission-controller", "--strict-flags"]],
    ids=" ".join,
)
@pytest.mark.parametrize(
    ("mistake", "named"),
    [
        pytest.param(["--no-leader-elect"], "did you mean --leader-elect=false?", id="negated"),
        pytest.param(
            ["--leader-elect", "false"], "as in --leader-elect=false", id="the value behind a blank"
        ),
    ],
)
def test_whoever_tries_to_switch_a_flag_off_is_told_how(
    words: list[str], mistake: list[str], named: str
) -> None:
    if words[0] == "admission-controller":
        mistake = [word.replace("leader-elect", "self-test") for word in mistake]
        named = named.replace("mean --leader-elect", "mean --self-test")
    run = start([*words, *mistake])

    assert (run.returncode, run.stdout) == (2, "")
    assert ONE_LINE.fullmatch(run.stderr), run.stderr
    assert named in run.stderr


def test_a_flag_that_is_given_twice_is_told_by_its_name() -> None:
    run = start(["get", "-o", "json", "-o", "yaml"])

    assert run.returncode == 2
    assert run.stderr.startswith("trimtab: -o is given more than once; see trimtab get --help")


@pytest.mark.parametrize("component", sorted(COMPONENTS))
def test_help_says_which_switches_are_on_and_how_they_are_switched_off(component: str) -> None:
    shown = " ".join(start([component, "--help"]).stdout.split())
    switches = [flag for flag in flags_of((component,)) if flag.hint is bool]
    on = {flag.names[0] for flag in switches if flag.field_info.default}
    told = {flag.names[0] for flag in switches if f"{flag.names[0]}=false switches it" in shown}

    assert told == on


# What is wrong, for every command.


def mistakes(words: Words) -> list[list[str]]:
    """Lines with an unknown flag, a word too many, no value, and a value that cannot be read."""
    flags = flags_of(words)
    unknown = [["--strict-flags", "--frobnicate"] if words[0] in FORGIVING else ["--frobnicate"]]
    silent = [[flag.names[0]] for flag in flags if flag.token_count() == (1, False)][:1]
    switches = [[f"{flag.names[0]}=maybe"] for flag in flags if flag.hint is bool][:1]
    strange = [
        [f"{flag.names[0]}=strange"] for flag in flags if flag.hint in (int, float, timedelta)
    ][:1]
    return [*unknown, *silent, *switches, *strange]


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        pytest.param(words, mistake, id=" ".join([*words, *mistake]))
        for words in leaves()
        for mistake in mistakes(words)
    ],
)
def test_a_mistake_is_one_line_that_names_it_and_code_2(words: Words, mistake: list[str]) -> None:
    run = start([*words, *NEEDS.get(words, []), *mistake])

    assert (run.returncode, run.stdout) == (2, "")
    assert ONE_LINE.fullmatch(run.stderr), run.stderr
    assert mistake[-1].partition("=")[0] in run.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        pytest.param(
            ["--leader-elect", "false"],
            '"false"; a switch takes its value as in --leader-elect=false;',
            id="a word behind a switch",
        ),
        pytest.param(["-kubeconfig=/nowhere/config"], "--kubeconfig", id="one dash"),
        pytest.param(["--kubeconfig", "--leader-elect"], "--kubeconfig", id="a flag as a value"),
        pytest.param(["everything"], '"everything"', id="a word"),
        pytest.param(["--log-format=yaml"], "json", id="none of the choices"),
    ],
)
def test_a_component_refuses_what_is_no_unknown_flag(words: list[str], named: str) -> None:
    run = start(["updater", *words])

    assert (run.returncode, run.stdout) == (2, "")
    assert ONE_LINE.fullmatch(run.stderr), run.stderr
    assert named in run.stderr


@pytest.mark.parametrize("component", ["admission-controller", "run"])
@pytest.mark.parametrize(
    ("flag", "named"),
    [
        pytest.param(
            "--tls-cert-file=/nowhere/cert.pem",
            "there is no file /nowhere/cert.pem",
            id="a certificate that is not there",
        ),
        pytest.param(
            "--tls-ciphers=TLS_RSA_WITH_AES_128_GCM_SHA256,TLS_RSA",
            "ignored: TLS_RSA",
            id="a cipher that is misspelt",
        ),
        pytest.param(
            "--webhook-labels=team", "'team' is not key:value", id="labels without values"
        ),
    ],
)
def test_a_flag_of_the_webhook_without_its_effect_is_a_warning(
    component: str, flag: str, named: str
) -> None:
    address = "--webhook-address=https://127.0.0.1"
    run = start([component, flag, "--register-by-url", address, "--port=0"])
    (warning,) = warnings_of(run)

    assert warning.startswith(flag.partition("=")[0])
    assert named in warning
    assert all(line.startswith(("{", "trimtab: ")) for line in run.stderr.splitlines())


def test_a_webhook_without_an_address_is_told_by_the_name_of_the_flag() -> None:
    run = start(["admission-controller", "--register-by-url"])

    assert run.returncode == 2
    assert run.stderr.startswith('trimtab: --webhook-address: "" does not begin with https://')


@pytest.mark.parametrize(
    ("variable", "named"),
    [
        pytest.param({"TRIMTAB_V": "loud"}, "TRIMTAB_V", id="no number"),
        pytest.param({"TRIMTAB_LEADER_ELECT": "maybe"}, "TRIMTAB_LEADER_ELECT", id="no switch"),
    ],
)
def test_a_variable_that_cannot_be_read_is_refused_by_its_name(
    variable: dict[str, str], named: str
) -> None:
    run = start(["updater"], **variable)

    assert (run.returncode, run.stdout) == (2, "")
    assert ONE_LINE.fullmatch(run.stderr), run.stderr
    assert named in run.stderr


@pytest.mark.parametrize(
    "name", ["TRIMTAB_UPDATER_METRICS_PORT", "TRIMTAB_SERVICE_HOST", "TRIMTAB_V_V", "TRIMTAB_"]
)
def test_variables_that_kubernetes_sets_for_services_are_left_alone(name: str) -> None:
    run = start(["updater", "--kubeconfig=/nowhere/config"], **{name: "tcp://10.0.0.1:8943"})

    assert started_with(run) == {}


@pytest.mark.parametrize(
    ("words", "variable", "flag"),
    [
        pytest.param(["admission-controller", "--port=0"], "TRIMTAB_PORT", "--port", id="typed"),
        pytest.param(["admission-controller"], "TRIMTAB_WEBHOOK_PORT", "--webhook-port", id="text"),
        pytest.param(
            ["admission-controller", "--strict-flags"], "TRIMTAB_PORT", "--port", id="a number"
        ),
        pytest.param(["run"], "TRIMTAB_PORT", "--port", id="run"),
    ],
)
def test_the_address_of_a_service_is_not_taken_for_a_flag(
    words: list[str], variable: str, flag: str
) -> None:
    """A Service named trimtab in the namespace ended the admission controller at its start."""
    typed = [*words, "--bind-address=127.0.0.1", "--kubeconfig=/nowhere/config"]
    run = start(typed, **{variable: "tcp://10.0.0.1:8000"})

    assert "tcp" not in str(started_with(run)), run.stderr
    [told] = [text for text in warnings_of(run) if variable in text]
    assert told.startswith(f"variable {variable} is not read as {flag}: Kubernetes has set it")


def test_the_variable_of_the_port_still_counts() -> None:
    words = ["admission-controller", "--bind-address=127.0.0.1", "--kubeconfig=/nowhere/config"]
    run = start(words, TRIMTAB_PORT="0")

    assert started_with(run)["port"] == 0
    assert warnings_of(run) == []


@pytest.mark.parametrize("command", sorted(FORGIVING))
def test_a_mistyped_variable_is_a_warning(command: str) -> None:
    variables = {"TRIMTAB_ADRESS": ":9", "TRIMTAB_UPDATER_METRICS_PORT": "tcp://10.0.0.1:8943"}
    run = start([command, "--kubeconfig=/nowhere/config"], **variables)

    assert warnings_of(run) == [
        "variable TRIMTAB_ADRESS belongs to no flag and is ignored; did you mean TRIMTAB_ADDRESS?"
    ]


@pytest.mark.parametrize("words", [["updater", "--strict-flags"], ["run"]], ids=" ".join)
def test_a_mistyped_variable_is_refused_where_flags_are_to_be_known(words: list[str]) -> None:
    run = start([*words, "--kubeconfig=/nowhere/config"], TRIMTAB_MIN_REPLICA="3")

    assert (run.returncode, run.stdout) == (2, "")
    assert ONE_LINE.fullmatch(run.stderr), run.stderr
    assert "TRIMTAB_MIN_REPLICA belongs to no flag; did you mean TRIMTAB_MIN_REPLICAS?" in (
        run.stderr
    )


def test_the_command_line_wins_over_the_environment() -> None:
    run = start(["updater", "--kubeconfig=/nowhere/config", "--v=2"], TRIMTAB_V="3")

    assert started_with(run) == {"v": 2}


# Help.


@pytest.mark.parametrize("words", leaves(), ids=" ".join)
def test_help_and_the_page_of_flags_name_the_flags_that_are_read_and_no_others(
    words: Words,
) -> None:
    run = start([*words, "--help"])
    shown = re.findall(r"^  (-.+)$", run.stdout, re.MULTILINE)
    section = FLAGS_PAGE.partition(f"## trimtab {' '.join(words)}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`-[^|]*) \|", section, re.MULTILINE)
    read = {name for flag in flags_of(words) for name in flag.names}

    assert (run.returncode, run.stderr) == (0, "")
    assert {n for line in shown for n in re.findall(r"(?<!\S)-[\w.-]+", line)} - {
        "--help",
        "-h",
        "--version",
    } == read
    assert {name for row in rows for name in re.findall(r"`(-[^`]+)`", row)} == read
