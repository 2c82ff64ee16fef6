"""Fitted constants put into the library files that define their calibrations."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from sweeper.errors import UsageFault
from sweeper.evidence.calibration import Fit
from sweeper.library.library import builtin_specs
from sweeper.reading.units import quantity
from sweeper.words.software import CALIBRATION


def write_constants(fits: Iterable[Fit], folder: Path | None = None) -> list[Path]:
    """Put fitted constants into the library files that define their calibrations; all else in them stays as it is.

    Gives the files. Raises UsageFault for an entry or a constant that is not written out there.
    """
    files = sorted((folder or builtin_specs() / "calibrations").glob("*.yaml"))
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    for fit in fits:
        values = {name: float(fit.values[at]) for name, at in fit.calibration.constants.items()}
        for entry in (fit.calibration.name, *fit.calibration.also):
            path = next((path for path, text in texts.items() if re.search(rf"^{re.escape(entry)}:", text, re.M)), None)
            if path is None:
                raise UsageFault(f"no file of specs/calibrations defines {entry}")
            texts[path] = with_values(texts[path], entry, values)
    changed = [path for path, text in texts.items() if text != path.read_text(encoding="utf-8")]
    for path in changed:
        path.write_text(texts[path], encoding="utf-8")
    return changed


def with_values(text: str, entry: str, values: Mapping[str, float]) -> str:
    """A library file with other values of an entry's constants, in the units in which they stand there."""
    match = re.search(rf"^{re.escape(entry)}:.*\n(?:(?:[ #].*)?\n)*", text, re.M)
    assert match is not None, entry
    block = match.group()
    for name, value in values.items():
        block, count = re.subn(
            rf"^(  {name}: (?:\{{ *value: )?)([-+.\deE]+)( [^\s,}}#]+)?",
            replacing(value, CALIBRATION[name].unit),
            block,
            flags=re.M,
        )
        if count != 1:
            raise UsageFault(f"{entry} does not give {name}")
    return text[: match.start()] + block + text[match.end() :]


def replacing(value: float, base: str) -> Callable[[re.Match[str]], str]:
    """What to put for a number with a unit: the value (in the unit `base`) in the unit found."""

    def text(match: re.Match[str]) -> str:
        unit = match[3] or ""
        factor = quantity(f"1{unit}", base) if unit else 1.0
        return f"{match[1]}{value / factor:.4g}{unit}"

    return text
