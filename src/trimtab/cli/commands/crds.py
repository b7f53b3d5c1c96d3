"""`trimtab crds`: the CustomResourceDefinitions as YAML."""

import sys

from trimtab.api.crds import definitions


def print_crds() -> None:
    """Print the CustomResourceDefinitions, ready for `kubectl apply`."""
    sys.stdout.write(definitions.render())
