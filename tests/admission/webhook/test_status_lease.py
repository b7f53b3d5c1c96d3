"""The status lease: renewed while the test passes, left alone while it does not."""

import asyncio
from datetime import timedelta

import pytest
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import LEASE, UpdaterCluster
from support.makers.records import NOW

from trimtab.admission.settings import AdmissionSettings
from trimtab.admission.webhook.status_lease import StatusLease
from trimtab.api.kinds.leases import Lease
from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import ConflictError, ForbiddenError
from trimtab.core.model.validation import SettingsError


class SelfTest:
    def __init__(self) -> None:
        self.passes = True

    async def __call__(self) -> bool:
        return self.passes


def a_lease(cluster: UpdaterCluster, test: SelfTest) -> StatusLease:
    return StatusLease(
        cluster, AdmissionSettings(), holder="pod-a", clock=cluster.clock, passes_test=test
    )


def test_the_lease_is_made_where_there_is_none_and_renewed_every_ten_seconds() -> None:
    async def scene() -> list[Lease]:
        cluster = UpdaterCluster()
        cluster.latency = timedelta()
        cluster.leases.clear()
        running = asyncio.create_task(a_lease(cluster, SelfTest()).run())
        seen = []
        for _ in range(3):
            await asyncio.sleep(10.5)
            seen.append(cluster.leases[LEASE])
        running.cancel()
        return seen

    seen = run_virtually(scene())

    assert {lease.holder for lease in seen} == {"pod-a"}
    assert seen[0].duration == timedelta(seconds=10)
    assert [lease.renewed_at for lease in seen] == [
        NOW + timedelta(seconds=seconds) for seconds in (10, 20, 30)
    ]


def test_the_lease_grows_old_while_the_test_does_not_pass() -> None:
    async def scene() -> None:
        cluster, test = UpdaterCluster(), SelfTest()
        lease = a_lease(cluster, test)
        test.passes = False
        await asyncio.sleep(30)
        renewed = await lease.renew()

        assert not renewed
        assert lease.failed_tests == 1
        assert cluster.leases[LEASE].renewed_at == NOW

    run_virtually(scene())


@pytest.mark.parametrize(
    ("error", "is_renewed"),
    [
        pytest.param(ConflictError("PUT", Status(code=409)), True, id="another was faster"),
        pytest.param(ForbiddenError("PUT", Status(code=403)), False, id="a right is missing"),
    ],
)
def test_only_a_write_that_nobody_made_is_a_problem(
    error: ConflictError | ForbiddenError, *, is_renewed: bool
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        lease = a_lease(cluster, SelfTest())
        cluster.refusals["write_lease"] = [error]
        renewed = await lease.renew()

        assert renewed is is_renewed
        assert (lease.problem is None) is is_renewed

    run_virtually(scene())


def test_an_interval_of_nothing_is_refused() -> None:
    with pytest.raises(SettingsError):
        AdmissionSettings(status_lease_interval=timedelta())
