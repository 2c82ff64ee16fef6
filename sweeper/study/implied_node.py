"""The node of a package whose chip is generated: a technology tells in which process its dies are made."""

from dataclasses import replace

from sweeper.library.library import Library
from sweeper.study.columns import Stock
from sweeper.study.drafts import BoxDraft
from sweeper.words.system import ENTRY_DEFAULTS

ITSELF = ENTRY_DEFAULTS["technology"]
"""The technology of the template itself."""
PROCESS = "process_"
"""Beginning of the tag by which a template tells its process."""


def node_of(library: Library, technology: str, template: str) -> str | None:
    """The node that a technology belongs to, or the process of the template if it changes none; None where neither
    tells exactly one that the library has.

    >>> from sweeper.library.library import Library, builtin_specs
    >>> node_of(Library.load([builtin_specs()]), "public_n5_from_n7", "gpu_n7")
    'n5'
    """
    entry = library.find("technology", technology)
    nodes = entry.fits.get("node", ())
    if entry.name == ITSELF:
        tags = library.find("template", template).tags
        nodes = tuple(tag.removeprefix(PROCESS) for tag in tags if tag.startswith(PROCESS))
    return nodes[0] if len(nodes) == 1 and nodes[0] in library.names("node") else None


def imply_nodes(draft: BoxDraft, stock: Stock) -> None:
    """Give a box the nodes that its technologies tell, beside them, if a package of it takes its node from the study,
    which gives none. Nothing where a technology tells no node, or not the same for all templates."""
    wanting = any(stock.package(name).reads("node") for name in draft.names("package"))
    if not wanting or draft.names("node") or not draft.names("template"):
        return
    column = "technology" if draft.names("technology") else "template"
    other = {"technology": "template", "template": "technology"}[column]
    others = draft.names(other) or (ITSELF,)
    for name, axis in draft.read.items():
        if column in axis.columns:
            at = axis.columns.index(column)
            told = [
                {node_of(stock.library, **{column: str(row[at]), other: each}) for each in others} for row in axis.rows
            ]
            nodes = [each.pop() for each in told if len(each) == 1]
            if len(nodes) == len(axis.rows) and None not in nodes:
                rows = tuple((*row, str(node)) for row, node in zip(axis.rows, nodes, strict=True))
                draft.read[name] = replace(axis, columns=(*axis.columns, "node"), rows=rows)
