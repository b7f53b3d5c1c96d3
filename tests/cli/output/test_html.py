import re
from importlib import resources

import jinja2
import pytest

from trimtab.cli.output import html

TEMPLATES = sorted(
    each.name
    for each in resources.files("trimtab.cli.output").joinpath("templates").iterdir()
    if each.name.endswith((".html", ".svg"))
)
PAGE = {"about": "", "tiles": [], "summary": [], "titles": [], "rows": []}


def test_text_of_values_is_escaped() -> None:
    page = html.render("report.html", **PAGE | {"about": "<b>&"})

    assert "&lt;b&gt;&amp;" in page
    assert "<b>" not in page


def test_a_value_that_is_not_given_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="tiles"):
        html.render("report.html", about="")


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_template_turns_escaping_off_or_reads_from_elsewhere(name: str) -> None:
    folder = resources.files("trimtab.cli.output").joinpath("templates")
    text = folder.joinpath(name).read_text(encoding="utf-8")

    assert not re.search(r"\|\s*safe\b|autoescape|<script|https?://", text)
