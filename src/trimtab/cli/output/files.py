"""Files of commands: manifests to read, and the file or standard output for the answer."""

import errno
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import yaml
from cyclopts import Parameter

from trimtab.api.validation import manifests
from trimtab.api.wire.codec import JSON
from trimtab.cli.errors import UsageError
from trimtab.cli.flags import usage_errors
from trimtab.cluster import yaml_bounds
from trimtab.cluster.yaml_bounds import YAMLBoundsError


def write_out(text: str, file: Path | None) -> None:
    """Write the text to the file, or to standard output if there is none."""
    if file is None:
        sys.stdout.write(text)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}") from error


_MAX_CHARACTERS: Final = 64_000_000
"""Maximum length of a file; loading one of this length takes minutes."""
_INPUT: Final = "-"
_NO_INPUT: Final = "standard input is closed"

InputFile: TypeAlias = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""The name of a file; a hyphen alone is the standard input."""


class _Loader(yaml.CSafeLoader):
    """YAML loader that keeps timestamps as text, as Kubernetes does."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in listed if not tag.endswith(":timestamp")]
    for first, listed in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def refuse_flags(names: Iterable[str], known: Iterable[str]) -> None:
    """Raise a UsageError for a name that is a flag which the command does not know."""
    for name in names:
        if name.startswith("-") and name != _INPUT:
            flag = name.partition("=")[0]
            raise UsageError(f"flag {flag} is unknown{usage_errors.suggest(flag, known)}")


def show_name(name: str) -> str:
    """Return the name of a file as messages show it."""
    return "standard input" if name == _INPUT else name


def read_autoscalers(name: str) -> list[dict[str, JSON]]:
    """Read the autoscalers in a file; objects of other kinds are skipped."""
    return list_autoscalers(read_documents(name))


def list_autoscalers(documents: Iterable[JSON]) -> list[dict[str, JSON]]:
    """Return the autoscalers among the documents of a file."""
    return [
        manifest for document in documents for manifest in manifests.autoscaler_manifests(document)
    ]


def read_documents(name: str) -> list[JSON]:
    """Read all documents of a YAML or JSON file; `-` is the standard input."""
    try:
        text = _read_text(name)
        name = show_name(name)
        yaml_bounds.check_bounds(text)
        documents = [_plain(document) for document in yaml.load_all(text, _Loader)]
    except OSError as error:
        raise UsageError(f"cannot read {show_name(name)}: {error.strerror}") from error
    except YAMLBoundsError as error:
        raise UsageError(f"{name} is not read: {error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not valid YAML or JSON: no UTF-8 text") from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        flaw = str(error).replace(' in "<unicode string>",', "")
        raise UsageError(f"{name} is not valid YAML or JSON: {flaw}") from error
    if not all(isinstance(document, dict | None) for document in documents):
        raise UsageError(f"{name} holds something that is not a Kubernetes object")
    return documents


def _read_text(name: str) -> str:
    if name == _INPUT:
        if sys.stdin is None:
            raise OSError(errno.EBADF, _NO_INPUT)
        text = sys.stdin.read(_MAX_CHARACTERS + 1)
    else:
        with Path(name).open(encoding="utf-8") as file:
            text = file.read(_MAX_CHARACTERS + 1)
    if len(text) > _MAX_CHARACTERS:
        raise YAMLBoundsError(f"it has more than {_MAX_CHARACTERS:,} characters")
    return text


def _plain(document: object) -> JSON:
    # The round trip raises an error for what JSON cannot hold (sets, NaN); keys become text.
    plain: JSON = json.loads(json.dumps(document, allow_nan=False))
    return plain
