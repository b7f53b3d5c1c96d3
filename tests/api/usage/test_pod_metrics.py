import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW
from support.makers.wire_examples import Json, encoded

from trimtab.api.usage.pod_metrics import UsageColumns, decode_pod_metrics
from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.times import ZERO_TIME, format_time
from trimtab.core.model import quantities
from trimtab.core.model.resources import Resource


def a_container(name: str = "app", **usage: Json) -> Json:
    return {"name": name, "usage": usage}


def of_a_pod(*containers: Json, name: str = "web-0", timestamp: str | None = None) -> Json:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "timestamp": format_time(NOW) if timestamp is None else timestamp,
        "containers": list(containers),
    }


def columns_of(*pods: Json) -> UsageColumns:
    columns, unreadable = decode_pod_metrics(encoded({"items": list(pods)}))
    assert unreadable == ()
    return columns


def test_readings_of_all_containers_stand_side_by_side_in_columns() -> None:
    columns = columns_of(
        of_a_pod(a_container(cpu="250m", memory="1Mi"), a_container("log", cpu="1n", memory="1Ki")),
        of_a_pod(a_container(cpu="2", memory="3"), name="web-1"),
    )

    now = NOW.timestamp()
    assert columns == UsageColumns(
        namespaces=("default",) * 3,
        pods=("web-0", "web-0", "web-1"),
        containers=("app", "log", "app"),
        times=(now, now, now),
        cpu_millicores=(250, 1, 2000),
        memory_bytes=(1048576, 1024, 3),
        has_cpu=(True,) * 3,
        has_memory=(True,) * 3,
    )


def test_a_resource_that_is_not_reported_is_zero_and_said_to_be_missing() -> None:
    columns = columns_of(of_a_pod(a_container(memory="1Ki"), a_container(cpu="1"), {"name": "x"}))

    assert columns.cpu_millicores == (0, 1000, 0)
    assert columns.has_cpu == (False, True, False)
    assert columns.memory_bytes == (1024, 0, 0)
    assert columns.has_memory == (True, False, False)


@pytest.mark.parametrize("items", [None, [], [of_a_pod()]])
def test_no_readings_give_empty_columns(items: Json) -> None:
    assert decode_pod_metrics(encoded({"items": items})) == (UsageColumns(), ())


def test_a_reading_without_a_time_is_as_old_as_can_be() -> None:
    columns = columns_of({"containers": [a_container()]})

    assert columns.times == (ZERO_TIME.timestamp(),)


@given(
    st.integers(0, 10**20),
    st.sampled_from(["", "n", "u", "m", "k", "Ki", "Mi", "Gi", "e3", ".5", "nn", " "]),
    st.sampled_from(["", "-", "+"]),
)
def test_usage_is_the_same_number_that_any_quantity_would_be(
    number: int, suffix: str, sign: str
) -> None:
    text = f"{sign}{number}{suffix}"
    pod = of_a_pod(a_container(cpu=text, memory=text))
    columns, unreadable = decode_pod_metrics(encoded({"items": [pod]}))
    try:
        cpu = quantities.parse_amount(Resource.CPU, text.strip())
        memory = quantities.parse_amount(Resource.MEMORY, text.strip())
    except quantities.QuantityError:
        assert unreadable
    else:
        assert columns.cpu_millicores == (cpu,)
        assert columns.memory_bytes == (memory,)


def test_usage_as_a_json_number_is_exact() -> None:
    assert columns_of(of_a_pod(a_container(cpu=0.1, memory=7))).cpu_millicores == (100,)


def test_f28_one_pod_with_bad_metrics_does_not_hide_the_others() -> None:
    bad = of_a_pod(a_container(cpu="1"), a_container("log", memory="lots"), name="bad")
    data = encoded({"items": [bad, of_a_pod(a_container()), of_a_pod(timestamp="?")]})

    columns, unreadable = decode_pod_metrics(data)

    assert columns.pods == ("web-0",)
    assert [(item.name, item.error.path) for item in unreadable] == [
        ("bad", "containers[1].usage[memory]"),
        ("web-0", "timestamp"),
    ]


def test_an_answer_that_is_no_list_is_an_error() -> None:
    with pytest.raises(DecodeError):
        decode_pod_metrics(b'"Service Unavailable"')
