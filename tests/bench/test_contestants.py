import json
from datetime import UTC, datetime

from bench import contestants
from bench.contestants import Tick

KLOG = """\
I{day} 06:51:20.000000    4711 recommender.go:171] "Recommender Run"
I{day} 06:51:21.250000    4711 recommender.go:185] "ClusterState is tracking" pods=4 vpas=2
I{day} 06:51:23.500000    4711 recommender.go:197] "ClusterState is tracking" \
aggregateContainerStates=4
I{day} 06:51:25.000000    4711 recommender.go:171] "Recommender Run"
"""


def test_our_ticks_are_read_from_our_log() -> None:
    lines = [
        {"event": "acting begins", "timestamp": "2026-11-16T07:18:50.000000Z"},
        {"event": "tick done", "seconds": 1.5, "timestamp": "2026-11-16T07:18:55.500000Z"},
    ]
    moment = datetime(2026, 11, 16, 7, 18, 55, 500_000, tzinfo=UTC)

    assert contestants.read_own_ticks("\n".join(map(json.dumps, lines))) == [
        Tick(moment.timestamp(), 1.5)
    ]


def test_a_tick_of_the_original_ends_when_it_says_how_much_it_knows() -> None:
    today = datetime.now(UTC).astimezone()
    (found,) = contestants.read_original_ticks(KLOG.format(day=f"{today:%m%d}"))

    assert found.seconds == 3.5
    assert datetime.fromtimestamp(found.end, today.tzinfo).strftime("%H:%M:%S") == "06:51:23"
