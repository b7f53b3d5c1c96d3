"""A namespace of one smoke test: workloads, autoscalers, and what is seen of them."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from smoke.crews import Components
from support.stages.components import SLOW_SECONDS, Json
from support.stages.updater import AUTOSCALING, MERGE, Stage, conditions

from rig import waiting
from rig.controlplane import ControlPlane
from trimtab.core.model.quantities import parse_amount
from trimtab.core.model.resources import Resource

BY_HAND = [{"name": "by-hand"}]
"""A recommender that does not run: the test writes what it would recommend."""
MARK = "vpaCpuStartupBoost/c0"
POLL_SECONDS = 0.5
_WATCH_SECONDS = 3
"""So long the components may take to see a new object."""


class Scene(Stage):
    """A namespace of one test, and the components that work in it."""

    def __init__(self, plane: ControlPlane, namespace: str, components: Components) -> None:
        super().__init__(plane, namespace)
        self.components = components
        self._is_unseen = False

    def autoscale(
        self,
        *targets: Json,
        name: str = "web",
        kind: str = "Deployment",
        mode: str = "Recreate",
        requirements: list[Json] | None = None,
        **spec: Any,
    ) -> None:
        """Create an autoscaler with a recommendation that no recommender overwrites."""
        super().autoscale(
            *targets,
            name=name,
            kind=kind,
            mode=mode,
            requirements=requirements,
            **{"recommenders": BY_HAND, **spec},
        )
        self._is_unseen = True

    def create(
        self, template: Json, *, name: str = "web", kind: str = "Deployment", replicas: int = 2
    ) -> None:
        """Create a workload when the components have seen the autoscalers before it."""
        if self._is_unseen:
            self.let_watches_catch_up()
        super().create(template, name=name, kind=kind, replicas=replicas)

    def learn(self, name: str = "web", *, mode: str = "InPlaceOrRecreate") -> str:
        """Create an autoscaler that the real recommender serves; return its path."""
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        spec = {"targetRef": target, "updatePolicy": {"updateMode": mode}}
        self._create(self._autoscalers, AUTOSCALING, name, spec, kind="VerticalPodAutoscaler")
        return f"{self._autoscalers}/{name}"

    def let_watches_catch_up(self) -> None:
        """Wait until the components have seen what was created last."""
        time.sleep(_WATCH_SECONDS)
        self._is_unseen = False

    def wait_for_pods(
        self,
        holds: Callable[[list[Json]], object],
        name: str = "web",
        *,
        patience_seconds: float = SLOW_SECONDS,
    ) -> list[Json]:
        """Return the pods of a workload as soon as they are as wanted."""
        deadline = time.monotonic() + patience_seconds
        while not holds(pods := self.pods(name)):
            late = time.monotonic() > deadline
            assert not late, f"after {patience_seconds:.0f} s:\n{describe_pods(pods)}"
            time.sleep(POLL_SECONDS)
        return pods

    def watch(
        self, seconds: float, holds: Callable[[list[Json]], object], *names: str
    ) -> list[Json]:
        """Assert that pods of the workloads stay as wanted for so long; return the last ones."""
        started = time.monotonic()
        while True:
            pods = [pod for name in names or ("web",) for pod in self.pods(name)]
            passed = time.monotonic() - started
            assert holds(pods), f"after {passed:.0f} s:\n{describe_pods(pods)}"
            if passed > seconds:
                return pods
            time.sleep(2 * POLL_SECONDS)

    def watch_uids(self, seconds: float, *names: str) -> list[Json]:
        """Assert that no pod of the workloads is replaced for so long."""
        before = {uid for name in names or ("web",) for uid in self.uids(name)}
        assert before
        return self.watch(seconds, lambda pods: uids_of(pods) == before, *names)

    def read(self, path: str) -> Json:
        """Return what is at a path."""
        status, body = self.plane.request("GET", path)
        assert status == 200, body
        found: Json = json.loads(body)
        return found

    def pod_changes_since(self, resource_version: int) -> list[Json]:
        """Return all changes of pods since a version in their order, as a watch shows them."""
        path = f"{self.path('pods', 'v1')}?watch=1&timeoutSeconds=1"
        status, body = self.plane.request("GET", f"{path}&resourceVersion={resource_version}")
        assert status == 200, body
        return [json.loads(line) for line in body.splitlines()]

    def patch(self, path: str, patch: Json) -> None:
        """Change an object by a merge patch."""
        status, body = self.plane.request("PATCH", path, json.dumps(patch).encode(), MERGE)
        assert status == 200, body

    def path(self, resource: str, version: str = "apps/v1") -> str:
        """Return the path of the namespace's objects of a resource."""
        root = "/api/v1" if version == "v1" else f"/apis/{version}"
        return f"{root}/namespaces/{self.namespace}/{resource}"

    def create_object(self, resource: str, manifest: Json) -> Json:
        """Create an object in the namespace."""
        return self.plane.create(self.path(resource, manifest["apiVersion"]), manifest)

    def event_messages(self) -> list[str]:
        """Return the messages of all events about pods and autoscalers."""
        found = self.read(self.path("events", "v1"))["items"]
        kinds = ("Pod", "VerticalPodAutoscaler")
        return [
            f"{each['reason']}: {each.get('message', '')}"
            for each in found
            if each["involvedObject"]["kind"] in kinds
            and "vpa" in json.dumps(each.get("source", {})) + each.get("reportingComponent", "")
        ]

    def condition_messages(self, name: str = "web") -> list[str]:
        """Return the conditions of an autoscaler that are true, in words."""
        found = conditions(self.read(f"{self._autoscalers}/{name}"))
        return [
            f"{each['type']} {each.get('reason', '')}: {each.get('message', '')}"
            for each in found.values()
            if each["status"] == "True"
        ]

    def wait_for_words(self, read: Callable[[], list[str]], *words: str) -> None:
        """Wait until one of the messages has all of the words."""
        waiting.wait_for(
            read,
            lambda said: any(all(word in each for word in words) for each in said),
            patience_seconds=30,
            poll_seconds=POLL_SECONDS,
        )

    def wait_for_holds(self, reason: str, count: int) -> None:
        """Wait until an updater plans to leave so many pods as they are, for one reason."""
        updaters = [run for name, run in self.components.runs.items() if "updater" in name]

        def read() -> list[str]:
            pages = [run.ask(f"/plan?namespace={self.namespace}")[1] for run in updaters]
            entries = [each for page in filter(None, pages) for each in json.loads(page)["pods"]]
            return [each.get("reason") or each["action"] for each in entries]

        waiting.wait_for(
            read, [reason].__mul__(count).__eq__, patience_seconds=30, poll_seconds=POLL_SECONDS
        )

    def play_crash_loop(self, pod: Json, name: str = "") -> None:
        """Report what a kubelet does of a pod whose containers, or one, are OOM-killed."""
        statuses = [
            {
                **each,
                "ready": False,
                "restartCount": 4,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": _a_kill()},
            }
            if name in ("", each["name"])
            else each
            for each in pod["status"]["containerStatuses"]
        ]
        self._report(pod, statuses, readiness="False")

    def play_dying_sidecar(self, pod: Json, name: str, *, phase: str = "Pending") -> None:
        """Report what a kubelet does of a pod whose sidecar is OOM-killed again and again."""
        self.play_unreadiness(pod)
        dying = {
            "name": name,
            "image": "none",
            "imageID": "",
            "ready": False,
            "restartCount": 4,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": _a_kill()},
        }
        status = {"phase": phase, "initContainerStatuses": [dying]}
        self.patch(f"{self._pods}/{pod['metadata']['name']}/status", {"status": status})

    def play_recovery(self, pod: Json) -> None:
        """Report what a kubelet does of a pod that has become ready."""
        statuses = [{**each, "ready": True} for each in pod["status"]["containerStatuses"]]
        self._report(pod, statuses, readiness="True")

    def play_unreadiness(self, pod: Json) -> None:
        """Report what a kubelet does of a pod that runs and is not ready any more."""
        statuses = [{**each, "ready": False} for each in pod["status"]["containerStatuses"]]
        self._report(pod, statuses, readiness="False")

    def _report(self, pod: Json, statuses: list[Json], *, readiness: str) -> None:
        since = {"status": readiness, "lastTransitionTime": _format_time(time.time())}
        told = [
            each | since if each["type"] in ("Ready", "ContainersReady") else each
            for each in pod["status"]["conditions"]
        ]
        status = {"containerStatuses": statuses, "conditions": told}
        self.patch(f"{self._pods}/{pod['metadata']['name']}/status", {"status": status})

    def describe(self) -> str:
        """Return what there is in the namespace, for the report of a failure."""
        pods = self.read(self.path("pods", "v1"))["items"]
        scalers = self.read(self._autoscalers)["items"]
        events = self.read(self.path("events", "v1"))["items"]
        return "\n".join(
            [
                "pods:",
                describe_pods(pods),
                "autoscalers:",
                *(json.dumps([each["spec"], each.get("status")]) for each in scalers),
                "events:",
                *(
                    f"{each.get('lastTimestamp') or each.get('eventTime')} {each['reason']} "
                    f"{each['involvedObject']['kind']}/{each['involvedObject']['name']} "
                    f"x{each.get('count', 1)}: {each.get('message', '')}"
                    for each in events
                ),
            ]
        )

    def clear(self) -> None:
        """Delete the autoscalers, so that the components have less to do for other tests."""
        self.plane.request("DELETE", self._autoscalers)


