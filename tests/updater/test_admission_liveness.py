from dataclasses import replace
from datetime import timedelta

import pytest
from support.fakes.clocks import StillClock
from support.makers.records import NOW, hours, minutes

from trimtab.api.kinds.leases import Lease
from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import ForbiddenError
from trimtab.updater.admission_liveness import AdmissionLiveness
from trimtab.updater.reports import AdmissionAbsence
from trimtab.updater.settings import UpdaterSettings

LEASE = Lease("kube-system", "vpa-admission-controller")
SETTINGS = UpdaterSettings()


class Leases:
    """A server with one lease."""

    def __init__(self, lease: Lease | None) -> None:
        self.lease = lease
        self.fails = False

    async def fetch_lease(self, namespace: str, name: str) -> Lease | None:
        assert (namespace, name) == (LEASE.namespace, LEASE.name)
        if self.fails:
            raise ForbiddenError("GET lease", Status(code=403))
        return self.lease


def watching(leases: Leases, clock: StillClock) -> AdmissionLiveness:
    return AdmissionLiveness(leases, SETTINGS, clock)


@pytest.mark.parametrize(
    ("lease", "is_alive"),
    [
        pytest.param(None, False, id="there is none"),
        pytest.param(LEASE, False, id="it says nothing"),
        pytest.param(replace(LEASE, created_at=NOW - minutes(0.5)), True, id="just made"),
        pytest.param(replace(LEASE, renewed_at=NOW - minutes(0.5)), True, id="just renewed"),
        pytest.param(replace(LEASE, renewed_at=NOW - minutes(2)), False, id="long not renewed"),
    ],
)
async def test_at_the_first_look_the_times_in_the_lease_count(
    lease: Lease | None, *, is_alive: bool
) -> None:
    assert await watching(Leases(lease), StillClock()).is_alive() is is_alive


@pytest.mark.parametrize("skew", [-hours(1), timedelta(), hours(1)])
async def test_a_clock_that_is_off_neither_hides_nor_feigns_renewals(skew: timedelta) -> None:
    clock, leases = StillClock(), Leases(replace(LEASE, renewed_at=NOW + skew))
    liveness = watching(leases, clock)
    await liveness.is_alive()
    seen = []
    for renews in (True, True, False, False, True):
        clock.moment += minutes(0.9)
        if renews:
            leases.lease = replace(LEASE, renewed_at=clock.moment + skew)
        seen.append(await liveness.is_alive())

    assert seen == [True, True, True, False, True]


async def test_a_renewal_that_nobody_was_there_to_see_may_be_long_ago() -> None:
    clock, leases = StillClock(), Leases(replace(LEASE, renewed_at=NOW))
    liveness = watching(leases, clock)
    seen = [await liveness.is_alive()]
    leases.fails = True
    clock.moment += minutes(1)
    seen.append(await liveness.is_alive())
    leases.fails, leases.lease = False, replace(LEASE, renewed_at=clock.moment)
    clock.moment += minutes(10)
    seen.append(await liveness.is_alive())
    leases.lease = replace(LEASE, renewed_at=clock.moment)
    clock.moment += minutes(1)
    seen.append(await liveness.is_alive())

    assert seen == [True, False, False, True]


async def test_no_answer_is_no_sign_of_life() -> None:
    leases = Leases(replace(LEASE, renewed_at=NOW))
    leases.fails = True

    assert not await watching(leases, StillClock()).is_alive()


@pytest.mark.parametrize(
    ("lease", "fails", "absence"),
    [
        pytest.param(None, False, AdmissionAbsence.UNREAD, id="there is no lease"),
        pytest.param(LEASE, True, AdmissionAbsence.UNREAD, id="it cannot be read"),
        pytest.param(
            replace(LEASE, renewed_at=NOW - minutes(2)), False, AdmissionAbsence.STALE, id="old"
        ),
        pytest.param(replace(LEASE, renewed_at=NOW), False, None, id="none"),
    ],
)
async def test_an_absence_has_the_reason_of_the_original(
    lease: Lease | None, absence: AdmissionAbsence | None, *, fails: bool
) -> None:
    leases = Leases(lease)
    leases.fails = fails

    assert await watching(leases, StillClock()).find_absence() is absence


async def test_who_does_not_care_does_not_ask() -> None:
    leases = Leases(None)
    leases.fails = True
    settings = replace(SETTINGS, uses_admission_status=False)

    assert await AdmissionLiveness(leases, settings, StillClock()).is_alive()


async def test_an_answer_is_good_for_a_few_seconds() -> None:
    clock, leases = StillClock(), Leases(replace(LEASE, renewed_at=NOW))
    liveness = watching(leases, clock)
    first = await liveness.is_alive()
    leases.lease = None
    clock.moment += timedelta(seconds=4)
    soon = await liveness.is_alive()
    clock.moment += timedelta(seconds=4)
    later = await liveness.is_alive()

    assert (first, soon, later) == (True, True, False)
