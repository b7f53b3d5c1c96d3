"""Whatever is sent, the answer is a review, and nothing of it stays."""

import tracemalloc

from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.makers.hostile_requests import hostile_requests
from support.makers.reviews import Webhook

COUNT = 1500
MOST_KEPT_BYTES = 300_000


def test_memory_stays_flat_under_hostile_requests() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        webhook = Webhook(cluster)

        def send_all(seed: int) -> None:
            for content_type, body in hostile_requests(seed, COUNT):
                answer = webhook.send(body, content_type)
                assert isinstance(answer["response"]["allowed"], bool)

        send_all(seed=1)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            send_all(seed=2)
            kept = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()

        assert kept < MOST_KEPT_BYTES

    run_virtually(scene())
