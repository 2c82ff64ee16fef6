"""The library: chips, memories, links, topologies and workloads by name, found by name, alias, tag or number.

A library directory has one folder per kind with YAML files of entries. Several directories form layers: an entry of
an earlier directory hides one of the same name in a later directory, and may extend it. Files of a kind are read
when the first entry of that kind is asked for, and an entry is checked when it is used; mistakes spoil only what uses
them (`sweeper.library.shelf`).
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sweeper.errors import EnvironmentFault, Problem, SpecError, UsageFault, every, unknown
from sweeper.library.entries import Definition, Entry, resolve
from sweeper.library.shelf import NoEntry, Shelf, read_shelf
from sweeper.plugins import loaded
from sweeper.reading import checks
from sweeper.reading.expressions import Expression
from sweeper.reading.nodes import Node, error
from sweeper.reading.steps import ExpressionError

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
    "part": "parts",
    "facility": "facilities",
    "package": "packages",
    "template": "templates",
    "technology": "technologies",
    "stack": "stacks",
    "lane": "lanes",
    "fabric": "fabrics",
    "unit_model": "unit_models",
}
"""Folder of each kind of entry."""
KNOWN_FOLDERS = (*FOLDERS.values(), "studies", "claims", "measurements", "products", "starts")
"""Folders that a library directory may have."""


def builtin_specs() -> Path:
    """The library that comes with this package: inside it in a wheel, next to it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "specs"
    return inside if inside.is_dir() else package.parent / "specs"


@cache
def installed_specs() -> tuple[Path, ...]:
    """Library directories of plug-ins, and ours. Raises EnvironmentFault for a plug-in that has none."""
    found = []
    for name, package in loaded("libraries").items():
        folders = [Path(folder) for folder in getattr(package, "__path__", ())]
        if not any((folder / known).is_dir() for folder in folders for known in KNOWN_FOLDERS):
            raise EnvironmentFault(f"the plug-in {name!r} (library) is no package with a folder such as chips in it")
        found += folders
    return (*found, builtin_specs())


def starts() -> dict[str, Path]:
    """Files of the commented studies that users begin with, by name."""
    return {path.stem: path for path in sorted((builtin_specs() / "starts").glob("*.yaml"))}


def installed_studies() -> dict[str, Path]:
    """Files of the studies of plug-ins and of ours, by name, in their order. Raises EnvironmentFault for two of the
    same name."""
    found: dict[str, Path] = {}
    for path in sorted(path for folder in installed_specs() for path in (folder / "studies").glob("*.yaml")):
        other = found.setdefault(path.stem, path)
        if other is not path:
            raise EnvironmentFault(f"two studies are installed as {path.stem}: {other} and {path}")
    return dict(sorted(found.items()))


