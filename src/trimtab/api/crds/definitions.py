"""The CustomResourceDefinitions: the YAML files beside this module are their source."""

from functools import cache
from importlib import resources
from typing import Final, TypeAlias

from trimtab.api.wire.codec import JSON

Schema: TypeAlias = dict[str, JSON]
"""An OpenAPI schema as CustomResourceDefinitions use it."""

GROUP: Final = "autoscaling.k8s.io"
VERSION: Final = "v1"
"""The version that is served and stored."""
AUTOSCALER: Final = "autoscaler"
CHECKPOINT: Final = "checkpoint"
_FILES: Final = (CHECKPOINT, AUTOSCALER)
_HEADING: Final = "# Written by `make crds` from src/trimtab/api/crds; edit there.\n"


def render() -> str:
    """Return all definitions as YAML, one document each."""
    return _HEADING + "".join(f"---\n{_read(name)}" for name in _FILES)


def definitions() -> list[Schema]:
    """Return both definitions, the checkpoint's first; the caller may change them."""
    return [_load(name) for name in _FILES]


@cache
def schema(name: str) -> Schema:
    """Return the schema of `AUTOSCALER` or `CHECKPOINT` as it is served, not to be changed."""
    return schema_of(_load(name))


def schema_of(definition: Schema) -> Schema:
    """Return the schema of the served version of a definition."""
    spec = definition["spec"]
    assert isinstance(spec, dict)
    versions = spec["versions"]
    assert isinstance(versions, list)
    for version in versions:
        if isinstance(version, dict) and version["name"] == VERSION:
            wrapped = version["schema"]
            assert isinstance(wrapped, dict)
            found = wrapped["openAPIV3Schema"]
            assert isinstance(found, dict)
            return found
    raise AssertionError(VERSION)


def _load(name: str) -> Schema:
    # The webhook needs a schema only for objects that cannot be read, and starts without YAML.
    import yaml  # noqa: PLC0415

    definition: Schema = yaml.load(_read(name), yaml.CSafeLoader)
    return definition


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
