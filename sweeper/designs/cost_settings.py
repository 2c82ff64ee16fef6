"""What a command may set of package designs: their parameters, the node that they select, and that node's numbers."""

from collections.abc import Iterable, Sequence

from sweeper.errors import UsageFault
from sweeper.inputs.packages import PACKAGE_ROLE
from sweeper.library.library import Library
from sweeper.library.packages.design import PackageDesign
from sweeper.reading.expressions import Expression
from sweeper.study.columns import Stock
from sweeper.study.settings import read_pairs
from sweeper.words.columns import DEFAULTS, engine_column
from sweeper.words.numbers import NUMBERS
from sweeper.words.system import NUMERIC, ROLES


def named_design(stock: Stock, name: str) -> PackageDesign:
    """A package design of the library. Raises UsageFault for an unknown name, and for a package that takes power and
    cores of a generated chip, SpecError for mistakes of its entry."""
    design = stock.package(stock.library.asked(PACKAGE_ROLE, name).name)
    if design.made:
        raise UsageFault(f"{design.name} is of a chip that a study generates: price it there, with chip_cost: package")
    return design


def settable(design: PackageDesign) -> frozenset[str]:
    """Columns on which a design depends: its parameters, numbers of the entries that it names, by their paths, and what
    its expressions take from the study."""
    used = frozenset().union(*(design.symbols(cell) for cell in design.cells if isinstance(cell, Expression)))
    columns = [name for name in NUMERIC if not name.startswith(f"{PACKAGE_ROLE}.") and engine_column(name) in used]
    roles = (name.partition(".")[0] for name in columns)
    return frozenset({*columns, *roles, *(f"{PACKAGE_ROLE}.{name}" for name in design.parameters), *design.quoted})


def read_settings(
    texts: Iterable[str], library: Library, designs: Sequence[PackageDesign]
) -> tuple[dict[str, float | str], ...]:
    """Settings of each design from texts `NAME=VALUE`, values as a study would give them.

    A design takes those that it depends on. Raises UsageFault for a text of another form, for a name on which no design
    depends or that is given twice, for a value that does not fit its name, and if a design lacks one that it needs.
    """
    allowed = [settable(design) for design in designs]
    every = frozenset[str]().union(*allowed)
    names = " and ".join(design.name for design in designs)
    settings = read_pairs(texts, every, names, "package.memory_stacks=6", Stock(library))
    for design, columns in zip(designs, allowed, strict=True):
        _check_needs(design, columns - settings.keys(), library)
    return tuple({name: settings[name] for name in settings if name in columns} for columns in allowed)


def _check_needs(design: PackageDesign, absent: Iterable[str], library: Library) -> None:
    """Raise UsageFault if a design lacks an entry that it selects, or a number that has no default."""
    for name in sorted(absent):
        if name in ROLES:
            allowed = ", ".join(sorted(library.names(ROLES[name])))
            raise UsageFault(f"{design.name} needs a {name}: give --set {name}=NAME (allowed: {allowed})")
        if name in NUMBERS and name not in DEFAULTS:
            raise UsageFault(f"{design.name} needs {name}: give --set {name}=VALUE")
