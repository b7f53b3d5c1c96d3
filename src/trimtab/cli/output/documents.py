"""JSON and YAML of records, in ASCII: text from the cluster cannot control the terminal."""

import json

import yaml


def format_json(document: object) -> str:
    """Format records as JSON."""
    # JSON leaves this one control character as it is.
    return json.dumps(document, indent=2).replace("\x7f", "\\u007f") + "\n"


def format_yaml(document: object) -> str:
    """Format records as YAML, in the order of their fields."""
    return yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False)
