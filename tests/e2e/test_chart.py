"""What the chart renders: for which values, of what kinds, and by flags that there are."""

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e.chart_stage import CASES, ORIGINAL_KEYS, Json, of_kind, render
from e2e.conftest import Bring

from reference import flags_page
from rig import chart, chart_values, programs
from trimtab import __version__
from trimtab.api.crds import definitions
from trimtab.cli.app import app

pytestmark = pytest.mark.e2e

every_case = pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in CASES])

CLUSTER_WIDE = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


@pytest.fixture(scope="module", autouse=True)
def _helm(bring: Bring) -> None:
    bring("helm")


@cache
def defaults_of(component: str) -> dict[str, object]:
    """All flags of a component with their defaults."""
    command = dict(flags_page.list_commands(app))[component]
    return {name: row.default for row in flags_page.list_rows(command) for name in row.names}


def arguments_of(deployment: Json) -> list[str]:
    arguments: list[str] = container_of(deployment)["args"]
    return arguments


def container_of(deployment: Json) -> Json:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(container)


def deployments(name: str) -> dict[str, Json]:
    found = of_kind(render(name), "Deployment")
    return {each["metadata"]["labels"]["app.kubernetes.io/component"]: each for each in found}


def identify(document: Json) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


@every_case
def test_helm_has_no_complaint_about_the_chart(name: str) -> None:
    lint = [str(programs.find("helm")), "lint", str(chart.CHART), "--strict"]
    flags = [f"--kube-version={chart.KUBERNETES}", "--values=-"]
    run = subprocess.run(
        [*lint, *flags], input=json.dumps(CASES[name]), capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stdout
    assert "[WARNING]" not in run.stdout


@every_case
def test_no_two_objects_have_the_same_name(name: str) -> None:
    names = [identify(each) for each in render(name)]

    assert len(names) == len(set(names))


@every_case
def test_flags_that_are_rendered_are_flags_of_the_component(name: str) -> None:
    for deployment in deployments(name).values():
        component, *flags = arguments_of(deployment)
        given = {flag.partition("=")[0] for flag in flags}

        assert given <= defaults_of(component).keys()


@every_case
def test_components_refuse_unknown_flags(name: str) -> None:
    for deployment in deployments(name).values():
        assert "--strict-flags=true" in arguments_of(deployment)


@every_case
def test_no_service_can_set_flags_by_its_name(name: str) -> None:
    # The variables of a Service called trimtab would begin like those of our flags.
    for deployment in deployments(name).values():
        assert deployment["spec"]["template"]["spec"]["enableServiceLinks"] is False


def test_ports_are_those_at_which_components_listen_by_themselves() -> None:
    for component, deployment in deployments("everything").items():
        defaults = defaults_of(component)
        listening = [defaults["--address"], defaults.get("--port")]

        ports = {
            each["name"]: f"{each['containerPort']}" for each in container_of(deployment)["ports"]
        }
        # The API server passes requests on to the first port.
        assert next(iter(ports)) == "metrics"
        assert f"--health-address=:{ports.pop('health')}" in arguments_of(deployment)
        assert list(ports.values()) == [str(each).removeprefix(":") for each in listening if each]


def test_the_chart_and_what_it_installs_have_the_version_of_the_package() -> None:
    about = yaml.safe_load((chart.CHART / "Chart.yaml").read_text(encoding="utf-8"))

    assert (about["version"], about["appVersion"]) == (__version__, __version__)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("one-namespace", id="without a webhook"),
        pytest.param("webhook-of-one", id="with a webhook that an administrator registers"),
    ],
)
def test_an_installation_of_one_namespace_has_nothing_outside_of_it(name: str) -> None:
    objects = render(name)

    assert of_kind(objects, *CLUSTER_WIDE) == []
    assert {each["metadata"]["namespace"] for each in objects} == {name}
    for deployment in of_kind(objects, "Deployment"):
        assert f"--vpa-object-namespace={name}" in arguments_of(deployment)


def test_each_component_can_be_installed_alone() -> None:
    for only in ("recommender", "updater", "roles"):
        objects = render(f"only-{only}")
        components = {
            each["metadata"]["labels"].get("app.kubernetes.io/component", only) for each in objects
        }

        assert components == {only}
        assert of_kind(objects, "MutatingWebhookConfiguration") == []


def test_extra_flags_come_last_as_a_list_and_as_a_map() -> None:
    listed = arguments_of(deployments("as-original")["recommender"])
    mapped = arguments_of(deployments("as-another")["recommender"])
    large = arguments_of(deployments("as-another")["updater"])

    assert listed[-2:] == ["--memory-saver=true", "--pod-recommendation-min-memory-mb=32"]
    assert mapped[-2:] == ["--pod-recommendation-min-cpu-millicores=15", "--v=4"]
    assert large[-1] == "--eviction-rate-burst=2000000"


