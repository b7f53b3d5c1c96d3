"""What a recommender would know that started now: for who looks at a cluster from outside.

Made of the recommender's own steps, without those that read usage or write anything.
"""

from datetime import datetime

from trimtab.cluster.ports import Cluster
from trimtab.recommender.knowledge import Knowledge
from trimtab.recommender.loading import AutoscalerLoader, load_nodes, load_pods
from trimtab.recommender.restoring import CheckpointRestorer
from trimtab.recommender.settings import RecommenderSettings


async def recall(cluster: Cluster, settings: RecommenderSettings, now: datetime) -> Knowledge:
    """All autoscalers and pods in sight, with what checkpoints hold of them."""
    knowledge = Knowledge(settings)
    await AutoscalerLoader(cluster.autoscalers, cluster.owners, settings).load(knowledge, now)
    CheckpointRestorer(cluster, settings).restore(knowledge, now)
    load_nodes(knowledge, cluster.nodes, settings)
    load_pods(knowledge, cluster.pods, settings, now)
    return knowledge
