"""Kinds of library entries with their attributes, the roles that entries fill, and all columns of numbers.

Everything here is data. A column of the engine is named `<role>_<attribute>_<unit>` for a library attribute
(`memory_bandwidth_Bps`) and by its own name for a mapping or an assumption (`tensor_parallel`, `overlap`).
"""

from sweeper.words.attributes import Attribute
from sweeper.words.chips import LANE, STACK, TECHNOLOGY, TEMPLATE
from sweeper.words.fabrics import FABRIC
from sweeper.words.hardware import CHIP, LINK, MEMORY
from sweeper.words.models import MODEL
from sweeper.words.numbers import NUMBERS
from sweeper.words.packages import ASSEMBLY, FACILITY, INTERFACE, NODE, PACKAGE, PART, TEST, WAFER
from sweeper.words.software import CALIBRATION

GRADES = ("measured", "fitted", "datasheet", "estimate", "assumed")

ATTRIBUTES: dict[str, dict[str, Attribute]] = {
    "chip": CHIP,
    "memory": MEMORY,
    "link": LINK,
    "calibration": CALIBRATION,
    "node": NODE,
    "wafer": WAFER,
    "assembly": ASSEMBLY,
    "test": TEST,
    "interface": INTERFACE,
    "part": PART,
    "facility": FACILITY,
    "template": TEMPLATE,
    "technology": TECHNOLOGY,
    "stack": STACK,
    "lane": LANE,
    "fabric": FABRIC,
}
"""Numeric attributes by kind of library entry."""

ROLES = {
    "workload": "workload",
    "chip": "chip",
    "topology": "topology",
    "memory": "memory",
    "link": "link",
    "outer_link": "link",
    "calibration": "calibration",
    "facility": "facility",
    "node": "node",
    "package": "package",
    "template": "template",
    "technology": "technology",
    "stack": "stack",
    "lane": "lane",
    "outer_lane": "lane",
    "fabric": "fabric",
    "unit_model": "unit_model",
    "wafer": "wafer",
    "assembly": "assembly",
    "test": "test",
    "interface": "interface",
    "part": "part",
}
"""Columns whose values are library entries, and the kind of entry. `link` serves the first network dimension,
`outer_link` the others (the same as `link` unless a study says otherwise)."""

STAND_INS = {"outer_link": "link"}
"""Roles that another role's column fills where a study does not name an entry."""
PLACEHOLDER = "generated"
"""Entries of this name stand for what is generated; selections from the library leave them out."""
ENTRY_DEFAULTS = {
    "calibration": "uncalibrated",
    "facility": "datacenter",
    "technology": "as_template",
    "chip": PLACEHOLDER,
    "memory": PLACEHOLDER,
    "link": PLACEHOLDER,
}
"""Entries that fill a role where a study names none; the placeholder where it names what they are generated from."""
GENERATED_FROM = {"chip": "template", "memory": "stack", "link": "lane", "outer_link": "outer_lane"}
"""Roles whose numbers are generated where a study fills another role."""
OPTIONAL_ROLES = (
    *("node", "package", "template", "stack", "lane", "outer_lane", "fabric", "unit_model"),
    *("wafer", "assembly", "test", "interface", "part"),
)
"""Roles that nothing fills where a study names none: columns that need them are then unknown."""

OVERRIDES: dict[str, Attribute] = {
    f"{role}.{name}": attribute
    for role, kind in ROLES.items()
    for name, attribute in {"workload": MODEL, "package": PACKAGE}.get(kind, ATTRIBUTES.get(kind, {})).items()
}
"""Columns such as `memory.bandwidth` or `workload.hidden`, which replace a number of the selected entry."""

NUMERIC: dict[str, Attribute] = {**NUMBERS, **OVERRIDES}
"""All columns of numbers."""