@pytest.mark.parametrize(
    ("flags", "reads"),
    [
        pytest.param([], False, id="no word about it"),
        pytest.param(["--use-external-metrics"], True, id="the flag alone"),
        pytest.param({"use-external-metrics": True}, True, id="yes in a map"),
        pytest.param({"use-external-metrics": False}, False, id="no in a map"),
        pytest.param(["--use-external-metrics=false"], False, id="no in a list"),
        pytest.param(
            ["--use-external-metrics", "--use-external-metrics=False"], False, id="no at last"
        ),
    ],
)
def test_external_metrics_may_be_read_only_where_that_is_asked_for(
    flags: list[str] | Json, *, reads: bool
) -> None:
    values = json.dumps(nested("recommender.extraArgs", flags))
    text = chart.render(namespace="shop", values=values)

    assert ("external.metrics.k8s.io" in text) == reads


@pytest.mark.parametrize(
    ("flags", "scope", "reads"),
    [
        pytest.param([], "cluster", False, id="no word about it"),
        pytest.param(["--pressure-source=kubelet"], "cluster", True, id="in a list"),
        pytest.param({"pressure-source": "kubelet"}, "cluster", True, id="in a map"),
        pytest.param({"pressure-source": "prometheus"}, "cluster", False, id="another source"),
        pytest.param(
            ["--pressure-source=kubelet", "--pressure-source=none"], "cluster", False, id="none"
        ),
        pytest.param(["--pressure-source=kubelet"], "namespace", False, id="one namespace"),
    ],
)
def test_kubelets_may_be_read_only_where_that_is_asked_for(
    flags: list[str] | Json, scope: str, *, reads: bool
) -> None:
    found = nested("recommender.extraArgs", flags)
    if scope == "namespace":
        found |= {
            "rbac": {"scope": scope, "namespace": "shop"},
            "admissionController": {"enabled": False},
            "crds": {"enabled": False},
        }
    text = chart.render(namespace="shop", values=json.dumps(found))

    assert ("nodes/proxy" in text) == reads


def test_copies_take_turns_where_there_are_several() -> None:
    found = deployments("as-another")
    objects = render("as-another")

    assert found["recommender"]["spec"]["replicas"] == 1
    assert "--leader-elect=true" not in arguments_of(found["recommender"])
    assert "--leader-elect=true" in arguments_of(found["updater"])
    budgets = {
        each["metadata"]["name"]: each["spec"] for each in of_kind(objects, "PodDisruptionBudget")
    }
    assert {name: budget.get("maxUnavailable") for name, budget in budgets.items()} == {
        "as-another-trimtab-recommender": 1,
        "as-another-trimtab-updater": None,
    }


def test_a_lease_of_another_name_or_place_can_be_held() -> None:
    objects = render("as-original")
    roles = {identify(each)[1:]: each["rules"] for each in of_kind(objects, "Role")}

    updater = roles["as-original", "as-original-trimtab-updater-own"]
    assert ["vpa-updater-lease"] in [rule.get("resourceNames") for rule in updater]
    assert ("kube-system", "as-original-trimtab-recommender-own") in roles


def test_constraints_without_a_selector_are_about_the_component_s_own_copies() -> None:
    deployment = deployments("everything")["updater"]
    constraints = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]

    assert [each["labelSelector"]["matchLabels"] for each in constraints] == [
        deployment["spec"]["selector"]["matchLabels"],
        {"mine": "yes"},
    ]


def test_services_and_budgets_select_the_pods_of_their_component() -> None:
    objects = render("everything")
    labels = {
        component: deployment["spec"]["template"]["metadata"]["labels"]
        for component, deployment in deployments("everything").items()
    }

    for each in of_kind(objects, "Service", "PodDisruptionBudget", "NetworkPolicy"):
        spec = each["spec"]
        selector = spec.get("podSelector") or spec["selector"]
        wanted = selector.get("matchLabels", selector)
        chosen = [name for name, its in labels.items() if wanted.items() <= its.items()]
        assert chosen == [each["metadata"]["labels"]["app.kubernetes.io/component"]]


def test_a_monitor_finds_the_service_of_every_component() -> None:
    objects = render("everything")
    (monitor,) = of_kind(objects, "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    found = [
        each for each in of_kind(objects, "Service") if wanted <= each["metadata"]["labels"].items()
    ]

    assert len(found) == 4
    assert {port["name"] for each in found for port in each["spec"]["ports"]} == {"metrics"}


def probed(deployment: Json) -> set[str]:
    container = container_of(deployment)
    return {container[f"{each}Probe"]["httpGet"]["port"] for each in ("liveness", "readiness")}


