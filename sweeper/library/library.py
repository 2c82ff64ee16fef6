"""The library: chips, memories, links, topologies and workloads by name, found by name, alias, tag or number.

A library directory has one folder per kind with YAML files of entries. Several directories form layers: an entry of
an earlier directory hides one of the same name in a later directory, and may extend it. Files of a kind are read
when the first entry of that kind is asked for, and an entry is checked when it is used.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeper.errors import Problem, Problems, SpecError, brief, every, unknown
from sweeper.library.entries import Definition, Entry, resolve
from sweeper.reading import checks
from sweeper.reading.expressions import Expression, ExpressionError
from sweeper.reading.nodes import Node, error, read_yaml

FOLDERS = {
    "chip": "chips",
    "memory": "memories",
    "link": "links",
    "topology": "topologies",
    "workload": "workloads",
    "calibration": "calibrations",
    "assumptions": "assumptions",
    "node": "nodes",
    "wafer": "wafers",
    "assembly": "assemblies",
    "test": "tests",
    "interface": "interfaces",
    "facility": "facilities",
    "package": "packages",
    "template": "templates",
    "technology": "technologies",
    "stack": "stacks",
    "lane": "lanes",
}
"""Folder of each kind of entry."""
KNOWN_FOLDERS = (*FOLDERS.values(), "studies", "claims", "measurements")
"""Folders that a library directory may have."""


@dataclass
class _Shelf:
    """Definitions of one kind: by name from the first layer to the last, and the name that each alias stands for."""

    definitions: dict[str, list[Definition]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


def builtin_specs() -> Path:
    """The library that comes with this package: inside it in a wheel, next to it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "specs"
    return inside if inside.is_dir() else package.parent / "specs"


class Library:
    """Entries of all kinds, from one or more directories of which earlier ones win."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = tuple(directories)
        self._shelves: dict[str, _Shelf] = {}
        self._entries: dict[tuple[str, str], Entry] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Only the entries used so far travel to other processes, whose disks may not have the library's files."""
        return {"_directories": self._directories, "_shelves": {}, "_entries": self._entries}

    @classmethod
    def load(cls, directories: Sequence[Path]) -> "Library":
        """A library of the given directories. Raises SpecError if one does not exist or has an unknown folder."""
        problems = [Problem(str(path), 1, 1, "", "the library directory does not exist")
                    for path in directories if not path.is_dir()]  # fmt: skip
        problems += [
            Problem(str(path), 1, 1, "", unknown("library folder", path.name, KNOWN_FOLDERS))
            for directory in directories
            if directory.is_dir()
            for path in sorted(directory.iterdir())
            if path.is_dir() and path.name not in KNOWN_FOLDERS and any(path.glob("*.y*ml"))
        ]
        if problems:
            raise SpecError(problems)
        return cls(directories)

    def names(self, kind: str) -> tuple[str, ...]:
        """Names of all entries of a kind, first layer first, in the order of files and of lines."""
        return tuple(self._shelf(kind).definitions)

    def find(self, kind: str, name: str) -> Entry:
        """The entry of a name or an alias (of which case does not matter).

        Raises SpecError for mistakes in the entry's files, and LookupError, with a message that says what is
        allowed, if there is no such entry.
        """
        if (kind, name) in self._entries:
            return self._entries[kind, name]
        shelf = self._shelf(kind)
        canonical = name if name in shelf.definitions else shelf.aliases.get(name.casefold())
        if canonical is None:
            raise LookupError(unknown(kind, name, shelf.definitions, also=shelf.aliases))
        if (kind, canonical) not in self._entries:
            self._entries[kind, canonical] = resolve(self._chain(shelf.definitions[canonical][0]))
        return self._entries[kind, canonical]

    def find_at(self, kind: str, node: Node) -> Entry:
        """The entry that a node of a spec names. Raises SpecError."""
        name = checks.text(node, kind)
        try:
            return self.find(kind, name)
        except LookupError as fault:
            raise error(node, str(fault.args[0])) from None

    def select(self, kind: str, where: Expression | None = None, tags: Sequence[str] = ()) -> tuple[Entry, ...]:
        """Entries of a kind that have all the tags and satisfy a condition on their numbers, in the order of `names`.

        Raises SpecError for mistakes in any entry of the kind, and LookupError for tags that no entry has and names
        that are no number of this kind.
        """
        entries = every(self.names(kind), lambda name: self.find(kind, name))
        known_tags = {tag for entry in entries for tag in entry.tags}
        for tag in tags:
            if tag not in known_tags:
                raise LookupError(unknown(f"tag of a {kind}", tag, known_tags))
        return tuple(entry for entry in entries if set(tags) <= set(entry.tags) and _satisfies(entry, where))

    def check(self) -> None:
        """Read every entry of every kind. Raises SpecError with all mistakes."""
        every(FOLDERS, self.select)

    def _shelf(self, kind: str) -> _Shelf:
        if kind not in self._shelves:
            self._shelves[kind] = _read_shelf(kind, self._directories)
        return self._shelves[kind]

    def _chain(self, definition: Definition) -> list[Definition]:
        """The definition, the one that it extends, and so on. Raises SpecError for unknown names and cycles."""
        chain = [definition]
        while "extends" in chain[-1].written:
            last = chain[-1]
            node = last.written["extends"]
            name = checks.text(node, "extends")
            stack = self._shelf(last.kind).definitions.get(name, [])
            if name == last.name:
                stack = [below for below in stack if below.layer > last.layer]
            if not stack:
                others = [other for other in self.names(last.kind) if other != last.name]
                raise error(node, unknown(f"{last.kind} to extend", name, others))
            if stack[0] in chain:
                names = " -> ".join(one.name for one in [*chain, stack[0]])
                raise error(node, f"entries extend each other in a circle: {names}")
            chain.append(stack[0])
        return chain


