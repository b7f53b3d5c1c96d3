"""Write all pages of reference, and the dashboard; into another folder if one is named."""

import sys
from pathlib import Path

from reference import dashboard, flags_page, metrics_page

_ROOT = Path(__file__).parent.parent

root = Path(*sys.argv[1:2]) if sys.argv[1:] else _ROOT
for place, text in (
    ("docs/flags.md", flags_page.write_page()),
    ("docs/metrics.md", metrics_page.write_page()),
    ("charts/trimtab/files/dashboards/trimtab.json", dashboard.write_dashboard()),
):
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).write_text(text, encoding="utf-8")
