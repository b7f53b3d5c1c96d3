import pytest
from support.makers.records import MIB
from support.makers.wire_examples import QUOTA, encoded

from trimtab.api.kinds.limits import decode_quota
from trimtab.api.wire.codec import DecodeError
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.quotas import Quota, QuotaClaim, QuotaScope, Side

CPU = QuotaClaim(Side.REQUESTS, Resource.CPU)


def left(hard: dict[str, str], used: dict[str, str], **spec: object) -> object:
    return decode_quota(encoded({"spec": spec, "status": {"hard": hard, "used": used}})).left


def test_a_quota_is_decoded_with_what_is_left_of_it() -> None:
    limits = QuotaClaim(Side.LIMITS, Resource.MEMORY)

    assert decode_quota(encoded(QUOTA)) == Quota(
        "shop",
        "team",
        {CPU: 500, limits: -1024 * MIB},
        used={CPU: 3500, limits: 9 * 1024 * MIB},
    )


@pytest.mark.parametrize(
    ("hard", "used", "expected"),
    [
        pytest.param({"cpu": "2"}, {"cpu": "500m"}, {CPU: 1500}, id="the short name of requests"),
        pytest.param(
            {"cpu": "2", "requests.cpu": "1"},
            {"cpu": "500m", "requests.cpu": "500m"},
            {CPU: 500},
            id="of two names the stricter",
        ),
        pytest.param({"requests.cpu": "2"}, {}, {}, id="not counted yet"),
        pytest.param({"pods": "2"}, {"pods": "2"}, {}, id="nothing about amounts"),
        pytest.param(
            {"memory": "1.2Gi"},
            {"memory": "0.3Gi"},
            {QuotaClaim(Side.REQUESTS, Resource.MEMORY): 1288490188 - 322122548},
            id="never more than there is",
        ),
    ],
)
def test_only_what_is_counted_of_cpu_and_memory_is_left(
    hard: dict[str, str], used: dict[str, str], expected: object
) -> None:
    assert left(hard, used) == expected


def test_scopes_say_for_which_pods_a_quota_is() -> None:
    expressions = [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]},
        {"scopeName": "Terminating", "operator": "Exists"},
    ]
    spec = {"scopes": ["NotBestEffort"], "scopeSelector": {"matchExpressions": expressions}}

    assert decode_quota(encoded({"spec": spec})).scopes == (
        QuotaScope("NotBestEffort"),
        QuotaScope("PriorityClass", "In", ("high",)),
        QuotaScope("Terminating"),
    )
    assert decode_quota(encoded({"spec": {"scopes": None, "scopeSelector": None}})).scopes == ()


def test_an_amount_that_is_none_is_named_by_its_path() -> None:
    with pytest.raises(DecodeError) as caught:
        left({"cpu": "much"}, {"cpu": "2"})

    assert caught.value.path == "status.hard[cpu]"
