"""Reading YAML into a tree of nodes that know where they stand, under the scalar rules of YAML 1.2.

PyYAML's event stream is composed here rather than by PyYAML itself. That way every mistake of a file is reported at
once and with its position, and nothing in a file can run code, recurse, or grow: tags and merge keys are refused,
and depth, size and the expansion of aliases are bounded. Scalars follow the core schema of YAML 1.2: `1e3` is a
number, while `no`, `12:30`, `1_000` and `010` are text, which is refused where a number or a boolean is needed.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from sweeper.errors import Place, Problem, Problems, SpecError, brief

MAX_BYTES = 4_000_000
MAX_DEPTH = 40
MAX_NODES = 400_000
"""Limit on the nodes of a document after expansion of its aliases."""

MAX_PROBLEMS = 50
"""Reading of a file stops after so many mistakes: the rest are most often consequences."""

Scalar = str | int | float | bool | None

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONTROL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TABBED = re.compile(r" *\t")

_PLAIN: tuple[tuple[str, Callable[[str], Scalar]], ...] = (
    (r"null|Null|NULL|~|", lambda text: None),
    (r"true|True|TRUE", lambda text: True),
    (r"false|False|FALSE", lambda text: False),
    (r"[-+]?(?:0|[1-9][0-9]{0,17})", int),
    (r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", float),
    (r"[-+]?\.(?:inf|Inf|INF)", lambda text: float(text.replace(".", ""))),
    (r"\.(?:nan|NaN|NAN)", lambda text: float("nan")),
)
"""Plain scalars of YAML 1.2 that are not text, in order of test."""
_NOT_TEXT = re.compile("|".join(f"({pattern})$" for pattern, _ in _PLAIN))
"""One group for each of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A scalar, a sequence or a mapping, and where it stands.

    `value` is a scalar, a tuple of nodes, or a dict from key to node; `text` is a scalar as it was written, and
    `text_column` the column where that text begins (0 if it spans several lines); `marks` gives line and column of
    every key of a mapping; `size` and `height` count nodes and levels with aliases expanded. A node that is
    reached through an alias is the node of the anchor, so its position is where the text stands.
    """

    value: "Scalar | tuple[Node, ...] | dict[str, Node]"
    file: str
    line: int
    column: int
    path: str
    text: str = ""
    text_column: int = 0
    marks: dict[str, tuple[int, int]] = field(default_factory=dict)
    size: int = 1
    height: int = 1

    @property
    def kind(self) -> str:
        """What the node is, in the words of a message."""
        value = self.value
        if isinstance(value, dict):
            return "a mapping"
        if isinstance(value, tuple):
            return "a list"
        return "nothing" if value is None else brief(self.text)

    def plain(self) -> Any:
        """The node as plain lists and dicts."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.plain() for node in self.value]
        return self.value

    def problem(self, message: str, offset: int = 0) -> Problem:
        """A problem at this node, `offset` characters into its text."""
        column = self.text_column + offset if offset and self.text_column else self.column
        return Problem(self.file, self.line, column, self.path, message)

    @property
    def place(self) -> Place:
        """Where the node stands."""
        return Place(self.file, self.line, self.column, self.path)

    def key_place(self, key: str) -> Place:
        """Where a key of this mapping stands."""
        line, column = self.marks[key]
        return Place(self.file, line, column, child_path(self.path, key))

    def key_problem(self, key: str, message: str) -> Problem:
        """A problem at a key of this mapping."""
        return self.key_place(key).problem(message)


def error(node: Node, message: str, offset: int = 0) -> SpecError:
    """A SpecError of one problem at a node."""
    return SpecError([node.problem(message, offset)])


def child_path(path: str, key: str) -> str:
    """Path of a mapping's value."""
    return f"{path}.{key}" if path else key


def read_yaml(path: Path, limit: int = MAX_BYTES) -> Node:
    """Read a file of one YAML document, as a tree of nodes.

    Raises SpecError with all mistakes of the file: unreadable, larger than `limit` bytes, not UTF-8, empty, several
    documents, bad syntax, duplicate keys, tags, and what else this module refuses.
    """
    return parse_yaml(read_text(path, limit), str(path))


