import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW
from support.makers.wire_examples import LEASE, encoded

from trimtab.api.kinds.leases import Lease, decode_lease, encode_lease
from trimtab.api.wire.codec import DecodeError

MOMENTS = st.none() | st.datetimes(timezones=st.just(UTC))
LEASES = st.builds(
    Lease,
    namespace=st.text(max_size=5),
    name=st.text(max_size=5),
    resource_version=st.text(max_size=5),
    holder=st.text(max_size=5),
    duration=st.none() | st.integers(1, 2**31 - 1).map(lambda count: timedelta(seconds=count)),
    acquired_at=MOMENTS,
    renewed_at=MOMENTS,
    transitions=st.none() | st.integers(0, 2**31 - 1),
)


def test_holder_and_times_of_a_lease_are_decoded() -> None:
    metadata = {**LEASE["metadata"], "creationTimestamp": "2026-07-01T00:00:00Z"}

    assert decode_lease(encoded({**LEASE, "metadata": metadata})) == Lease(
        namespace="kube-system",
        name="lock",
        resource_version="9",
        created_at=datetime(2026, 7, 1, tzinfo=UTC),
        holder="me",
        duration=timedelta(seconds=15),
        acquired_at=datetime(2026, 8, 1, 0, 0, 0, 1, tzinfo=UTC),
        renewed_at=datetime(2026, 8, 1, 0, 0, 10, 123456, tzinfo=UTC),
        transitions=2,
    )


def test_a_lease_is_written_as_it_was_read() -> None:
    assert json.loads(encode_lease(decode_lease(encoded(LEASE)))) == LEASE


def test_a_lease_that_is_created_has_no_version_and_no_renewal() -> None:
    lease = Lease("kube-system", "lock", holder="me", duration=timedelta(seconds=10))

    assert json.loads(encode_lease(lease)) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "lock", "namespace": "kube-system"},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 10},
    }


def test_a_renewal_is_written_in_microseconds() -> None:
    lease = Lease("kube-system", "lock", renewed_at=NOW)

    assert json.loads(encode_lease(lease))["spec"]["renewTime"] == "2026-08-22T12:00:00.000000Z"


@given(LEASES)
def test_a_written_lease_is_read_back_unchanged(lease: Lease) -> None:
    assert decode_lease(encode_lease(lease)) == lease


def test_a_lease_that_cannot_be_read_names_the_field() -> None:
    with pytest.raises(DecodeError, match=r"spec\.renewTime"):
        decode_lease(encoded({"spec": {"renewTime": "soon"}}))
