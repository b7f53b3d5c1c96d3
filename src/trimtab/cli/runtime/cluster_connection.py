"""Connect to a cluster as the flags say, and read the settings of the leader election."""

import socket
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import SystemRandom
from typing import Final

import structlog

from trimtab.api.kinds import discovery
from trimtab.api.wire.codec import DecodeError
from trimtab.cli.errors import NoClusterError, UsageError
from trimtab.cli.flags.common import ClusterFlags, ElectionFlags
from trimtab.cli.runtime.cluster_problems import explain_problem
from trimtab.cluster.auth.connection import find_connection
from trimtab.cluster.auth.credentials import Connection
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import ClusterError, ForbiddenError
from trimtab.cluster.http.client import Client
from trimtab.cluster.http.rate_limit import RequestBudget
from trimtab.cluster.live.leader_election import ElectionSettings
from trimtab.cluster.ports import NO_TRACES, Tracer

_LEASES: Final = "leases"

_logger: Final = structlog.stdlib.get_logger(__name__)


@asynccontextmanager
async def connected(
    flags: ClusterFlags,
    clock: RealClock,
    environment: Mapping[str, str],
    context: str = "",
    tracer: Tracer = NO_TRACES,
) -> AsyncIterator[Client]:
    """Yield a client of a cluster that has answered once; a NoClusterError if none does."""
    budget = RequestBudget(clock, rate=flags.kube_api_qps, burst=int(flags.kube_api_burst))
    connection = choose_connection(flags.kubeconfig, clock, environment, context)
    async with Client(
        connection, clock=clock, random=SystemRandom(), budget=budget, tracer=tracer
    ) as client:
        await greet(client, connection.server)
        yield client


def choose_connection(
    kubeconfig: str, clock: RealClock, environment: Mapping[str, str], context: str = ""
) -> Connection:
    """Return the connection of the kubeconfig or of this pod; a NoClusterError without one."""
    try:
        return find_connection(kubeconfig, environment=environment, clock=clock, context=context)
    except ClusterError as error:
        raise NoClusterError(explain_problem(error, "")) from error


async def greet(client: Client, server: str) -> None:
    """Ask the API server for its version once; a NoClusterError if it is not one."""
    try:
        _check_version(await client.fetch("/version"))
    except ForbiddenError:
        _logger.debug("the version of the cluster is unknown", server=server)
    except (ClusterError, DecodeError) as error:
        raise NoClusterError(explain_problem(error, server)) from error
    else:
        _logger.info("connected", server=server)


def _check_version(data: bytes) -> None:
    """Raise a DecodeError unless this is the version of an API server."""
    if not discovery.decode_git_version(data):
        raise DecodeError("gitVersion", "not there")


def election_settings(flags: ElectionFlags, lease: str) -> ElectionSettings:
    """Return the settings of the election; a UsageError if the flags are invalid."""
    if flags.leader_elect_resource_lock != _LEASES:
        lock = flags.leader_elect_resource_lock
        raise UsageError(f"--leader-elect-resource-lock: {lock!r} is not supported, only leases")
    try:
        return ElectionSettings(
            flags.leader_elect_resource_namespace,
            lease,
            f"{socket.gethostname()}_{uuid.uuid4()}",
            lease_duration=flags.leader_elect_lease_duration,
            renew_deadline=flags.leader_elect_renew_deadline,
            retry_period=flags.leader_elect_retry_period,
        )
    except ValueError as error:
        raise UsageError(f"--leader-elect: {error}") from error