def read_text(path: Path, limit: int = MAX_BYTES) -> str:
    """Text of a file. Raises SpecError if it cannot be read, is larger than `limit` bytes, or is not UTF-8."""
    file = str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "strerror", None) or fault
        raise SpecError([Problem(file, 1, 1, "", f"cannot read the file: {reason}")]) from None
    if len(data) > limit:
        raise SpecError([Problem(file, 1, 1, "", f"the file is larger than {limit} bytes, the most that is read")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line, column = _position(data[: fault.start].decode("utf-8", "replace"))
        message = f"byte 0x{data[fault.start]:02x} is not UTF-8; save the file as UTF-8"
        raise SpecError([Problem(file, line, column, "", message)]) from None


def parse_yaml(text: str, file: str = "<text>") -> Node:
    """Read the text of one YAML document; `file` is the name used in messages. Raises SpecError."""
    root, problems = compose(text, file)
    if problems or root is None:
        raise SpecError(problems)
    return root


@lru_cache(maxsize=512)
def compose(text: str, file: str) -> tuple[Node | None, tuple[Problem, ...]]:
    """The tree of a YAML document and its mistakes; None where these are not each confined to what its path names.

    Nodes are frozen and depend on the text alone, so the library's files are read once in a process.
    """
    control = _CONTROL.search(text)
    if control:
        line, column = _position(text[: control.start()])
        return None, (Problem(file, line, column, "", f"character {control.group()!r} is not allowed in YAML"),)
    composer = _Composer(file)
    try:
        for event in _events(text):
            composer.take(event)
            if len(composer.problems) >= MAX_PROBLEMS:
                break
    except _Stop:
        pass
    except yaml.MarkedYAMLError as fault:
        composer.problems.append(_syntax_problem(fault, text, file))
    except yaml.YAMLError as fault:
        composer.problems.append(Problem(file, 1, 1, "", f"not YAML: {fault}"))
    return composer.result()


def _events(text: str) -> Iterator[yaml.Event]:
    loader = _LOADER(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


def _position(before: str) -> tuple[int, int]:
    """Line and column of the character after `before`."""
    lines = before.splitlines() if before else [""]
    if before.endswith(("\n", "\r")):
        lines.append("")
    return len(lines), len(lines[-1]) + 1


def _place(event: yaml.Event) -> tuple[int, int]:
    """Line and column at which an event begins."""
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


def _syntax_problem(fault: yaml.MarkedYAMLError, text: str, file: str) -> Problem:
    mark = fault.problem_mark or fault.context_mark
    if fault.context_mark and "end of stream" in (fault.problem or ""):
        # What is not closed is of more use than where the file ends.
        mark = fault.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    message = " ".join(part for part in (fault.context, fault.problem) if part)
    lines = text.splitlines() or [""]
    if line > len(lines):
        # What is missing at the end belongs to the last line that there is.
        line, column = len(lines), len(lines[-1]) + 1
    source = lines[line - 1]
    if _TABBED.match(source):
        return Problem(file, line, source.index("\t") + 1, "", "a tab where YAML needs spaces; indent with spaces")
    if fault.context_mark and fault.context_mark.line + 1 < line:
        message += f" (begun at line {fault.context_mark.line + 1})"
    return Problem(file, line, column, "", f"not YAML: {message}")


@dataclass
class _Open:
    """A sequence or mapping that is being read."""

    event: yaml.CollectionStartEvent
    path: str
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Node] = field(default_factory=dict)
    marks: dict[str, tuple[int, int]] = field(default_factory=dict)
    key: str | None = None
    skipping: bool = False
    """The next value belongs to a key that was refused."""

    def __post_init__(self) -> None:
        self.is_list = isinstance(self.event, yaml.SequenceStartEvent)


class _Stop(Exception):
    """The rest of a document is not read."""


class _Composer:
    """Builds the node tree from the event stream, and notes problems."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.root: Node | None = None
        self.problems = Problems()
        self._stack: list[_Open] = []
        self._anchors: dict[str, Node | None] = {}
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        """Process one event."""
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents == 2:
                self._refuse(event, "a second document begins; a file holds one")
        elif self._documents > 1:
            return
        elif isinstance(event, yaml.ScalarEvent):
            self._check(event)
            if self._is_key() and not event.anchor:
                self._begin_key(event, event.value)
            else:
                self._anchor(event, self._place(event, self._scalar(event)))
        elif isinstance(event, yaml.AliasEvent):
            self._place(event, self._alias(event))
        elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            self._check(event)
            if event.anchor:
                self._anchors[event.anchor] = None
            self._stack.append(_Open(event, self._path()))
            if len(self._stack) > MAX_DEPTH:
                self._stop(event, f"nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            opened = self._stack.pop()
            self._anchor(opened.event, self._place(opened.event, self._container(opened)))

    def result(self) -> tuple[Node | None, tuple[Problem, ...]]:
        """The tree and the mistakes; no tree where it is not whole, or aliases may have carried a mistake elsewhere."""
        if self.root is None and not self.problems:
            self.problems.append(Problem(self.file, 1, 1, "", "the file is empty"))
        return None if self.problems and self._anchors else self.root, tuple(self.problems)

    def _path(self) -> str:
        if not self._stack:
            return ""
        top = self._stack[-1]
        if top.is_list:
            return f"{top.path}[{len(top.items) + 1}]"
        return top.path if top.key is None else child_path(top.path, top.key)

    def _refuse(self, event: yaml.Event, message: str) -> None:
        self.problems.append(Problem(self.file, *_place(event), self._path(), message))

    def _stop(self, event: yaml.Event, message: str) -> None:
        self._refuse(event, message)
        raise _Stop

    def _check(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        if event.tag not in (None, "!"):
            self._refuse(event, f"tag {event.tag!r} is not allowed; a study holds plain data")

    def _scalar(self, event: yaml.ScalarEvent) -> Node:
        plain = event.implicit[0] and not event.style
        text: str = event.value
        value: Scalar = text
        if plain:
            found = _NOT_TEXT.match(text)
            value = _PLAIN[found.lastindex - 1][1](text) if found and found.lastindex else text
        line, column = _place(event)
        single = event.end_mark is not None and event.end_mark.line + 1 == line
        text_column = column + (0 if plain else 1) if single else 0
        return Node(value, self.file, line, column, self._path(), text, text_column)

    def _alias(self, event: yaml.AliasEvent) -> Node:
        node = self._anchors.get(event.anchor or "")
        if node is None:
            known = event.anchor in self._anchors
            self._refuse(event, f"alias *{event.anchor} {'refers to itself' if known else 'has no anchor before it'}")
            return Node(None, self.file, *_place(event), self._path())
        if len(self._stack) + node.height > MAX_DEPTH:
            self._stop(event, f"alias *{event.anchor} nests deeper than {MAX_DEPTH} levels")
        return node

    def _container(self, opened: _Open) -> Node:
        children = opened.items if opened.is_list else list(opened.entries.values())
        size = 1 + sum(child.size for child in children)
        if size > MAX_NODES:
            self._stop(opened.event, f"more than {MAX_NODES} values once aliases are expanded")
        return Node(
            tuple(opened.items) if opened.is_list else opened.entries,
            self.file,
            *_place(opened.event),
            opened.path,
            marks=opened.marks,
            size=size,
            height=1 + max((child.height for child in children), default=0),
        )

    def _anchor(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, node: Node) -> None:
        if event.anchor:
            self._anchors[event.anchor] = node

    def _place(self, event: yaml.Event, node: Node) -> Node:
        """Put a finished node where it belongs: the root, a list's item, a mapping's key or value."""
        if not self._stack:
            self.root = node
            return node
        top = self._stack[-1]
        if top.is_list:
            top.items.append(node)
        elif top.skipping:
            top.skipping = False
        elif top.key is None:
            self._begin_key(event, None if isinstance(node.value, dict | tuple) else node.text)
        else:
            top.entries[top.key] = node
            top.key = None
        return node

    def _is_key(self) -> bool:
        """Whether what comes next is the key of a mapping."""
        top = self._stack[-1] if self._stack else None
        return top is not None and not top.is_list and top.key is None and not top.skipping

    def _begin_key(self, event: yaml.Event, key: str | None) -> None:
        """Take a key of the innermost mapping, None for one that is no scalar."""
        top = self._stack[-1]
        if key is None:
            self._refuse(event, "a key must be a name, not a list or a mapping; quote text that holds { or [")
            top.skipping = True
        elif key == "<<":
            self._refuse(event, "merge key '<<' is not allowed; use 'extends' in a library entry")
            top.skipping = True
        elif key in top.marks:
            path = child_path(top.path, key)
            message = f"duplicate key {brief(key)} (first at line {top.marks[key][0]})"
            self.problems.append(Problem(self.file, *_place(event), path, message))
            top.skipping = True
        else:
            top.key = key
            top.marks[key] = _place(event)
