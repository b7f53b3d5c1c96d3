"""The OpenAPI schema of the VerticalPodAutoscalerCheckpoint, equal in v1 and v1beta2."""

from trimtab.api.crds.schema import Schema, object_schema, record, text, timestamp


def checkpoint_schema() -> Schema:
    """Return the schema of both versions."""
    return object_schema(
        "What a recommender remembers of one container of one autoscaler across restarts.",
        spec=record(
            "What is remembered.",
            {
                "containerName": text("Name of the container."),
                "vpaObjectName": text("Name of the VerticalPodAutoscaler, in this namespace."),
            },
        ),
        status=record(
            "The memory itself.",
            {
                "cpuHistogram": _histogram("The CPU usage."),
                "firstSampleStart": timestamp("Time of the first CPU sample.", nullable=True),
                "lastSampleStart": timestamp("Time of the last CPU sample.", nullable=True),
                "lastUpdateTime": timestamp("When this was written.", nullable=True),
                "memoryHistogram": _histogram("The memory peaks."),
                "totalSamplesCount": {
                    "description": "How many CPU samples were taken in all.",
                    "type": "integer",
                },
                "version": text("Version of the format; v3 is the current one."),
            },
        ),
    )


def _histogram(description: str) -> Schema:
    return record(
        description,
        {
            "bucketWeights": {
                "description": "Weights by bucket, the largest being 10000.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
            },
            "referenceTimestamp": timestamp(
                "The time at which a sample has the weight 1.", nullable=True
            ),
            "totalWeight": {
                "description": "The sum of all weights before they were scaled to 10000.",
                "format": "double",
                "type": "number",
            },
        },
    )
