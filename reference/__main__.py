"""Write all pages of reference, and the dashboard."""

from pathlib import Path

from reference import dashboard, flags_page, metrics_page

_ROOT = Path(__file__).parent.parent

for place, text in (
    ("docs/flags.md", flags_page.write_page()),
    ("docs/metrics.md", metrics_page.write_page()),
    ("charts/trimtab/files/dashboards/trimtab.json", dashboard.write_dashboard()),
):
    (_ROOT / place).write_text(text, encoding="utf-8")
