"""`make docs` on a clean checkout: fresh processes write what is there already."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_fresh_process_writes_what_is_checked_in(seed: str, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "reference", tmp_path],
        cwd=ROOT,
        # Sets have another order in each.
        env=os.environ | {"PYTHONHASHSEED": seed},
        check=True,
        timeout=120,
    )
    written = {str(path.relative_to(tmp_path)): path for path in tmp_path.rglob("*.*")}

    assert sorted(written) == [
        "charts/trimtab/files/dashboards/trimtab.json",
        "docs/flags.md",
        "docs/metrics.md",
    ]
    assert [
        name for name in written if written[name].read_bytes() != (ROOT / name).read_bytes()
    ] == []
