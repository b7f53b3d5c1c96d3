"""The admission controller's flags beside the original's, and what becomes of them."""

from dataclasses import fields, replace
from datetime import timedelta

import pytest

from reference.original_flags import ADMISSION as ORIGINAL
from trimtab.admission.settings import AdmissionSettings
from trimtab.cli.flags.admission import AdmissionFlags, to_settings
from trimtab.cli.flags.common import ClusterFlags, LeaderlessFlags, PageFlags
from trimtab.cli.flags.start import flag_name, list_flags
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.hpa import HpaConflict

# Nobody should wait half a minute for a pod because of us.
DIFFERENT = {"--webhook-timeout-seconds": 5}
OURS = {
    "--allow-overlapping-autoscalers",
    "--bind-address",
    "--cap-to-largest-node",
    "--hpa-conflict",
    "--log-format",
    "--max-boosted-priority",
    "--strict-flags",
    "--read-timeout",
    "--self-test",
    "--webhook-client-ca-file",
    "--webhook-inject-ca-from",
    "--webhook-keys",
    "--workers",
    *(flag_name(field.name) for field in fields(PageFlags)),
}


def test_every_flag_of_the_original_has_its_name_and_its_default() -> None:
    flags = list_flags(LeaderlessFlags(), AdmissionFlags())
    ours = {flag_name(name): value for name, value in flags.items()}

    assert {name: ours.get(name, "missing") for name in ORIGINAL} == {**ORIGINAL, **DIFFERENT}
    assert ours.keys() - ORIGINAL.keys() == OURS


def test_flags_that_nobody_sets_are_the_settings_by_default() -> None:
    settings = to_settings(ClusterFlags(), AdmissionFlags(), {}, FeatureGates())

    assert settings == AdmissionSettings()


@pytest.mark.parametrize(
    ("environment", "given", "namespace"),
    [
        pytest.param({}, "", "kube-system", id="where nobody says anything"),
        pytest.param({"NAMESPACE": "vpa"}, "", "vpa", id="where we run"),
        pytest.param({"NAMESPACE": "vpa"}, "leases", "leases", id="where the flag says"),
    ],
)
def test_the_status_lease_is_where_updaters_look_for_it(
    environment: dict[str, str], given: str, namespace: str
) -> None:
    flags = AdmissionFlags()
    flags = replace(flags, serving=replace(flags.serving, status_lease_namespace=given))
    settings = to_settings(ClusterFlags(), flags, environment, FeatureGates())

    assert settings.status_lease_namespace == namespace


def test_every_flag_about_what_pods_get_reaches_the_settings() -> None:
    flags = AdmissionFlags()
    flags = replace(
        flags,
        serving=replace(
            flags.serving,
            max_allowed_cpu_boost=4000,
            status_lease_name="mine",
            status_lease_update_interval=timedelta(seconds=7),
        ),
        care=replace(
            flags.care,
            allow_overlapping_autoscalers=True,
            cap_to_largest_node=False,
            hpa_conflict=HpaConflict.IGNORE,
            max_boosted_priority=1000,
        ),
    )
    cluster = ClusterFlags(ignored_vpa_object_namespaces="a, b")
    gates = FeatureGates(in_place=False)
    settings = to_settings(cluster, flags, {}, gates)

    assert settings == AdmissionSettings(
        gates=gates,
        max_boost_millicores=4000,
        max_boosted_priority=1000,
        caps_to_nodes=False,
        hpa_conflict=HpaConflict.IGNORE,
        ignored_namespaces=frozenset({"a", "b"}),
        allows_overlapping=True,
        status_lease_name="mine",
        status_lease_interval=timedelta(seconds=7),
    )
