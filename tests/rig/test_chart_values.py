"""The table of a chart's values: which there are, what they are by default, and who is silent."""

import pytest

from rig import chart, chart_values
from rig.chart_values import Value

VALUES = """\
# -- How many.
replicas: 2
image:
  # -- Which one.
  tag: ""
  # -- Where from.
  repository: {host: here}
# An ordinary comment.
silent: 1
# -- All of it.
context:
  user: 65534
"""
LISTED = [
    Value("replicas", 2, "How many."),
    Value("image.tag", "", "Which one."),
    Value("image.repository", {"host": "here"}, "Where from."),
    Value("context", {"user": 65534}, "All of it."),
]


def test_each_comment_is_about_the_key_below_it() -> None:
    assert list(chart_values.list_values(VALUES)) == LISTED


def test_a_key_is_silent_if_nothing_is_said_about_it_nor_about_any_above() -> None:
    assert chart_values.list_silent(VALUES) == ["silent"]


def test_every_value_of_our_chart_is_explained() -> None:
    text = (chart.CHART / "values.yaml").read_text(encoding="utf-8")

    assert chart_values.list_silent(text) == []


def test_the_table_shows_defaults_as_json_and_nothing_where_there_is_none() -> None:
    assert chart_values.format_table(LISTED).splitlines()[2:] == [
        "| `replicas` | `2` | How many. |",
        "| `image.tag` |  | Which one. |",
        '| `image.repository` | `{"host": "here"}` | Where from. |',
        '| `context` | `{"user": 65534}` | All of it. |',
    ]


@pytest.mark.parametrize(
    "table", [pytest.param("", id="an empty one"), pytest.param("| a |\n", id="one row")]
)
def test_only_the_table_of_a_page_is_replaced_and_doing_it_again_changes_nothing(
    table: str,
) -> None:
    before = (chart.CHART / "README.md").read_text("utf-8")
    page = chart_values.replace_table(before, table)

    assert page.startswith("# The chart\n")
    assert page.endswith(before[-200:])
    assert "`rbac.scope`" not in page
    assert chart_values.replace_table(page, table) == page