@pytest.mark.parametrize(
    ("name", "is_secure"),
    [
        pytest.param("defaults", True, id="by default"),
        pytest.param("everything", True, id="with all that there is"),
        pytest.param("open-pages", False, id="where that is said"),
        pytest.param("one-namespace", False, id="where tokens cannot be reviewed"),
    ],
)
def test_metrics_and_pages_are_for_callers_with_a_right(name: str, *, is_secure: bool) -> None:
    objects = render(name)
    found = deployments(name).values()
    accounts = {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")}
    reviewing = [
        each["metadata"]["name"]
        for each in of_kind(objects, "ClusterRole", "Role")
        if ["tokenreviews"] in [rule.get("resources") for rule in each["rules"]]
    ]

    assert {"--metrics-secure" in arguments_of(each) for each in found} == {is_secure}
    assert {port for each in found for port in probed(each)} == {
        "health" if is_secure else "metrics"
    }
    assert ("trimtab-pages" in accounts) == is_secure
    assert len(reviewing) == (len(found) if is_secure else 0)


def test_prometheus_comes_with_a_token_and_tls_where_they_are_asked_for() -> None:
    (secured,) = of_kind(render("everything"), "ServiceMonitor")
    (plain,) = of_kind(render("open-pages"), "ServiceMonitor")
    (of_pods,) = of_kind(render("pod-monitor"), "PodMonitor")
    (endpoint,) = secured["spec"]["endpoints"]
    (of_pod,) = of_pods["spec"]["podMetricsEndpoints"]
    token = "/var/run/secrets/kubernetes.io/serviceaccount/token"

    assert (endpoint["scheme"], endpoint["tlsConfig"]) == ("https", {"insecureSkipVerify": True})
    assert endpoint["bearerTokenFile"] == token
    assert of_pod["scheme"] == "https"
    # A PodMonitor has no field for a file.
    assert "bearerTokenFile" not in of_pod
    assert of_pod["authorization"] == {"credentials": {"name": "scraping", "key": "token"}}
    assert (
        plain["spec"]["endpoints"][0].keys() & {"scheme", "tlsConfig", "bearerTokenFile"} == set()
    )


def test_readers_of_metrics_are_bound_to_metrics_alone() -> None:
    objects = render("everything")
    roles = {each["metadata"]["name"]: each["rules"] for each in of_kind(objects, "ClusterRole")}
    (bound,) = [
        each
        for each in of_kind(objects, "ClusterRoleBinding")
        if each["roleRef"]["name"].endswith("-metrics-reader")
    ]

    assert roles[bound["roleRef"]["name"]] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    assert [(each["name"], each["namespace"]) for each in bound["subjects"]] == [
        ("prometheus", "monitoring")
    ]


def test_by_default_only_the_ports_of_pages_and_of_the_webhook_can_be_reached() -> None:
    policies = {
        each["metadata"]["labels"]["app.kubernetes.io/component"]: [
            port["port"] for rule in each["spec"]["ingress"] for port in rule["ports"]
        ]
        for each in of_kind(render("defaults"), "NetworkPolicy")
    }

    assert policies == {
        "recommender": ["metrics"],
        "updater": ["metrics"],
        "admission-controller": ["metrics", "webhook"],
    }
    assert of_kind(render("open-pages"), "NetworkPolicy") == []


def test_alerts_and_dashboards_are_those_of_the_files() -> None:
    objects = render("everything")
    (rules,) = of_kind(objects, "PrometheusRule")
    files = chart.CHART / "files"
    shown = {
        name: text
        for each in of_kind(objects, "ConfigMap")
        for name, text in each.get("data", {}).items()
    }

    assert rules["spec"] == yaml.safe_load((files / "alerts.yaml").read_text(encoding="utf-8"))
    assert {name: text.strip() for name, text in shown.items()} == {
        path.name: path.read_text(encoding="utf-8").strip()
        for path in (files / "dashboards").glob("*.json")
    }


def test_the_chart_s_crds_are_the_ones_that_we_print() -> None:
    printed = definitions.render()
    rendered = of_kind(render("everything"), "CustomResourceDefinition")
    ours = {each["metadata"]["name"]: each["spec"] for each in yaml.safe_load_all(printed)}

    assert (chart.CHART / "files/crds.yaml").read_text(encoding="utf-8") == printed
    assert {each["metadata"]["name"]: each["spec"] for each in rendered} == ours
    for each in rendered:
        assert each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        assert each["metadata"]["annotations"]["k"] == "l"
        assert each["metadata"]["labels"]["team"] == "platform"


def nested(path: str, value: object) -> Json:
    first, _, rest = path.partition(".")
    return {first: nested(rest, value) if rest else value}


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        pytest.param("recommender.replicas", "two", "/recommender/replicas", id="a wrong type"),
        pytest.param("updater.enabeld", True, "'enabeld'", id="a key that is misspelt"),
        pytest.param("recomender", {}, "'recomender'", id="a component that is misspelt"),
        pytest.param("rbac.scope", "galaxy", "'cluster', 'namespace'", id="no such choice"),
        pytest.param(
            "admissionController.mutatingWebhookConfiguration.timeoutSeconds",
            31,
            "want 30",
            id="longer than any API server waits",
        ),
        pytest.param(
            "updater.leaderElection.leaseDuration", "15", "leaseDuration", id="a time without unit"
        ),
        pytest.param("roles.extraArgs", "--v=5", "/roles/extraArgs", id="flags as one text"),
        pytest.param(
            "rbac.scope", "namespace", "admissionController.enabled=false", id="no cluster rights"
        ),
        pytest.param(
            "admissionController.certManager.enabled", True, "issuerRef.name", id="no issuer"
        ),
        pytest.param(
            "admissionController.mutatingWebhookConfiguration.objectSelector",
            {"matchLabels": {"a": "b"}},
            "registerWebhook=false",
            id="selectors that would be written over",
        ),
        pytest.param(
            "metrics",
            {"serviceMonitor": {"enabled": True}, "service": {"enabled": False}},
            "metrics.service.enabled=true",
            id="a monitor of no service",
        ),
        pytest.param(
            "metrics",
            {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}},
            "scraped twice",
            id="two monitors of the same",
        ),
        pytest.param(
            "metrics.podMonitor.enabled",
            True,
            "metrics.tokenSecret.name",
            id="a PodMonitor without a token",
        ),
        pytest.param(
            "admissionController.extraArgs", {"port": 9000}, "port 8000", id="another webhook port"
        ),
        pytest.param(
            "admissionController.service.ports",
            [{"port": 443, "targetPort": 8443}],
            "targetPort 8443: the webhook listens on 8000",
            id="a Service that leads elsewhere",
        ),
        pytest.param(
            "admissionController.service.ports",
            [{"port": 443}],
            "Set targetPort: 8000",
            id="a Service that leads nowhere",
        ),
        pytest.param(
            "updater.extraArgs", ["--address=:9999"], "port 8943", id="another port of metrics"
        ),
        pytest.param(
            "recommender.extraArgs",
            ["--health-address", ":1"],
            "port 8952",
            id="another port of probes",
        ),
        pytest.param(
            "updater.extraArgs",
            {"metrics-secure": False},
            "metrics.secure=false",
            id="metrics without TLS for one component",
        ),
        pytest.param(
            "updater.leaderElection.enabled", False, "updater.replicas=1", id="two that act"
        ),
        pytest.param(
            "recommender.extraArgs", {"leader-elect": False}, "all 2 copies", id="two by a flag"
        ),
    ],
)
def test_bad_values_are_refused_with_a_word_about_what_is_wrong(
    path: str, value: Any, told: str
) -> None:
    with pytest.raises(chart.ChartError, match=re.escape(told)):
        chart.render(namespace="shop", values=json.dumps(nested(path, value)))


