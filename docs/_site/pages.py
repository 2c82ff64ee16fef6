"""What the site has beside the pages of `docs/`: pages made from the program itself, and those that lie elsewhere.

mkdocs calls the two functions whose names begin with `on_`.
"""

import posixpath
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from mkdocs.structure.files import File, Files

import sweeper
from sweeper.cli import main
from sweeper.inputs.families import families
from sweeper.kernels.codes import CHOICES, SWITCHES
from sweeper.library.library import Library
from sweeper.reading.limits import possible
from sweeper.views.catalogue import LISTS, catalogue
from sweeper.words.numbers import NUMBERS
from sweeper.words.system import OVERRIDES, ROLES

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "README.md": "index.md",
    "specs/README.md": "library.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages that lie elsewhere in the repository, by where the site has them."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"(```.*?```)", re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made or lie elsewhere."""
    for page, text in [*_made(), *((page, (ROOT / path).read_text()) for path, page in ELSEWHERE.items())]:
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links lead to pages of the site; what else the repository has is named by its path."""
    home = next((path for path, made in ELSEWHERE.items() if made == page.file.src_uri), f"docs/{page.file.src_uri}")

    def linked(found: re.Match[str]) -> str:
        image, text, target = found.groups()
        path, hash_, anchor = target.partition("#")
        if "://" in target or not path:
            return found[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(home), path))
        within = ELSEWHERE.get(there, there.removeprefix("docs/") if there.startswith("docs/") else "")
        if files.get_file_from_path(within) is None:
            return f"{text} (`{there}`)"
        relative = posixpath.relpath(within, posixpath.dirname(page.file.src_uri) or ".")
        return f"{image}[{text}]({relative}{hash_}{anchor})"

    # Blocks of code are left as they are: every second part is one.
    parts = CODE.split(markdown)
    return "".join(part if number % 2 else LINK.sub(linked, part) for number, part in enumerate(parts))


def _made() -> Iterable[tuple[str, str]]:
    makers: dict[str, Callable[[], str]] = {
        "commands": commands,
        "columns": columns,
        "names": names,
        "python": python,
    }
    return ((f"reference/{name}.md", make()) for name, make in makers.items())


def commands() -> str:
    """All commands, as their help has them."""
    parts = ["# Commands", "Every command answers as text, or with `--json` as one JSON document."]
    for name, command in sorted(main.commands.items()):
        context = click.Context(command, info_name=f"sweeper {name}")
        about, _, examples = (command.help or "").partition("\b")
        rows = [
            f"| {' '.join(f'`{word}`' for word in (*each.opts, *each.secondary_opts))} | {_cell(each)} |"
            for each in command.get_params(context)
            if isinstance(each, click.Option)
        ]
        lines = [line.strip().removeprefix("Example: ") for line in examples.splitlines() if line.strip()]
        usage = " ".join(["sweeper", name, *command.collect_usage_pieces(context)])
        parts += [f"## {name}", f"`{usage}`", " ".join(about.split())]
        parts += ["```sh\n" + "\n".join(lines) + "\n```"] if lines else []
        parts += ["\n".join(["| option | |", "|---|---|", *rows])]
    return "\n\n".join(parts)


def _cell(option: click.Option) -> str:
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    told = [option.help or "", *([f"One of {', '.join(map(str, choices))}."] if choices else [])]
    if option.show_default and option.default not in (None, "", ()):
        told.append(f"Default: {option.default}.")
    return " ".join(filter(None, told)).replace("|", "\\|")


def columns() -> str:
    """All columns that a study may ask for, with the families that have them and the source of their equation."""
    found: dict[str, tuple[str, str, str, list[str]]] = {}
    for family, each in families().items():
        for equation in each.equations:
            for output in equation.outputs:
                if not output.shape:
                    told = (output.unit, output.about, equation.source, [])
                    found.setdefault(output.name, told)[3].append(family)
    rows = [
        f"| `{name}` | {unit} | {_plain(about)} | {', '.join(dict.fromkeys(of))} | {_plain(source)} |"
        for name, (unit, about, source, of) in sorted(found.items())
    ]
    return "\n".join(
        [
            "# Columns",
            "",
            "What a study may ask for in `output.columns`, minimise or constrain, beside its own axes. Families are",
            "those of workloads: `operators` (transformers as tables), `layers`, `graph` (kernels), `calculon`.",
            "",
            "| column | unit | meaning | families | source |",
            "|---|---|---|---|---|",
            *rows,
        ]
    )


def names() -> str:
    """Everything that a study may give: roles, numbers, choices, switches, attributes."""
    listed = catalogue(Library.over(), [kind for kind in LISTS if kind not in ("column", "study")])
    parts = ["# Names of a study", "What an axis may be called, and which entries there are, as in `sweeper list`."]
    parts += ["## Roles", _table(("axis", "kind of entry"), ROLES.items())]
    numbers = ((name, f"{each.about}: {possible(each)}") for name, each in NUMBERS.items())
    parts += ["## Numbers", _table(("axis", "meaning"), numbers)]
    switches = ((name, " | ".join(values)) for name, values in {**SWITCHES, **CHOICES}.items())
    parts += ["## Switches and choices", _table(("axis", "values"), switches)]
    attributes = ((name, f"{each.about}: {possible(each)}") for name, each in OVERRIDES.items())
    parts += ["## Numbers of entries", _table(("axis", "meaning"), attributes)]
    for kind, entries in listed.items():
        if kind not in ("attribute", "assumption", "choice") and entries:
            rows = ((each["name"], each["description"]) for each in entries)
            parts += [f"## {kind}", _table(("name", "meaning"), rows)]
    return "\n\n".join(parts)


def _table(heads: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"| {heads[0]} | {heads[1]} |", "|---|---|", *(f"| `{name}` | {_plain(about)} |" for name, about in rows)]
    return "\n".join(lines)


def python() -> str:
    """The public names of the package."""
    parts = ["# Python", "What `import sweeper` offers. Everything else is inside and may change."]
    for module, public in sweeper.HOME.items():
        for name in public:
            inside = sweeper.THERE.get(name, name)
            options = "    options:\n      show_root_heading: false"
            parts.append(f"## sweeper.{name}\n\n::: sweeper.{module}.{inside}\n{options}")
    return "\n\n".join(parts)


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
