"""Least privilege, by the API server's own word: nothing is refused, nothing granted in vain.

Each component runs under a ServiceAccount with exactly the rules of the chart and does all that it
is for, once for a whole cluster and once for one namespace. The audit log says what was asked.
"""

import json
from collections.abc import Iterator

import pytest
from e2e.admission_stage import JSON_PATCH, MERGE_PATCH
from e2e.installation_stage import Installation, Reach, after_a_day
from e2e.rights_stage import COMPONENTS, Account

from rig.controlplane import ControlPlane
from trimtab.api.trial_pods import encode_trial_pod

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def whole(
    cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("whole")
    with (
        pytest.MonkeyPatch.context() as patch,
        after_a_day(cluster, folder, Reach.CLUSTER, patch) as it,
    ):
        yield it


@pytest.fixture(scope="module")
def narrow(
    cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("narrow")
    with (
        pytest.MonkeyPatch.context() as patch,
        after_a_day(cluster, folder, Reach.NAMESPACE, patch) as it,
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
