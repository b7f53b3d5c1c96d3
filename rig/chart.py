"""The chart: rendered by helm, as plain manifests in `deploy` too (`make manifests`).

What the values mean is the chart's own business; the table of them is made by `chart_values`.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rig import chart_values, programs

ROOT: Final = Path(__file__).parents[1]
CHART: Final = ROOT / "charts/trimtab"
KUBERNETES: Final = "1.35.0"
"""For whom plain manifests are rendered; a helm that we have built says 1.20 by itself."""

# Marks of helm, which mean nothing on objects that kubectl has applied.
_MARKS: Final = re.compile(
    r"^( +helm\.sh/.*| +app\.kubernetes\.io/managed-by: .*|# Source: .*)\n", re.MULTILINE
)
_NAMESPACE: Final = """\
---
apiVersion: v1
kind: Namespace
metadata:
  name: {name}
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""


class ChartError(RuntimeError):
    """What helm does not accept, in its own words."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A file of `deploy`, and how it is rendered."""

    path: str
    about: str
    namespace: str
    flags: tuple[str, ...] = ()
    makes_namespace: bool = False


MANIFESTS: Final = (
    Manifest(
        "deploy/trimtab.yaml",
        "Everything, for a whole cluster: kubectl apply --server-side -f deploy/trimtab.yaml",
        namespace="trimtab-system",
        makes_namespace=True,
    ),
    Manifest(
        "deploy/namespaced.yaml",
        "For one namespace, without cluster rights, where the CRDs are:\n"
        "# sed s/my-namespace/shop/ deploy/namespaced.yaml | kubectl apply --server-side -f -",
        namespace="my-namespace",
        flags=("--values", str(CHART / "values-namespaced.yaml")),
    ),
)


def render(*flags: str, namespace: str, release: str = "trimtab", values: str = "") -> str:
    """What the chart comes to with these flags of `helm template`, and with these values."""
    where = ["--namespace", namespace, "--kube-version", KUBERNETES, "--values", "-"]
    command = [str(programs.find("helm")), "template", release, str(CHART), *where, *flags]
    run = subprocess.run(command, input=values, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise ChartError(run.stderr.strip())
    return run.stdout


def render_plain(manifest: Manifest) -> str:
    """The text of a file of `deploy`."""
    heading = (
        f"# {manifest.about}\n# Written by `make manifests` from charts/trimtab; edit there.\n"
    )
    namespace = _NAMESPACE.format(name=manifest.namespace) if manifest.makes_namespace else ""
    rendered = render(*manifest.flags, namespace=manifest.namespace)
    return heading + namespace + _MARKS.sub("", rendered)


def list_written() -> Iterator[tuple[Path, str]]:
    """All files that are made of the chart, with what should be in them."""
    for manifest in MANIFESTS:
        yield ROOT / manifest.path, render_plain(manifest)
    readme = CHART / "README.md"
    values = (CHART / "values.yaml").read_text(encoding="utf-8")
    table = chart_values.format_table(chart_values.list_values(values))
    yield readme, chart_values.replace_table(readme.read_text(encoding="utf-8"), table)


def main() -> int:
    """Write them all; 1 where helm does not accept the chart."""
    try:
        for path, text in list_written():
            path.write_text(text, encoding="utf-8")
    except ChartError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
