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


@command()
def env() -> None:
    """Print versions and settings of this installation.

    \b
    Example: sweeper env --json
    """
    from sweeper.environment import environment

    about = environment()
    echo(about, lambda: "\n".join(f"{key}: {value}" for key, value in about.items()))
