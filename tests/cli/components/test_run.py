"""`trimtab run` as it is called, and components that share a process."""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
import structlog
from support.fakes.clocks import run_virtually

from trimtab.cli import main
from trimtab.cli.components.run import choose_address
from trimtab.cli.flags import run
from trimtab.cli.flags import start as starting
from trimtab.cli.flags.common import CommonFlags, LogFlags
from trimtab.cli.flags.run import RunFlags
from trimtab.cli.runtime import logs
from trimtab.cli.runtime.component import RunningComponent, Team
from trimtab.cli.runtime.health import Heartbeat
from trimtab.cli.runtime.process import Runnable
from trimtab.core.model.hpa import HpaConflict

# The command sets up logs for its own process.
pytestmark = pytest.mark.usefixtures("told")


@pytest.mark.parametrize(
    ("flag", "named"),
    [
        pytest.param("--recommender-interval=0s", "--recommender-interval", id="of one component"),
        pytest.param("--eviction-tolerance=2", "--eviction-tolerance", id="of another one"),
        pytest.param("--update-worker-count=0", "--update-worker-count", id="of several"),
        pytest.param("--address=here", "--address", id="no address"),
        pytest.param("--pause=perhaps", "--pause", id="neither yes nor no"),
        pytest.param("--hpa-conflict=fight", "--hpa-conflict", id="none of the choices"),
        pytest.param("everything", "everything", id="no flag at all"),
    ],
)
def test_a_value_that_makes_no_sense_is_one_line_and_code_2(
    flag: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main.main(["run", flag])

    output = capsys.readouterr()
    assert (code, output.out) == (2, "")
    assert re.fullmatch(r"trimtab: [^\n]+\n", output.err)
    assert named in output.err


def test_without_a_cluster_it_says_how_to_see_it_at_work_and_ends_with_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main.main(["run", f"--kubeconfig={tmp_path}/none", "--no-admission"])

    start, last = capsys.readouterr().err.splitlines()
    assert (code, json.loads(start)["component"]) == (1, "run")
    assert last.startswith(f"trimtab: no way to a cluster: {tmp_path}/none: ")
    assert last.endswith("trimtab demo")


@pytest.mark.parametrize(
    "flag", ["--workers", "--leader-elect-resource-name", "--strict-flags", "--frobnicate"]
)
def test_a_flag_that_only_a_component_alone_has_is_refused_like_any_unknown_one(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main.main(["run", f"--kubeconfig={tmp_path}/none", "--no-admission", f"{flag}=2"])

    assert code == 2
    assert capsys.readouterr().err.startswith(f"trimtab: flag {flag} is unknown")


@pytest.mark.parametrize(
    ("flags", "surroundings", "warnings"),
    [
        pytest.param([], {}, 1, id="beside a kubeconfig there is no Service"),
        pytest.param([], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, 0, id="in a pod there is"),
        pytest.param(["--register-by-url"], {}, 0, id="a URL needs no Service"),
        pytest.param(["--register-webhook=false"], {}, 0, id="somebody else has registered it"),
    ],
)
def test_admission_is_left_out_with_a_warning_where_nobody_could_reach_it(
    flags: list[str],
    surroundings: Mapping[str, str],
    warnings: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    for name, value in surroundings.items():
        monkeypatch.setenv(name, value)
    main.main(["run", f"--kubeconfig={tmp_path}/none", "--port=0", *flags])

    assert capsys.readouterr().err.count("or pass --no-admission") == warnings


def test_every_flag_of_a_component_is_one_of_run_by_its_own_name() -> None:
    alone = starting.list_flags(
        *(
            parent()
            for flags in (
                run.RecommenderFlags,
                run.UpdaterFlags,
                run.AdmissionFlags,
                run.RolesFlags,
            )
            for parent in flags.__bases__
        )
    )
    together = starting.list_flags(RunFlags())

    assert alone.keys() <= together.keys()
    usual = starting.list_flags(CommonFlags())
    assert not together.keys() & usual.keys()
    kept = alone.keys() - {"address"}
    assert {name: together[name] for name in kept} == {name: alone[name] for name in kept}


def test_what_is_said_once_holds_for_every_component_that_has_the_flag() -> None:
    usual = RunFlags()
    care = replace(usual.updater.care, pause=True, cap_to_largest_node=False)
    loop = replace(usual.recommender.loop, update_worker_count=3, hpa_conflict=HpaConflict.IGNORE)
    told = run.share(
        replace(
            usual,
            recommender=replace(usual.recommender, loop=loop),
            updater=replace(usual.updater, care=care),
        )
    )

    assert told.roles.pause
    assert not told.admission.care.cap_to_largest_node
    assert told.updater.care.update_worker_count == 3
    assert told.updater.care.hpa_conflict is HpaConflict.IGNORE
    assert told.admission.care.hpa_conflict is HpaConflict.IGNORE
    assert run.share(usual) == usual


class Worker:
    """A component that works until it breaks or is told to end, and then saves."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.story: list[str] = []
        self.breaks = asyncio.Event()
        self.flaws: list[str] = []

    async def _act(self) -> None:
        structlog.stdlib.get_logger().info("at work", worker=self.name)
        self.story.append("acts")
        await self.breaks.wait()
        raise ValueError("broken")

    async def _save(self) -> None:
        await asyncio.sleep(3)
        self.story.append("saved")

    def component(self) -> RunningComponent:
        beat = Heartbeat(lambda: timedelta(hours=1), timedelta(minutes=1))
        duty = Runnable(self._act, self._save)
        return RunningComponent(View(), duty, beat, None, list_reasons=lambda: self.flaws)  # type: ignore[arg-type]


class View:
    """A cluster of which everything is seen."""

    def age(self) -> timedelta:
        return timedelta()

    def problems(self) -> Mapping[str, Exception]:
        return {"/somewhere": ValueError("far away")}

    def shortcomings(self) -> Mapping[str, Exception]:
        return {"/nodes": ValueError("hidden")}


def a_team(*workers: Worker) -> Team:
    return Team({each.name: each.component() for each in workers})


def test_all_components_save_before_the_process_ends() -> None:
    async def scenario() -> list[list[str]]:
        workers = [Worker("one"), Worker("other")]
        stop = asyncio.Event()
        serving = asyncio.create_task(a_team(*workers).serve(stop))
        await asyncio.sleep(1)
        stop.set()
        await serving
        return [each.story for each in workers]

    assert run_virtually(scenario()) == [["acts", "saved"], ["acts", "saved"]]


def test_who_is_needed_until_others_have_ended_goes_on_until_then() -> None:
    async def scenario() -> tuple[list[str], list[str]]:
        actor, server = Worker("updater"), Worker("webhook")
        team = Team(
            {"updater": actor.component(), "webhook": replace(server.component(), ends_last=True)}
        )
        stop = asyncio.Event()
        serving = asyncio.create_task(team.serve(stop))
        await asyncio.sleep(1)
        stop.set()
        await asyncio.sleep(4)
        early = [*server.story]
        await serving
        return early, server.story

    assert run_virtually(scenario()) == (["acts"], ["acts", "saved"])


def test_one_broken_component_ends_the_others_well_and_the_process_with_an_error() -> None:
    async def scenario() -> list[list[str]]:
        workers = [Worker("one"), Worker("other")]
        serving = asyncio.create_task(a_team(*workers).serve(asyncio.Event()))
        await asyncio.sleep(1)
        workers[0].breaks.set()
        with pytest.raises(ExceptionGroup, match="components broke"):
            await serving
        return [each.story for each in workers]

    assert run_virtually(scenario()) == [["acts"], ["acts", "saved"]]


def test_each_line_of_the_log_says_which_component_it_is_from(told: StringIO) -> None:
    logs.set_up(LogFlags(), told)

    async def scenario() -> None:
        stop = asyncio.Event()
        serving = asyncio.create_task(a_team(Worker("one"), Worker("other")).serve(stop))
        await asyncio.sleep(1)
        stop.set()
        await serving

    run_virtually(scenario())

    lines = [json.loads(line) for line in told.getvalue().splitlines()]
    assert all(line["component"] in ("one", "other") for line in lines)
    at_work = [line for line in lines if line["event"] == "at work"]
    assert [line["component"] for line in at_work] == [line["worker"] for line in at_work]


def test_the_team_is_ready_when_all_are_and_tells_once_what_is_the_same_for_all() -> None:
    one, other = Worker("one"), Worker("other")
    team = a_team(one, other)
    assert team.obstacles() == []

    other.flaws = ["the webhook is not open"]

    assert team.obstacles() == ["the webhook is not open"]
    assert team.shortcomings() == ["/nodes: hidden"]
    assert team.probes.readiness() == team.obstacles()
    assert team.probes.health() == []


@pytest.mark.parametrize(
    ("given", "environment", "address"),
    [
        pytest.param("", {}, "127.0.0.1:8942", id="beside a kubeconfig: this machine alone"),
        pytest.param("", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, ":8942", id="in a pod"),
        pytest.param(":80", {}, ":80", id="as the flag says"),
    ],
)
def test_pages_are_shown_to_this_machine_alone_unless_a_kubelet_needs_them(
    given: str, environment: dict[str, str], address: str
) -> None:
    assert choose_address(given, environment) == address
