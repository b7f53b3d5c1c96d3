"""`trimtab crds`: the CustomResourceDefinitions as YAML."""

import sys

import yaml

from trimtab.api.crds import definitions


def print_crds() -> None:
    """Print the CustomResourceDefinitions, ready for `kubectl apply`."""
    sys.stdout.write(render())


def render() -> str:
    """Format all definitions as YAML, one document each."""
    heading = "# Written by `make crds` from trimtab.api.crds.definitions; edit there.\n"
    return heading + "".join(
        "---\n" + yaml.safe_dump(definition, sort_keys=False, width=100, allow_unicode=True)
        for definition in definitions.definitions()
    )
