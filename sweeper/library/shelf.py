"""A shelf: what the files of one kind define, layer by layer. A mistake spoils only what uses it.

An entry with a mistake of its own is kept, and refused when it is asked for. Of a file that cannot be read nobody knows
the entries: it spoils what it may redefine, which are entries of later layers whose name occurs in its text,
other than as what is extended.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from sweeper.errors import Problem, Problems, SpecError, brief, unknown
from sweeper.library.entries import Definition
from sweeper.reading import checks
from sweeper.reading.nodes import Node, compose, read_text

_EXTENDED = re.compile(r"(?<![\w.-])extends:[ \t]+[^\s,}]+")


@dataclass(frozen=True)
class BrokenFile:
    """A file whose entries are not known: its layer, its text as far as it can be read, and its mistakes."""

    layer: int
    text: str | None
    problems: tuple[Problem, ...]

    def may_define(self, name: str) -> bool:
        """Whether an entry of this name may stand in the file: as a word that is not only extended there."""
        if self.text is None:
            return True
        word = rf"(?<![\w.-]){re.escape(name.casefold())}(?![\w.-])"
        return re.search(word, _EXTENDED.sub("", self.text.casefold())) is not None


class NoEntry(LookupError):
    """No entry has a name; `mistakes` are those of the files in which it may stand all the same."""

    def __init__(self, message: str, mistakes: Sequence[Problem]) -> None:
        super().__init__(f"{message}; it may stand in a file that cannot be read" if mistakes else message)
        self.mistakes = mistakes

    def __str__(self) -> str:
        return ": ".join(filter(None, [str(self.args[0]), "; ".join(map(str, self.mistakes))]))

    def at(self, node: Node) -> SpecError:
        """The mistake of a node that names it, with those of the files."""
        return SpecError([node.problem(self.args[0]), *self.mistakes])


@dataclass
class Shelf:
    """Definitions of one kind: by name from the first layer to the last, and the name that each alias stands for."""

    definitions: dict[str, list[Definition]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    broken: list[BrokenFile] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the entries that can be read, first layer first."""
        return tuple(name for name, stack in self.definitions.items() if not stack[0].problems)

    @property
    def problems(self) -> Problems:
        """All mistakes of files and of names."""
        files = (problem for file in self.broken for problem in file.problems)
        entries = (problem for stack in self.definitions.values() for one in stack for problem in one.problems)
        return Problems([*files, *entries])

    def require(self, definition: Definition, *words: str) -> None:
        """Raise SpecError if a definition, which was asked for by these words, is spoilt or may be redefined."""
        problems = Problems(definition.problems)
        for file in self.broken:
            if file.layer < definition.layer and any(map(file.may_define, words)):
                problems.extend(file.problems)
        problems.raise_any()

    def forbid_twice(self, names: Mapping[str, str], layer: int, first: int) -> None:
        """Give a mistake to the entries of a layer, and to those of the layers from `first` on before it, that are
        called alike: nobody chose which of them hides the other."""
        for alias, name in names.items():
            owner = self.aliases.get(alias, "")
            for other in [one for one in self.definitions.get(owner, []) if first <= one.layer < layer]:
                mine = next(one for one in self.definitions[name] if one.layer == layer)
                for one, rival in ((mine, other), (other, mine)):
                    message = f"{alias!r} is also a name of {rival.name!r} at {rival.node.file}:{rival.place[0]}"
                    stack = self.definitions[one.name]
                    place = next(at for at, each in enumerate(stack) if each.layer == one.layer)
                    stack[place] = replace(stack[place], problems=(*stack[place].problems, one.problem(message)))

    def forbid_hidden(self, definitions: dict[str, Definition], layers: int) -> None:
        """Give a mistake to the entries of the first `layers` layers with an alias that is a name of these definitions,
        of a later one, and to what has that name: an entry is found by its name first, so the alias never would be."""
        for name, hiding in definitions.items():
            owner = self.aliases.get(name.casefold(), name)
            stack = self.definitions.get(owner, []) if owner != name else []
            for place, one in enumerate(stack):
                node = _written(one).get("aliases")
                with suppress(SpecError):  # of aliases that cannot be read the entry has a mistake already
                    if node and one.layer < layers and name in checks.aliases(node):
                        message = f"{brief(name)} is the name of the entry at {hiding.node.file}:{hiding.place[0]}"
                        problem = node.problem(f"{message}, which is found by it instead")
                        stack[place] = replace(one, problems=(*one.problems, problem))
                        definitions[name] = replace(hiding, problems=(*hiding.problems, problem))

    @cached_property
    def words(self) -> frozenset[str]:
        """Names, aliases and tags of all entries, by any of which another entry may say what it belongs to."""
        written = [_written(one) for stack in self.definitions.values() for one in stack]
        tags = (_names(one["tags"], "tags") for one in written if "tags" in one)
        aliases = (_names(one["aliases"], "aliases") for one in written if "aliases" in one)
        return frozenset(self.definitions).union(*tags, *aliases)

    def absent(self, what: str, name: str, names: Iterable[str], kind: str) -> NoEntry:
        """What to raise for a name that no entry of a kind has."""
        return self.lacking(unknown(what, name, names, also=self.aliases, kind=kind))

    def lacking(self, message: str) -> NoEntry:
        """What to raise for an entry that no file gives, as a message says."""
        return NoEntry(message, [problem for file in self.broken for problem in file.problems])


