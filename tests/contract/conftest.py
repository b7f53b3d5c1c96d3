"""The worlds in which every test of the contract is played."""

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest
from contract import real_world, simulated_world
from contract.stage import Play

from rig import controlplane
from rig.controlplane import ControlPlane, Part
from trimtab.cluster.watch import reflector


@pytest.fixture(scope="session")
def real_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster for this suite alone: it restarts the API server and forgets its history."""
    with controlplane.running(*Part, logs=tmp_path_factory.mktemp("contract")) as plane:
        asyncio.run(real_world.prepare(plane))
        yield plane


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.e2e)])
def play(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Play:
    """What opens a world and plays a scenario in it."""
    if request.param == "simulated":
        return simulated_world.play
    # Lists of a few dozen objects come in pages too.
    monkeypatch.setattr(reflector, "PAGE_SIZE", 20)
    return partial(real_world.play, request.getfixturevalue("real_plane"))
