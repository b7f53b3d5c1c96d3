import pytest
from support.makers.wire_examples import Json, encoded

from trimtab.api.kinds.discovery import decode_scalable, decode_versions
from trimtab.api.wire.codec import DecodeError


@pytest.mark.parametrize(
    ("group", "versions"),
    [
        pytest.param(
            {
                "versions": [{"version": "v1beta1"}, {"version": "v1"}],
                "preferredVersion": {"version": "v1"},
            },
            ("v1", "v1beta1"),
            id="the preferred one comes first",
        ),
        pytest.param(
            {"versions": [{"version": "v2"}, {"version": "v1"}, {}]},
            ("v2", "v1"),
            id="else in their order",
        ),
        pytest.param({}, (), id="a group without any"),
    ],
)
def test_a_group_tells_its_versions(group: Json, versions: tuple[str, ...]) -> None:
    assert decode_versions(encoded(group)) == versions


def test_only_resources_in_namespaces_with_a_scale_are_scalable() -> None:
    resources = [
        {"name": "rollouts", "kind": "Rollout", "namespaced": True},
        {"name": "rollouts/scale", "kind": "Scale", "namespaced": True},
        {"name": "rollouts/status", "kind": "Rollout", "namespaced": True},
        {"name": "reports", "kind": "Report", "namespaced": True},
        {"name": "fleets", "kind": "Fleet", "namespaced": False},
        {"name": "fleets/scale", "kind": "Scale", "namespaced": False},
        {},
    ]

    found = decode_scalable(encoded({"resources": resources}))

    assert found == {"Rollout": ("rollouts",), "Report": (), "Fleet": (), "": ()}


def test_a_version_without_resources_has_nothing_to_scale() -> None:
    assert decode_scalable(encoded({})) == {}


def test_discovery_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(DecodeError, match="resources"):
        decode_scalable(encoded({"resources": 7}))
