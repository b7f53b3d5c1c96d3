"""Write all pages of reference."""

from pathlib import Path

from reference import flags_page, metrics_page

_DOCS = Path(__file__).parent.parent / "docs"

(_DOCS / "flags.md").write_text(flags_page.write_page(), encoding="utf-8")
(_DOCS / "metrics.md").write_text(metrics_page.write_page(), encoding="utf-8")
