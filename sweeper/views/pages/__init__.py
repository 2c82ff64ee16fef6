"""Pages for people: how their templates are read. All share one style."""

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined


def templates(package: str) -> Environment:
    """The templates of a package, and those that all pages share. What goes into an HTML page is escaped."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("sweeper.views.pages")]),
        autoescape=lambda name: bool(name and name.endswith(".html.j2")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
