import os
import subprocess
import time
from collections import Counter

from bench import measuring
from bench.measuring import Requests

METRICS = """\
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",group="",resource="pods",scope="cluster",verb="LIST"} 3
apiserver_request_total{code="200",group="",resource="pods",scope="resource",verb="PATCH"} 5
apiserver_request_total{code="404",group="",resource="pods",scope="resource",verb="PATCH"} 2
apiserver_request_total{code="200",group="coordination.k8s.io",resource="leases",verb="PUT"} 9
apiserver_request_total{code="0",group="",resource="pods",verb="WATCH"} 1e+00
apiserver_request_duration_seconds_count{resource="pods",verb="LIST"} 77
"""


def test_requests_are_counted_whatever_the_answer_was() -> None:
    counted = measuring.parse_requests(METRICS)

    assert counted["PATCH", "pods"] == 7
    assert counted["LIST", "pods"] == 3


def test_only_requests_about_what_autoscalers_use_are_reads_or_writes() -> None:
    found = measuring.sum_requests(measuring.parse_requests(METRICS))

    assert found == Requests(answers=3, watches=1, writes=7)
    assert found.reads == 4


def test_requests_between_two_moments_are_a_difference() -> None:
    assert Requests(7, 5, 2) - Requests(3, 5, 1) == Requests(4, 0, 1)


def test_open_watches_are_those_of_what_autoscalers_use() -> None:
    text = """\
apiserver_longrunning_requests{group="",resource="pods",scope="cluster",verb="WATCH"} 3
apiserver_longrunning_requests{group="",resource="pods",scope="namespace",verb="WATCH"} 1
apiserver_longrunning_requests{group="",resource="pods",scope="resource",verb="CONNECT"} 5
apiserver_longrunning_requests{group="",resource="secrets",scope="cluster",verb="WATCH"} 7
"""

    assert measuring.pick_watches(measuring.parse_open(text)) == Counter({"pods": 4})


def test_this_process_has_used_cpu_and_holds_memory() -> None:
    found = measuring.read_vitals(os.getpid())

    assert 0 < found.cpu_seconds <= time.process_time() + 1
    assert 0 < found.resident_bytes <= found.peak_bytes


def test_a_family_costs_as_much_as_all_its_members() -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
        child_holds = measuring.read_vitals(child.pid).resident_bytes
        family = measuring.read_family(os.getpid())
        own = measuring.read_vitals(os.getpid())

    assert family.resident_bytes >= own.resident_bytes / 2 + child_holds
    assert family.peak_bytes > own.peak_bytes
