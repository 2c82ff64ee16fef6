"""What a command may set of package designs: their parameters, the node that they select, and that node's numbers."""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from sweeper.designs.cost_draws import columns_of
from sweeper.designs.package_draws import evaluate_design
from sweeper.errors import UsageFault, unknown
from sweeper.inputs.numbers import YEAR
from sweeper.inputs.packages import PACKAGE_ROLE
from sweeper.library.library import Library
from sweeper.library.packages.design import SELECTABLE, PackageDesign
from sweeper.reading import checks
from sweeper.reading.checks import Fields
from sweeper.study.columns import Stock, read_value
from sweeper.study.settings import Settings, idle, read_pairs
from sweeper.words.columns import DEFAULTS, engine_column, numeric
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
    its expressions take from the study.
    """
    own = f"{PACKAGE_ROLE}."
    columns = [name for name in NUMERIC if not name.startswith(own) and engine_column(name) in design.used]
    roles = {name.partition(".")[0] for name in columns}
    years = {YEAR} if any(cell.value.path for cell in design.quoted.values()) or "node" in roles else ()
    return frozenset({*columns, *roles, *years, *design.numbers})


def read_settings(
    texts: Iterable[str], library: Library, designs: Sequence[PackageDesign]
) -> tuple[dict[str, float | str], ...]:
    """Settings of each design from texts `NAME=VALUE`, values as a study would give them.

    A design takes those that it depends on. Raises UsageFault for a text of another form, for a name on which no design
    depends or that is given twice, for a value that does not fit its name, and if a design lacks one that it needs.
    """
    texts = list(texts)
    allowed = [settable(design) for design in designs]
    allowed = [columns | selected_paths(texts, columns, library) for columns in allowed]
    every = frozenset[str]().union(*allowed)
    names = " and ".join(design.name for design in designs)
    stock = Stock(library, packages={design.name: design for design in designs})
    settings = read_pairs(texts, every, names, "package.memory_stacks=6", stock)
    for design, columns in zip(designs, allowed, strict=True):
        check_needs(design, columns - settings.keys(), library)
    return tuple({name: settings[name] for name in settings if name in columns} for columns in allowed)


def settings_of(
    written: Fields, design: PackageDesign, stock: Stock, except_for: Collection[str] = ()
) -> dict[str, float | str]:
    """What the key `set` of a file about a design gives; mistakes go to the problems of the file. Raises UsageFault if
    the design lacks what it needs."""
    given = written.read("set", checks.mapping, "set", default={})
    columns = settable(design) - frozenset(except_for)
    columns |= selected_paths([f"{key}={item.text}" for key, item in given.items()], columns, stock.library)
    settings: dict[str, float | str] = {}
    for key, item in given.items():
        if key not in columns:
            plain = [column for column in columns if "/" not in column]
            message = unknown(f"setting of {design.name}", key, plain, also=columns)
            written.problems.append(written["set"].key_problem(key, message))
            continue
        with written.problems.collecting():
            settings[key] = read_value(key, item, stock)
    if not written.problems:
        check_needs(design, columns - settings.keys(), stock.library)
    return settings


def setting_units(design: PackageDesign, settings: Settings) -> dict[str, str]:
    """Units of the numbers among the settings of a design, those of its parameters as its entry gives them."""
    own = {f"{PACKAGE_ROLE}.{name}": value.unit for name, value in design.parameters.items()}
    known = {name: numeric(name) for name in settings}
    return {name: own.get(name, attribute.unit) for name, attribute in known.items() if attribute is not None}


def idle_settings(design: PackageDesign, library: Library, settings: Settings) -> list[str]:
    """Numbers among the settings of a design without which its cost and facts are the same: what they replace is not
    read, as in a test that is not made, does not bind, or has this value anyway."""

    def found(given: Settings) -> dict[str, float]:
        results = evaluate_design(design, library, given)
        columns = {name: float(value[0]) for name, value in columns_of(results.results).items()}
        return columns | {"status": float(results.of("status")[0])}

    own = [name for name in settings if name not in ROLES and (name not in NUMBERS or name in DEFAULTS)]
    return idle(settings, own, found)


def selected_paths(texts: Iterable[str], columns: Collection[str], library: Library) -> frozenset[str]:
    """Paths of the numbers of the entries that settings select for a design; of unknown ones none."""
    paths = set[str]()
    for text in texts:
        role, _, name = (part.strip() for part in text.partition("="))
        with suppress(LookupError):
            if role in SELECTABLE and role in columns:
                entry = library.find(role, name)
                paths |= {f"{role}/{entry.name}/{number}" for number in entry.values}
    return frozenset(paths)


def check_needs(design: PackageDesign, absent: Iterable[str], library: Library) -> None:
    """Raise UsageFault if a design lacks an entry that it selects, or a number that has no default."""
    for name in sorted(absent):
        if name in ROLES:
            allowed = ", ".join(sorted(library.names(ROLES[name])))
            raise UsageFault(f"{design.name} needs {name}: give --set {name}=NAME (allowed: {allowed})")
        if name in NUMBERS and name not in DEFAULTS:
            raise UsageFault(f"{design.name} needs {name}: give --set {name}=VALUE")
