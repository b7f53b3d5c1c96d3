"""`trimtab recommender` as it is called: mistakes, and clusters that are not there."""

import json
import re
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from trimtab.cli import main
from trimtab.cli.components.recommender import list_remarks
from trimtab.cli.flags.recommender import RecommenderFlags
from trimtab.cli.runtime.history_source import order_history

# The command sets up logs for its own process.
pytestmark = pytest.mark.usefixtures("told")


@pytest.fixture
def lost_kubeconfig(tmp_path: Path) -> Path:
    """The way to a server that is not there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{free.getsockname()[1]}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lost", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "lost", "context": {"cluster": "lost", "user": "me"}}],
        "current-context": "lost",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def events(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.mark.parametrize(
    ("flag", "named"),
    [
        pytest.param("--recommender-interval=soon", "--recommender-interval", id="no duration"),
        pytest.param("--recommender-interval=0s", "--recommender-interval", id="no time at all"),
        pytest.param("--history-length=8", "--history-length", id="a duration without a unit"),
        pytest.param("--target-cpu-percentile=2", "--target-cpu-percentile", id="beyond a whole"),
        pytest.param("--update-worker-count=1.5", "--update-worker-count", id="half a worker"),
        pytest.param("--memory-saver=perhaps", "--memory-saver", id="neither yes nor no"),
        pytest.param(
            "--container-recommendation-max-allowed-cpu=much",
            "--container-recommendation-max-allowed-cpu",
            id="no quantity",
        ),
        pytest.param("--address=here", "--address", id="no address"),
        pytest.param("--feature-gates=InPlace", "--feature-gates", id="a gate without a value"),
        pytest.param("--log-format=xml", "--log-format", id="an unknown format"),
        pytest.param(
            "--leader-elect-resource-lock=endpoints", "leases", id="a lock of former times"
        ),
        pytest.param("--leader-elect-renew-deadline=20s", "--leader-elect", id="too long to renew"),
        pytest.param("everything", "everything", id="no flag at all"),
        pytest.param("--history-length=0s", "--history-length", id="no history at all"),
    ],
)
def test_a_value_that_makes_no_sense_is_one_line_and_code_2(
    flag: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main.main(["recommender", flag])

    output = capsys.readouterr()
    assert (code, output.out) == (2, "")
    assert re.fullmatch(r"trimtab: [^\n]+\n", output.err)
    assert named in output.err


def test_two_ways_to_say_which_namespaces_are_one_too_many(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = ["--vpa-object-namespace=a", "--ignored-vpa-object-namespaces=b"]
    code = main.main(["recommender", *both])

    assert code == 2
    assert "--vpa-object-namespace" in capsys.readouterr().err


def test_a_kubeconfig_that_is_not_there_is_one_line_and_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main.main(["recommender", f"--kubeconfig={tmp_path}/none"])

    *_, last = capsys.readouterr().err.splitlines()
    assert code == 1
    assert last.startswith(f"trimtab: no way to a cluster: {tmp_path}/none: ")


def test_a_cluster_that_does_not_answer_is_one_line_and_code_1(
    lost_kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main.main(["recommender", f"--kubeconfig={lost_kubeconfig}"])

    text = capsys.readouterr().err
    assert code == 1
    assert text.splitlines()[-1].startswith("trimtab: no answer from the cluster at http://127")
    assert "Traceback" not in text


def test_flags_and_gates_of_other_versions_do_not_keep_it_from_starting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--v=2", "--stderrthreshold", "info", "--retired-flag", "on", "--memory_saver"]
    gates = "--feature-gates=InPlaceOrRecreate=true,UpscaleOnly=false"
    code = main.main(["recommender", f"--kubeconfig={tmp_path}/none", *flags, gates])

    told = events(capsys.readouterr().err)
    assert code == 1
    assert told[0]["flags"] == {
        "kubeconfig": f"{tmp_path}/none",
        "v": 2,
        "memory_saver": True,
        "feature_gates": "InPlaceOrRecreate=true,UpscaleOnly=false",
    }
    assert [one["problem"] for one in told[1:]] == [
        "flag --retired-flag is unknown and is ignored",
        "feature gate InPlaceOrRecreate is unknown or retired and is ignored",
    ]


def test_help_shows_defaults_as_one_would_type_them(capsys: pytest.CaptureFixture[str]) -> None:
    code = main.main(["recommender", "--help"])

    text = " ".join(capsys.readouterr().out.split())
    assert code == 0
    assert "--recommender-interval DURATION How often usage is read" in text
    assert "recommendations are made. [default: 1m]" in text
    assert "--history-length DURATION How far back history goes. [default: 8d]" in text
    assert '[default: ""]' not in text


@pytest.mark.parametrize(
    "flag",
    ["--storage=etcd", "--use-external-metrics", "--min-checkpoints=3", "--humanize-memory"],
)
def test_a_flag_that_does_not_do_what_one_may_expect_is_told(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main.main(["recommender", f"--kubeconfig={tmp_path}/none", flag])

    (warning,) = events(capsys.readouterr().err)[1:]
    assert flag.partition("=")[0] in str(warning["problem"])


def test_the_environment_sets_flags_that_the_command_line_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_KUBECONFIG", f"{tmp_path}/none")
    monkeypatch.setenv("TRIMTAB_RECOMMENDER_NAME", "one")
    monkeypatch.setenv("TRIMTAB_UPDATE_WORKER_COUNT", "3")
    # What Kubernetes sets for a Service of our name.
    monkeypatch.setenv("TRIMTAB_RECOMMENDER_PORT", "tcp://10.0.0.1:8942")
    main.main(["recommender", "--recommender-name=two"])

    assert events(capsys.readouterr().err)[0]["flags"] == {
        "kubeconfig": f"{tmp_path}/none",
        "recommender_name": "two",
        "update_worker_count": 3,
    }


def test_an_explanation_says_where_usage_comes_from() -> None:
    usual = RecommenderFlags()
    learning = replace(
        usual.learning, use_external_metrics=True, external_metrics_memory_metric="used"
    )
    loop = replace(usual.loop, storage="prometheus")
    flags = replace(usual, learning=learning, loop=loop)
    said = list_remarks(flags, order_history(flags, {}))

    assert list(list_remarks(usual, None)) == []
    assert list(said) == [
        "usage of memory is read from the external metric used",
        "what was used before the recommender came is read from Prometheus",
    ]
