"""What there is: the library, and this installation."""

import click

from sweeper.commands.shared import LIBRARY, command, echo, library_of
from sweeper.errors import UsageFault, unknown


@command("list")
@click.argument("kind", required=False)
@LIBRARY
def list_entries(kind: str | None, library: tuple[str, ...]) -> None:
    """List library entries, studies, assumptions or the columns that studies may ask for.

    \b
    Example: sweeper list chip
    """
    from sweeper.views.catalogue import LISTS, catalogue

    if kind is not None and kind not in LISTS:
        raise UsageFault(unknown("kind", kind, LISTS))
    chosen = catalogue(library_of(library), [kind] if kind else LISTS)

    def text() -> str:
        return "\n".join(
            f"{name}\n" + "\n".join(f"  {e['name']:<26} {e['description']}" for e in entries)
            for name, entries in chosen.items()
        )

    echo(chosen, text)


@command("schema")
@click.argument("kind", default="study")
@LIBRARY
def schema_command(kind: str, library: tuple[str, ...]) -> None:
    """Print the JSON Schema of a study, or of a library file of entries of a KIND, for an editor.

    \b
    Example: sweeper schema > study.schema.json
    Example: sweeper schema chip
    """
    from sweeper.commands.shared import as_json
    from sweeper.study.json_schema import schema_of

    click.echo(as_json(schema_of(kind, library_of(library))))


@command()
def env() -> None:
    """Print versions and settings of this installation.

    \b
    Example: sweeper env --json
    """
    from sweeper.environment import environment

    about = environment()
    echo(about, lambda: "\n".join(f"{key}: {value}" for key, value in about.items()))
