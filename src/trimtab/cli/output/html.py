"""Pages for a browser, from the templates in this package: each is one file, readable offline."""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: object) -> str:
    """Return the page that a template makes of the values; text in them is escaped."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> "Environment":
    # Imported at the first page, since most commands write none.
    jinja2 = import_module("jinja2")
    environment: Environment = jinja2.Environment(
        loader=jinja2.PackageLoader("trimtab.cli.output"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment
