"""The recipe of CONTRIBUTING for a flag, followed in a copy of the tree."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEST = "tests/cli/components/test_updater_page.py"
FLAG = '''    sample_share: Share = _USUAL.sample_share
    """Which share of the pods is a sample."""
'''
ROW = "| `--sample-share` | `0.25` | Which share of the pods is a sample. | ours |\n"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Follow the recipe for a flag of the updater, in a copy of what it touches."""
    tree = tmp_path_factory.mktemp("tree")
    ignored = shutil.ignore_patterns("__pycache__", "decisions")
    for folder in ("src", "reference", "docs", "tests/cli/components", "charts/trimtab/files"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tree)
    yield tree
