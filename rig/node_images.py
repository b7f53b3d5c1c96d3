"""Images of our own programs, packed without any builder and without a registry.

An image is one static program and a few files around it, in a tar archive that containerd imports.
Equal programs give equal archives. `images/worker` is the workload of all tests; its `--help` and
docs/rig.md say what it can do.
"""

import tempfile
from pathlib import Path
from typing import Final

from rig import building, oci
from rig.building import Recipe
from rig.oci import Entry

IMAGES: Final = Path(__file__).parent / "images"
PAUSE: Final = "docker.io/trimtab/pause:1"
WORKER: Final = "docker.io/trimtab/worker:1"

_AROUND: Final = (
    Entry("etc"),
    Entry("etc/group", b"root:x:0:\nnobody:x:65534:\n", mode=0o644),
    Entry(
        "etc/passwd",
        b"root:x:0:0:root:/:/none\nnobody:x:65534:65534:nobody:/:/none\n",
        mode=0o644,
    ),
    Entry("tmp", mode=0o1777),
)


def build(directory: Path) -> list[Path]:
    """The archives of all our images, in that folder; programs are built first if need be."""
    archives = []
    for name in (PAUSE, WORKER):
        program = name.rpartition("/")[2].partition(":")[0]
        archive = directory / f"{program}.tar"
        pack(building.build(Recipe(program, IMAGES / program)), name, archive)
        archives.append(archive)
    return archives


def pack(program: Path, name: str, archive: Path) -> None:
    """Write the archive of an image that runs the program."""
    settings = {"Entrypoint": [f"/{program.name}"], "Env": ["PATH=/"], "WorkingDir": "/"}
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        layer = Path(folder) / "layer.tar"
        oci.write_layer(layer, [*_AROUND, Entry(program.name, program)])
        oci.write_image(archive, name, [layer], settings)
