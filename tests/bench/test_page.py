"""The page of benchmarks is what the written results make it."""

from bench import page


def test_the_page_of_benchmarks_is_current_with_the_results() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.format_page()
