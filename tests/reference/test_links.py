"""Pages lead where they say: every link within the documentation, every place on a page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def links(page: Path) -> list[str]:
    fences = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
    text = fences.sub("", page.read_text(encoding="utf-8"))
    found = re.findall(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)", text)
    return [link for link in found if not link.startswith(("http://", "https://", "mailto:"))]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings}


def is_broken(page: Path, link: str) -> bool:
    name, _, place = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists():
        return True
    return bool(place) and target.suffix == ".md" and place not in anchors(target)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert [link for link in links(page) if is_broken(page, link)] == []
