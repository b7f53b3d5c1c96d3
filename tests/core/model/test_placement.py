"""Which nodes a pod may go to."""

import pytest

from trimtab.core.model.nodes import (
    Node,
    NodeExpression,
    NodeTerm,
    Placement,
    Taint,
    Toleration,
    may_go_to,
)

LABELS = {"pool": "large", "cores": "16"}


def a_node(*taints: Taint) -> Node:
    return Node("one", labels=LABELS, taints=taints)


def affine(key: str, operator: str, *values: str) -> Placement:
    return Placement(terms=(NodeTerm((NodeExpression(key, operator, values),)),))


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        pytest.param(None, True, id="no demands"),
        pytest.param(Placement((("pool", "large"),)), True, id="a label that it has"),
        pytest.param(Placement((("pool", "small"),)), False, id="a label with another value"),
        pytest.param(Placement((("zone", "a"),)), False, id="a label that it lacks"),
        pytest.param(affine("pool", "In", "small", "large"), True, id="in"),
        pytest.param(affine("pool", "NotIn", "large"), False, id="not in"),
        pytest.param(affine("zone", "NotIn", "a"), True, id="not in, and absent"),
        pytest.param(affine("pool", "Exists"), True, id="exists"),
        pytest.param(affine("pool", "DoesNotExist"), False, id="does not exist"),
        pytest.param(affine("cores", "Gt", "8"), True, id="greater than"),
        pytest.param(affine("cores", "Gt", "16"), False, id="not greater than itself"),
        pytest.param(affine("cores", "Lt", "17"), True, id="less than"),
        pytest.param(affine("pool", "Lt", "17"), False, id="no number"),
        pytest.param(affine("zone", "Gt", "1"), False, id="no label to compare"),
        pytest.param(affine("pool", "Resembles", "x"), True, id="an operator of the future"),
        pytest.param(Placement(terms=()), False, id="no term at all"),
        pytest.param(Placement(terms=(NodeTerm(),)), False, id="a term without demands"),
        pytest.param(
            Placement(terms=(NodeTerm(), *(affine("pool", "Exists").terms or ()))),
            True,
            id="one of two terms",
        ),
        pytest.param(
            Placement(terms=(NodeTerm(fields=(NodeExpression("metadata.name", "In", ("one",)),)),)),
            True,
            id="its very name",
        ),
        pytest.param(
            Placement(terms=(NodeTerm(fields=(NodeExpression("metadata.name", "In", ("two",)),)),)),
            False,
            id="another name",
        ),
    ],
)
def test_a_pod_goes_only_to_nodes_that_meet_its_demands(
    placement: Placement | None, *, expected: bool
) -> None:
    assert may_go_to(placement, a_node()) is expected


@pytest.mark.parametrize(
    ("taint", "toleration", "expected"),
    [
        pytest.param(Taint("gpu", "yes", "NoSchedule"), None, False, id="nothing tolerates it"),
        pytest.param(Taint("gpu", "yes", "NoExecute"), None, False, id="it even drives away"),
        pytest.param(Taint("gpu", "yes", "PreferNoSchedule"), None, True, id="only a preference"),
        pytest.param(
            Taint("node.kubernetes.io/not-ready", "", "NoExecute"), None, True, id="it passes"
        ),
        pytest.param(
            Taint("gpu", "yes", "NoSchedule"), Toleration("gpu", "Exists"), True, id="any value"
        ),
        pytest.param(
            Taint("gpu", "yes", "NoSchedule"), Toleration("gpu", value="yes"), True, id="its value"
        ),
        pytest.param(
            Taint("gpu", "yes", "NoSchedule"), Toleration("gpu", value="no"), False, id="another"
        ),
        pytest.param(
            Taint("gpu", "yes", "NoSchedule"), Toleration(operator="Exists"), True, id="all taints"
        ),
        pytest.param(
            Taint("gpu", "yes", "NoExecute"),
            Toleration("gpu", "Exists", effect="NoSchedule"),
            False,
            id="only another effect",
        ),
        pytest.param(
            Taint("gpu", "yes", "NoSchedule"), Toleration("disk", "Exists"), False, id="other key"
        ),
    ],
)
def test_a_taint_keeps_away_who_does_not_tolerate_it(
    taint: Taint, toleration: Toleration | None, *, expected: bool
) -> None:
    tolerations = () if toleration is None else (toleration,)

    assert may_go_to(Placement(tolerations=tolerations), a_node(taint)) is expected