class Library:
    """Entries of all kinds, from one or more directories of which earlier ones win.

    >>> Library.over(["examples/my_library"]).find("chip", "h100").values["power"].number  # in W
    750.0
    """

    def __init__(self, directories: Sequence[Path], alike: int = 0) -> None:
        """Of the last `alike` directories no two may have an entry of the same name."""
        self._directories, self._alike = tuple(directories), alike
        self._shelves: dict[str, Shelf] = {}
        self._entries: dict[tuple[str, str], Entry] = {}
        self._taking: list[str] = []

    def __getstate__(self) -> dict[str, Any]:
        """Only the entries used so far travel to other processes, whose disks may not have the library's files."""
        return {**vars(self), "_shelves": {}}

    @classmethod
    def load(cls, directories: Sequence[Path]) -> "Library":
        """A library of the given directories. Raises SpecError if one does not exist or has an unknown folder."""
        every(directories, _check_folders)
        return cls(directories)

    @classmethod
    def over(cls, directories: Iterable[Path | str] = ()) -> "Library":
        """What is installed, plug-ins and ours, with the given directories laid over it. Raises as `load` does.

        >>> Library.over().find("chip", "h100_sxm5_80gb").name
        'h100_sxm5_80gb'
        """
        installed = installed_specs()
        library = cls([*map(Path, directories), *installed], len(installed))
        every(library._directories, _check_folders)
        return library

    def names(self, kind: str) -> tuple[str, ...]:
        """Names of the entries of a kind that can be read, first layer first, in the order of files and of lines."""
        return self._shelf(kind).names

    def find(self, kind: str, name: str) -> Entry:
        """The entry of a name or an alias (of which case does not matter).

        Raises SpecError for mistakes in the entry's files, and NoEntry, with a message that says what is
        allowed, if there is no such entry.
        """
        if (kind, name) in self._entries:
            return self._entries[kind, name]
        shelf = self._shelf(kind)
        canonical = name if name in shelf.definitions else shelf.aliases.get(name.casefold())
        if canonical is None:
            raise shelf.absent(kind, name, shelf.names, kind)
        definition = shelf.definitions[canonical][0]
        shelf.require(definition, name, canonical)
        if (kind, canonical) not in self._entries:
            chain = self._chain(definition)
            entry = resolve(chain, self._another(definition))
            if entry.prefer and entry.prefer not in shelf.definitions:
                node = definition.written["prefer"]
                raise shelf.absent(f"{kind} to prefer", entry.prefer, shelf.names, kind).at(node)
            every(chain, self._check_fits)
            self._entries[kind, canonical] = entry
        return self._entries[kind, canonical]

    def asked(self, kind: str, name: str) -> Entry:
        """The entry that a command asks for. Raises UsageFault for an unknown name, SpecError for mistakes."""
        try:
            return self.find(kind, name)
        except NoEntry as fault:
            raise UsageFault(str(fault)) from None

    def find_at(self, kind: str, node: Node) -> Entry:
        """The entry that a node of a spec names. Raises SpecError."""
        name = checks.text(node, kind)
        try:
            return self.find(kind, name)
        except NoEntry as fault:
            raise fault.at(node) from None

    def select(self, kind: str, where: Expression | None = None, tags: Sequence[str] = ()) -> tuple[Entry, ...]:
        """Entries of a kind that have all the tags and satisfy a condition on their numbers, in the order of `names`.

        Raises SpecError for mistakes in any file or entry of the kind, and LookupError for tags that no entry has and
        names that are no number of this kind.
        """
        problems, entries = self._shelf(kind).problems, list[Entry]()
        with problems.collecting():
            entries = every(self.names(kind), lambda name: self.find(kind, name))
        problems.raise_any()
        known_tags = {tag for entry in entries for tag in entry.tags}
        for tag in tags:
            if tag not in known_tags:
                raise LookupError(unknown(f"tag of a {kind}", tag, known_tags))
        return tuple(entry for entry in entries if set(tags) <= set(entry.tags) and _satisfies(entry, where))

    def check(self) -> None:
        """Read every entry of every kind. Raises SpecError with all mistakes."""
        every(FOLDERS, self.select)

    def _shelf(self, kind: str) -> Shelf:
        if kind not in self._shelves:
            folders = [directory / FOLDERS[kind] for directory in self._directories]
            self._shelves[kind] = read_shelf(kind, folders, len(folders) - self._alike)
        return self._shelves[kind]

    def _another(self, definition: Definition) -> Callable[[str, Node], Entry]:
        """Finds entries of the kind of a definition, which takes numbers of theirs. Raises SpecError at the node that
        names one, also for two that take from each other."""

        def find(name: str, node: Node) -> Entry:
            if name in self._taking:
                raise error(node, f"entries take from each other in a circle: {' -> '.join([*self._taking, name])}")
            self._taking.append(name)
            try:
                return self.find(definition.kind, name)
            except NoEntry as fault:
                raise fault.at(node) from None
            finally:
                self._taking.pop()

        return find

    def _check_fits(self, definition: Definition) -> None:
        """Raise SpecError if a definition belongs to something of which no entry has the name, an alias or the tag."""
        fits = definition.written.get("fits")
        for kind, node in checks.mapping(fits, "fits").items() if fits else ():
            shelf = self._shelf(kind)
            for item in node.value if isinstance(node.value, tuple) else (node,):
                word = checks.text(item, kind)
                if word not in shelf.words:
                    raise shelf.absent(f"name or tag of a {kind}", word, shelf.words, kind).at(item)

    def _chain(self, definition: Definition) -> list[Definition]:
        """The definition, the one that it extends, and so on. Raises SpecError for unknown names and cycles."""
        chain, shelf = [definition], self._shelf(definition.kind)
        while "extends" in chain[-1].written:
            last = chain[-1]
            node = last.written["extends"]
            name = checks.text(node, "extends")
            stack = shelf.definitions.get(name, [])
            if name == last.name:
                stack = [below for below in stack if below.layer > last.layer]
            if not stack and name == last.name:
                message = f"{name!r} extends itself: no library directory behind its own has a {last.kind} of this name"
                raise shelf.lacking(message).at(node)
            if not stack:
                raise shelf.absent(f"{last.kind} to extend", name, shelf.names, last.kind).at(node)
            if stack[0] in chain:
                names = " -> ".join(one.name for one in [*chain, stack[0]])
                raise error(node, f"entries extend each other in a circle: {names}")
            shelf.require(stack[0], name)
            chain.append(stack[0])
        return chain


def _check_folders(directory: Path) -> None:
    """Raise SpecError if a library directory does not exist, cannot be read, has an unknown folder, or entries in
    a folder of a folder."""
    try:
        if not directory.is_dir():
            raise SpecError([Problem(str(directory), 1, 1, "", "the library directory does not exist")])
        unknowns = [
            Problem(str(path), 1, 1, "", unknown("library folder", path.name, KNOWN_FOLDERS))
            for path in sorted(directory.iterdir())
            if path.is_dir() and path.name not in KNOWN_FOLDERS and any(path.glob("*.y*ml"))
        ] + [
            Problem(str(path), 1, 1, "", f"nothing reads it: entries of {folder}/ stand in {folder}/ itself, not below")
            for folder in FOLDERS.values()
            for path in sorted((directory / folder).glob("*/**/*.y*ml"))
        ]
    except OSError as fault:
        message = f"cannot read the library directory: {fault.strerror or fault}"
        raise SpecError([Problem(str(directory), 1, 1, "", message)]) from None
    if unknowns:
        raise SpecError(unknowns)


def _satisfies(entry: Entry, where: Expression | None) -> bool:
    if where is None:
        return True
    values = {key: value.number for key, value in entry.values.items()}
    try:
        return bool(where.evaluate(values))
    except ExpressionError as fault:
        raise LookupError(fault.message) from None