def _read_shelf(kind: str, directories: Sequence[Path]) -> _Shelf:
    """Read the files of one kind. Raises SpecError for all mistakes of syntax and of names."""
    shelf, problems = _Shelf(), Problems()
    for layer, directory in enumerate(directories):
        definitions: dict[str, Definition] = {}
        for path in sorted((directory / FOLDERS[kind]).glob("*.y*ml")):
            with problems.collecting():
                for definition in _definitions(kind, layer, path, problems):
                    if definition.name in definitions:
                        first = definitions[definition.name]
                        message = f"defined twice (first at {first.node.file}:{first.place[0]})"
                        problems.append(definition.problem(message))
                    else:
                        definitions[definition.name] = definition
        for name, definition in definitions.items():
            shelf.definitions.setdefault(name, []).append(definition)
        _add_aliases(shelf, definitions, problems)
    problems.raise_any()
    return shelf


def _definitions(kind: str, layer: int, path: Path, problems: Problems) -> Iterator[Definition]:
    """Entries of one file; those that are no mapping become problems."""
    root = read_yaml(path)
    for name, node in checks.mapping(root, "a library file").items():
        definition = Definition(kind, name, layer, node, root.marks[name])
        with problems.collecting():
            checks.mapping(node, f"a {kind}")
            if not name or name != name.strip():
                raise SpecError([definition.problem("an entry needs a name without blanks at its ends")])
            yield definition


def _add_aliases(shelf: _Shelf, definitions: Mapping[str, Definition], problems: Problems) -> None:
    """Enter the names and aliases of one layer, which hide nothing of the layers before it."""
    folded = {name.casefold(): name for name in definitions}
    owners = dict(folded)
    for name, definition in definitions.items():
        with problems.collecting():
            node = definition.written.get("aliases")
            for alias in checks.texts(node, "aliases") if node else ():
                owner = owners.setdefault(alias.casefold(), name)
                if owner != name:
                    assert node is not None
                    problems.append(node.problem(f"{brief(alias)} is already a name of {owner!r}"))
    for alias, owner in owners.items():
        shelf.aliases.setdefault(alias, owner)


def _satisfies(entry: Entry, where: Expression | None) -> bool:
    if where is None:
        return True
    values = {key: value.number for key, value in entry.values.items()}
    try:
        return bool(where.evaluate(values))
    except ExpressionError as fault:
        raise LookupError(fault.message) from None
