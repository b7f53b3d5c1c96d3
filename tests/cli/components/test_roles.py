"""`trimtab roles`: its flags, its page, and mistakes in calling it."""

import importlib
import json
import re
from operator import attrgetter
from pathlib import Path

import prometheus_client
import pytest
from cli.components.test_updater_page import IDLE, shown

from trimtab.cli import main
from trimtab.cli.flags import start as starting
from trimtab.cli.flags.common import ClusterFlags, CommonFlags
from trimtab.cli.flags.roles import RolesFlags, to_settings
from trimtab.core.model.pods import WorkloadName
from trimtab.core.roles import Standing
from trimtab.roles.settings import RolesSettings

PAGE = (Path(__file__).parents[3] / "docs/roles.md").read_text(encoding="utf-8")
FLAGS = starting.list_flags(CommonFlags(), RolesFlags())
ROWS = dict(re.findall(r"^\| `(--\S+)` \| (.*?) \|", PAGE, re.MULTILINE))

# The command sets up logs for its own process.
pytestmark = pytest.mark.usefixtures("told")


def test_flags_that_nobody_sets_are_the_settings_by_default() -> None:
    assert to_settings(ClusterFlags(), RolesFlags()) == RolesSettings()


@pytest.mark.parametrize(
    ("name", "value", "destination"),
    [
        ("role_label", "example.com/part", "role.label"),
        ("role_name", "primary", "role.value"),
        ("pause", True, "paused"),
        ("hand_over_interval", 7 * RolesSettings().interval, "hand_over_interval"),
        ("hand_over_burst", 7, "hand_over_burst"),
        ("roles_interval", 7 * RolesSettings().interval, "interval"),
    ],
)
def test_a_flag_reaches_the_one_setting_that_it_is_for(
    name: str, value: object, destination: str
) -> None:
    flags = RolesFlags(**{name: value})  # type: ignore[arg-type]

    assert attrgetter(destination)(RolesSettings()) != value
    assert attrgetter(destination)(to_settings(ClusterFlags(), flags)) == value


def test_namespaces_come_from_the_flags_that_all_components_have() -> None:
    one = to_settings(ClusterFlags(vpa_object_namespace="a"), RolesFlags())
    others = to_settings(ClusterFlags(ignored_vpa_object_namespaces="a, b"), RolesFlags())

    assert one.namespace == "a"
    assert others.ignored_namespaces == {"a", "b"}


def test_leases_are_named_by_the_workloads_that_they_are_for() -> None:
    text = "shop/StatefulSet/db=db-leader, shop/Deployment/queue=queue"
    settings = to_settings(ClusterFlags(), RolesFlags(role_leases=text))

    assert settings.leases == {
        WorkloadName("shop", "StatefulSet", "db"): "db-leader",
        WorkloadName("shop", "Deployment", "queue"): "queue",
    }


@pytest.mark.parametrize(
    ("flag", "named"),
    [
        pytest.param("--role-leases=db", "--role-leases", id="no workload"),
        pytest.param("--role-leases=a/b=c", "--role-leases", id="no kind"),
        pytest.param("--role-leases=a/b/c=", "--role-leases", id="no lease"),
        pytest.param("--role-label=a b", "--role-label", id="no label"),
        pytest.param("--role-name=-a", "--role-name", id="no value of a label"),
        pytest.param("--roles-interval=0s", "--roles-interval", id="no time at all"),
        pytest.param("--hand-over-burst=0", "--hand-over-burst", id="never"),
        pytest.param("--address=here", "--address", id="no address"),
    ],
)
def test_a_value_that_makes_no_sense_is_one_line_and_code_2(
    flag: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main.main(["roles", flag])

    output = capsys.readouterr()
    assert (code, output.out) == (2, "")
    assert re.fullmatch(r"trimtab: [^\n]+\n", output.err)
    assert named in output.err


def test_without_a_cluster_it_says_what_it_is_and_ends_with_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_ROLE_NAME", "primary")
    code = main.main(["roles", f"--kubeconfig={tmp_path}/none"])

    start, last = capsys.readouterr().err.splitlines()
    told = json.loads(start)
    assert code == 1
    assert (told["event"], told["component"]) == ("starting", "roles")
    assert told["flags"] == {"kubeconfig": f"{tmp_path}/none", "role_name": "primary"}
    assert last.startswith("trimtab: no way to a cluster")


@pytest.mark.parametrize("name", sorted(FLAGS.keys() - IDLE.keys()))
def test_the_page_has_every_flag_with_its_default(name: str) -> None:
    assert ROWS.get(starting.flag_name(name), "missing") in shown(FLAGS[name])


def test_the_page_has_no_flag_that_is_not_there() -> None:
    assert ROWS.keys() == {starting.flag_name(name) for name in FLAGS.keys() - IDLE.keys()}


def test_the_page_names_every_metric_of_ours() -> None:
    importlib.import_module("trimtab.cli.components.roles")
    families = prometheus_client.REGISTRY.collect()
    ours = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in families
        if family.name.startswith(("vpa_roles_", "trimtab_"))
    }

    assert "vpa_roles_changes_total" in ours
    assert {name for name in ours if f"| `{name}` |" not in PAGE} == set()


@pytest.mark.parametrize("standing", Standing)
def test_the_page_explains_how_a_workload_may_stand(standing: Standing) -> None:
    assert f"| `{standing.value}` |" in PAGE
