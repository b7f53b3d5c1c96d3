"""Least privilege, by the API server's own word: nothing is refused, nothing granted in vain.

Each component runs under a ServiceAccount with exactly the rules of the chart and does all that it
is for, once for a whole cluster and once for one namespace. The audit log says what was asked.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.installation_stage import Installation, Reach, after_a_day
from e2e.rights_stage import COMPONENTS, Account
from support.stages.admission import JSON_PATCH, MERGE_PATCH
from support.stages.components import Lacking, an_account, install, rights_of, running

from rig import waiting
from rig.controlplane import ControlPlane, free_ports
from rig.flags import LOOPBACK
from trimtab.api.admission.dry_run_pod import encode_trial_pod

pytestmark = pytest.mark.e2e

NO_NODES = "missing right: list nodes"
REGISTERING = "admissionregistration.k8s.io"


@pytest.fixture(scope="module")
def whole(
    cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """An installation for a whole cluster, after a day's work."""
    yield from live_a_day(cluster, tmp_path_factory, Reach.CLUSTER)


@pytest.fixture(scope="module")
def narrow(
    cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """The same for one namespace."""
    yield from live_a_day(cluster, tmp_path_factory, Reach.NAMESPACE)


def live_a_day(
    cluster: ControlPlane, folders: pytest.TempPathFactory, reach: Reach
) -> Iterator[Installation]:
    folder = folders.mktemp(reach)
    with (
        pytest.MonkeyPatch.context() as patch,
        after_a_day(cluster, folder, reach, patch) as it,
    ):
        yield it


@pytest.fixture(params=COMPONENTS)
def account(request: pytest.FixtureRequest, whole: Installation) -> Account:
    return whole.accounts[request.param]


@pytest.fixture(params=COMPONENTS)
def narrow_account(request: pytest.FixtureRequest, narrow: Installation) -> Account:
    return narrow.accounts[request.param]


def test_no_component_asks_for_what_it_may_not(account: Account) -> None:
    assert account.requests
    assert account.refused() == []


def test_no_component_may_do_what_it_never_does(account: Account) -> None:
    assert account.unused() == []


def test_within_one_namespace_no_component_asks_for_what_it_may_not(
    narrow_account: Account,
) -> None:
    assert narrow_account.requests
    assert narrow_account.refused() == []


def test_within_one_namespace_no_component_may_do_what_it_never_does(
    narrow_account: Account,
) -> None:
    assert narrow_account.unused() == []


def test_who_is_for_one_namespace_asks_for_nothing_outside_of_it(narrow_account: Account) -> None:
    places = {request.namespace for request in narrow_account.requests}

    assert places == {narrow_account.namespace}


def test_what_cannot_be_seen_from_one_namespace_is_told_and_keeps_nobody_from_work(
    narrow: Installation,
) -> None:
    def tell() -> set[str]:
        runs = narrow.runs.items()
        return {name for name, run in runs if NO_NODES in run.process.log.read_text()}

    # The role keeper does not look at nodes.
    everybody = set(COMPONENTS) - {"roles"}
    told = waiting.wait_for(tell, lambda found: found >= everybody)

    assert told == everybody


@pytest.mark.parametrize(
    "lacking",
    [
        pytest.param(
            Lacking("", "secrets", "get", "missing right: get secrets in {0}"), id="to see its keys"
        ),
        pytest.param(
            Lacking("", "secrets", "create", "missing right: create secrets in {0}"),
            id="to keep its keys",
        ),
        pytest.param(
            Lacking(
                REGISTERING,
                "mutatingwebhookconfigurations",
                "create",
                f"missing right: create mutatingwebhookconfigurations.{REGISTERING}",
            ),
            id="to register itself",
        ),
    ],
)
def test_a_right_that_the_admission_controller_lacks_is_named_by_readiness(
    cluster: ControlPlane,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lacking: Lacking,
) -> None:
    install(cluster)
    monkeypatch.setenv("NAMESPACE", namespace)
    rights = lacking.taken_from(rights_of("admission-controller"))
    kubeconfig = an_account(cluster, namespace, rights, tmp_path, everywhere=True)
    (port,) = free_ports(1)
    flags = (
        f"--bind-address={LOOPBACK}",
        f"--port={port}",
        f"--vpa-object-namespace={namespace}",
        f"--tls-cert-file={tmp_path / 'none'}",
    )
    with running("admission-controller", kubeconfig, tmp_path, *flags) as run:
        status, told = run.wait_until("/readyz", lambda answer: "missing right" in answer[1])
        alive = run.ask("/health-check")

    assert status == 500
    assert lacking.told.format(namespace) in told.splitlines()
    assert alive == (200, "OK")


def test_a_policy_keeps_accounts_from_changing_specs_and_from_making_pods(
    whole: Installation,
) -> None:
    pods = f"/api/v1/namespaces/{whole.served}/pods"
    _, body = whole.plane.request("GET", f"{pods}?labelSelector=app%3Dresizable")
    pod = f"{pods}/{json.loads(body)['items'][0]['metadata']['name']}?dryRun=All"
    image = json.dumps([{"op": "replace", "path": "/spec/containers/0/image", "value": "other"}])
    label = json.dumps({"metadata": {"labels": {"of": "no-harm"}}})
    own = f"/api/v1/namespaces/{whole.own}/pods"
    updater, admission = whole.accounts["updater"], whole.accounts["admission-controller"]

    changed = updater.ask("PATCH", pod, image.encode(), JSON_PATCH)
    labelled = updater.ask("PATCH", pod, label.encode(), MERGE_PATCH)
    made = admission.ask("POST", own, encode_trial_pod({}), "application/json")
    tried = admission.ask("POST", f"{own}?dryRun=All", encode_trial_pod({}), "application/json")

    assert (changed, labelled) == (422, 200)
    assert (made, tried) == (422, 201)