@dataclass(slots=True)
class Path:
    """One smoke test that runs, or has run, in a thread of its own."""

    scene: Scene
    said: str = ""
    """Contents of its namespace when it failed."""
    seconds: float = field(default=0.0)


def uids_of(pods: list[Json]) -> set[str]:
    """Return the uids of pods."""
    return {pod["metadata"]["uid"] for pod in pods}


def is_marked(pod: Json, mark: str = MARK) -> bool:
    """Return true for a pod whose container is marked as boosted."""
    return mark in pod["metadata"].get("annotations", {})


def is_ready(pod: Json) -> bool:
    """Return true for a pod that is ready."""
    told = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in told)


def spec_requests(pod: Json, container: int = 0) -> Json:
    """Return what a container of the pod asks for."""
    found: Json = pod["spec"]["containers"][container]["resources"].get("requests", {})
    return found


def millicores(pod: Json, container: int = 0) -> int:
    """Return the CPU that a container of the pod asks for."""
    return parse_amount(Resource.CPU, spec_requests(pod, container).get("cpu", "0"))


def describe_pods(pods: list[Json]) -> str:
    """Return a few lines for each pod."""
    return "\n".join(map(_describe_pod, pods)) or "(none)"


def _describe_pod(pod: Json) -> str:
    metadata, status = pod["metadata"], pod["status"]
    asked = [each["resources"] for each in pod["spec"]["containers"]]
    has = [each.get("resources") for each in status.get("containerStatuses", [])]
    told = {
        each["type"]: " ".join(
            filter(None, (each["status"], each.get("reason"), each.get("message")))
        )
        for each in status.get("conditions", [])
        if each["status"] != "True" or each["type"].startswith("PodResize")
    }
    return "\n  ".join(
        [
            f"{metadata['name']} {metadata['uid']} {status.get('phase')}",
            f"since {metadata['creationTimestamp']} deleted {metadata.get('deletionTimestamp')}",
            f"asks {json.dumps(asked)} has {json.dumps(has)}",
            f"annotations {json.dumps(metadata.get('annotations', {}))}",
            f"conditions {json.dumps(told)}",
        ]
    )


def _a_kill() -> Json:
    """Return how a container ended that was OOM-killed a moment after its start."""
    now = time.time()
    return {
        "exitCode": 137,
        "reason": "OOMKilled",
        "startedAt": _format_time(now - 8),
        "finishedAt": _format_time(now - 3),
    }


def _format_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
