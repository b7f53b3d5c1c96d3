"""The schema that every Kubernetes object starts with."""

from collections.abc import Iterable

from trimtab.api.crd_schema import Schema, record, text


def object_schema(
    description: str, *, spec: Schema, status: Schema, required: Iterable[str] = ()
) -> Schema:
    """The schema of an object with a spec and a status."""
    return record(
        description,
        {
            "apiVersion": text("The API version of the object."),
            "kind": text("The kind of the object."),
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
        required=required,
    )