def read_shelf(kind: str, folders: Sequence[Path], installed: int | None = None) -> Shelf:
    """Read the files of one kind, a folder for each layer; those from the number `installed` on must not hide each
    other's entries."""
    shelf = Shelf()
    for layer, folder in enumerate(folders):
        definitions: dict[str, Definition] = {}
        for path in sorted(folder.glob("*.y*ml")):
            read = _definitions(kind, layer, path)
            if isinstance(read, BrokenFile):
                shelf.broken.append(read)
                continue
            for definition in read:
                first = definitions.setdefault(definition.name, definition)
                if first is not definition:
                    message = f"defined twice (first at {first.node.file}:{first.place[0]})"
                    definitions[definition.name] = replace(
                        first, problems=(*first.problems, *definition.problems, definition.problem(message))
                    )
        aliases = _aliases(definitions)
        shelf.forbid_hidden(definitions, len(folders) if installed is None else installed)
        for name, definition in definitions.items():
            shelf.definitions.setdefault(name, []).append(definition)
        if installed is not None and layer >= installed:
            shelf.forbid_twice(aliases, layer, installed)
        # They hide nothing of the layers before.
        shelf.aliases = {**aliases, **shelf.aliases}
    return shelf


def _definitions(kind: str, layer: int, path: Path) -> list[Definition] | BrokenFile:
    """Entries of one file, each with its own mistakes."""
    text = None
    try:
        text = read_text(path)
        root, mistakes = compose(text, str(path))
        if root is None:
            raise SpecError(mistakes)
        entries = checks.mapping(root, "a library file")
        owners = {problem: _owner(problem.path, entries) for problem in mistakes}
        if None in owners.values():
            raise SpecError(mistakes)
    except SpecError as fault:
        return BrokenFile(layer, text, tuple(fault.problems))
    return [
        replace(definition, problems=(*(p for p in mistakes if owners[p] == name), *_structural(definition)))
        for name, node in entries.items()
        for definition in [Definition(kind, name, layer, node, root.marks[name])]
    ]


def _owner(path: str, names: Iterable[str]) -> str | None:
    """The longest of some names with which a path begins."""
    held = [name for name in names if path == name or path.startswith((f"{name}.", f"{name}["))]
    return max(held, key=len, default=None)


def _structural(definition: Definition) -> Iterator[Problem]:
    """What is wrong with an entry whatever its kind: its name, or that it is no mapping."""
    if not checks.is_name(definition.name):
        yield definition.problem(checks.misnamed(definition.name, "the name of an entry"))
    if not isinstance(definition.node.value, dict):
        yield definition.node.problem(
            f"found {definition.node.kind}; a {definition.kind} must be a mapping of keys to values"
        )


def _aliases(definitions: dict[str, Definition]) -> dict[str, str]:
    """The name that each name and alias of one layer stands for; a definition that gives one in vain gets a mistake."""
    owners = {name.casefold(): name for name in definitions}
    for name, definition in definitions.items():
        problems = Problems()
        with problems.collecting():
            node = _written(definition).get("aliases")
            for alias in checks.aliases(node) if node else ():
                owner = owners.setdefault(alias.casefold(), name)
                if owner != name:
                    assert node is not None
                    problems.append(node.problem(f"{brief(alias)} is already a name of {owner!r}"))
        if problems:
            definitions[name] = replace(definition, problems=(*definition.problems, *problems))
    return owners


def _names(node: Node, what: str) -> tuple[str, ...]:
    """Names that an entry gives; none where they cannot be read, of which it has a mistake of its own."""
    try:
        return checks.texts(node, what)
    except SpecError:
        return ()


def _written(definition: Definition) -> Mapping[str, Node]:
    """Keys of an entry; none of what is no mapping."""
    return definition.node.value if isinstance(definition.node.value, dict) else {}
