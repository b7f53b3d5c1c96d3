"""One view of the cluster for several components."""

from trimtab.cluster.live.cluster import Scope, merge_scopes


def test_several_components_see_together_what_any_of_them_sees() -> None:
    merged = merge_scopes(
        [
            Scope("here", pods=False, nodes=True, pending_pods=False, kinds=("Job", "Deployment")),
            Scope("here", checkpoints=False, pods=False, leases=True, kinds=("Deployment", "Foo")),
        ]
    )

    assert merged == Scope(
        "here", pods=False, nodes=True, leases=True, kinds=("Job", "Deployment", "Foo")
    )


def test_one_component_alone_sees_what_it_has_to() -> None:
    scope = Scope(pods=False, quotas=True, kinds=("Job",))

    assert merge_scopes([scope]) == scope
