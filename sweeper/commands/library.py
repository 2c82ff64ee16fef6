"""What there is: the library, and this installation."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from sweeper.commands.completing import entries, kinds, starts
from sweeper.commands.shared import FORMATS, LIBRARY, AnsweringCommand, command, echo, library_of
from sweeper.errors import UsageFault, unknown
from sweeper.files import write_whole


@command("list")
@click.argument("kind", required=False, shell_complete=kinds)
@click.argument("name", required=False, shell_complete=entries)
@LIBRARY
def list_entries(kind: str | None, name: str | None, library: tuple[str, ...]) -> None:
    """List library entries, studies, assumptions or the columns that studies may ask for; or the numbers of an entry.

    Entries that describe what another one describes better stand below that one.

    \b
    Example: sweeper list chip
    Example: sweeper list chip h100_sxm5_80gb
    """
    from sweeper.library.library import FOLDERS
    from sweeper.views.catalogue import LISTS, catalogue, entry_facts

    if kind is not None and kind not in LISTS:
        raise UsageFault(unknown("kind", kind, LISTS))
    if name is not None:
        if kind not in FOLDERS:
            raise UsageFault(f"a {kind} has no numbers; those of entries of {', '.join(FOLDERS)} are listed")
        facts = entry_facts(library_of(library), kind, name)
        echo(facts, lambda: "\n".join(_entry_text(facts)))
        return
    chosen = catalogue(library_of(library), [kind] if kind else LISTS)

    def text() -> str:
        return "\n".join(
            f"{title}\n" + "\n".join(f"  {_indented(e):<26} {e['description']}" for e in listed)
            for title, listed in chosen.items()
        )

    echo(chosen, text)


def _indented(listed: dict[str, str]) -> str:
    return f"  {listed['name']}" if listed["prefer"] else listed["name"]


def _entry_text(facts: dict[str, Any]) -> Iterator[str]:
    """An entry in lines."""
    from sweeper.views.text import show, shown_table

    yield f"{facts['name']}: {facts['description']}"
    for key in ("prefer", "aliases", "tags", "dimensions", "origin"):
        told = facts[key] if isinstance(facts[key], str) else ", ".join(facts[key])
        if told:
            yield f"{key}: {told}"
    for kind, names in facts["fits"].items():
        yield f"fits {kind}: {', '.join(names)}"
    if facts["values"]:
        rows = [
            (v["name"], v["number"], v["unit"], _range(v["low"], v["high"], show), v["grade"], v["source"])
            for v in facts["values"]
        ]
        yield shown_table(("number", "value", "unit", "range", "grade", "source"), rows)


def _range(low: float, high: float, show: Callable[[Any], str]) -> str:
    return f"{show(low)} to {show(high)}" if low < high else ""


@command("schema")
@click.argument("kind", default="study", shell_complete=kinds)
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


@command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes a shell complete commands, studies, entries, axes and columns.

    \b
    Example: sweeper completion bash > ~/.local/share/bash-completion/completions/sweeper
    Example: sweeper completion zsh > ~/.zfunc/_sweeper
    Example: sweeper completion fish > ~/.config/fish/completions/sweeper.fish
    """
    from click.shell_completion import get_completion_class

    root = click.get_current_context().find_root().command
    chosen = get_completion_class(shell)
    assert chosen is not None
    click.echo(chosen(root, {}, "sweeper", "_SWEEPER_COMPLETE").source())


@command()
def env() -> None:
    """Print versions and settings of this installation.

    \b
    Example: sweeper env --json
    """
    from sweeper.environment import environment

    root = click.get_current_context().find_root().command
    commands = root.commands.values() if isinstance(root, click.Group) else ()
    about = environment(FORMATS, [each.check_formats for each in commands if isinstance(each, AnsweringCommand)])
    echo(about, lambda: "\n".join(f"{key}: {value}" for key, value in about.items()))


@command()
@click.argument("kind", shell_complete=starts)
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
def init(kind: str, file: Path | None) -> None:
    """Write a commented study to begin with: train, serve, chip, package or graph. `-` prints it instead.

    \b
    Example: sweeper init train
    Example: sweeper init serve llama_servers.yaml
    """
    from sweeper.library.library import starts as known

    found = known()
    if kind not in found:
        raise UsageFault(unknown("study to begin with", kind, found))
    path = Path(f"{kind}.yaml") if file is None else file
    text = found[kind].read_text(encoding="utf-8")
    if str(path) == "-":
        echo({"study": text}, lambda: text.rstrip("\n"))
        return
    if path.exists():
        raise UsageFault(f"{path} is there already; name another file: sweeper init {kind} FILE")
    # The commands in its comments name this file.
    write_whole(path, text.replace(f"{kind}.yaml", str(path)))
    echo({"file": str(path), "kind": kind}, lambda: f"{path}\nnext: sweeper run {path}")