def test_a_helm_that_is_too_old_is_refused_with_the_version_that_is_needed(tmp_path: Path) -> None:
    newer = tmp_path / "trimtab"
    shutil.copytree(chart.CHART, newer)
    refusals = newer / "templates/refusals.yaml"
    text = refusals.read_text(encoding="utf-8")
    # No Helm pretends to be another one, so the bound is moved instead.
    refusals.write_text(text.replace(">=3.17.0-0", ">=99.0.0-0"), encoding="utf-8")
    command = [str(programs.find("helm")), "template", "x", "--kube-version=1.35.0"]
    done = subprocess.run([*command, str(newer)], capture_output=True, text=True, check=False)
    usual = subprocess.run([*command, str(chart.CHART)], capture_output=True, check=False)

    assert text.count(">=3.17.0-0") == 1
    assert done.returncode == 1
    assert "is too old: this chart needs Helm 3.17 or newer" in done.stderr
    assert usual.returncode == 0
    assert "Helm 3.17 or newer" in (Path(__file__).parents[2] / "docs/install.md").read_text(
        encoding="utf-8"
    )


def test_every_value_of_the_original_s_chart_is_one_of_ours() -> None:
    values = (chart.CHART / "values.yaml").read_text(encoding="utf-8")
    ours = {value.key for value in chart_values.list_values(values)}

    assert [key for key in ORIGINAL_KEYS if key not in ours] == []


def test_files_that_are_made_of_the_chart_are_current() -> None:
    stale = [path.name for path, text in chart.list_written() if path.read_text("utf-8") != text]

    assert stale == [], "run `make manifests`"
