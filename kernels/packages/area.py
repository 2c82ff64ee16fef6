"""Area of every die: core, cells and vias, or the field of pads, or what is mounted on it (CATCH, A2 to A4)."""

import math

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.packages.layout import Record, Unit


@compiled
def enlarged(area: float, margin: float, aspect: float) -> float:
    """Area of a rectangle after a margin is added on every side; 0 of nothing."""
    if area <= 0.0:
        return 0.0
    return (math.sqrt(area * aspect) + 2.0 * margin) * (math.sqrt(area / aspect) + 2.0 * margin)


@compiled
def count_pads(unit: Unit, face: Record, back: Record) -> None:
    """Power, pads and vias of a die whose children are known. Pads for power are round, half as wide as their pitch."""
    code, die, host, conventions, parts, result = unit
    own = die.power_W + parts.io_power_W
    own = own if math.isnan(die.given_power_W) else die.given_power_W
    result.total_power_W = own + face.total_power_W + back.total_power_W
    # Bonds to the host are of the host's process.
    process = die if conventions.own_pads == 1.0 else host
    current_A = process.assembly_current_density_A_per_mm2 * math.pi * (process.assembly_pitch_mm / 4.0) ** 2
    per_pad = current_A * die.voltage_V
    power_pads = 2.0 * math.ceil(result.total_power_W / per_pad) if per_pad > 0.0 else 0.0
    test_pads = die.test_self_tested * (
        die.test_self_pads_per_chain * die.test_self_chains + die.test_self_pads
    ) + die.test_assembly_tested * (
        die.test_assembly_pads_per_chain * die.test_assembly_chains + die.test_assembly_pads
    )
    pads = parts.signals + power_pads + test_pads
    on_back = back.pads_to_parent
    if code.face_up == 1:
        to_parent = pads + on_back
        vias = to_parent if conventions.all_pads_are_vias == 1.0 else to_parent - test_pads
    else:
        to_parent = pads + face.pads_to_parent
        vias = on_back
    result.power_pads, result.test_pads, result.pads = power_pads, test_pads, pads
    result.pads_to_parent, result.vias = to_parent, vias
    result.via_area_mm2 = die.assembly_tsv_area_mm2 * vias


@compiled
def pad_pitch(code: Record, die: Record, host: Record) -> float:
    """Pitch of a die's pads: the widest of what the die and its host, which carries it, can make."""
    pitch = max(die.assembly_pitch_mm, host.assembly_pitch_mm)
    if code.parent >= 0 and code.back == 1:
        pitch = max(pitch, host.assembly_tsv_pitch_mm)
    return max(pitch, die.assembly_tsv_pitch_mm) if code.face_up == 1 else pitch


@compiled
def reached_frame(need: float, band: float, aspect: float, pitch: float) -> tuple[float, float]:
    """Sides of a die whose pads lie within `band` of its edges, rounded up to the pitch."""
    x, y = math.sqrt(need * aspect), math.sqrt(need / aspect)
    if x > band and y > band:
        y = (2.0 * need / band + 2.0 * band) / (2.0 * aspect + 2.0)
        x = aspect * y
    return math.ceil(x / pitch) * pitch, math.ceil(y / pitch) * pitch


@compiled
def pad_field(unit: Unit, reaches: np.ndarray, signals_by_reach: np.ndarray, covered: float) -> tuple[float, bool]:
    """Area of a die's field of pads, and whether all its links reach their neighbours.

    A link of reach r has its pads within r less the distance of the neighbouring die; longer links come on top.
    `covered` is the area of what is mounted on the same side.
    """
    code, die, host, conventions, _, result = unit
    aspect, pitch = die.aspect_ratio, pad_pitch(code, die, host)
    separation = host.assembly_separation_mm
    x, y, signals = 0.0, 0.0, 0.0
    silent = conventions.silent_reaches == 1.0
    for reach in range(len(reaches)):
        signals += signals_by_reach[reach]
        if signals == 0.0 and not silent:
            continue
        band = reaches[reach] - separation
        need = signals * pitch * pitch + covered
        if band < 0.0 or (band == 0.0 and need > 0.0):
            return 0.0, False
        usable = band * (x + y) - band * band if band < x and band < y else x * y
        if usable <= need:
            wide, high = reached_frame(need, band, aspect, pitch)
            x, y = max(x, wide), max(y, high)
    need = pitch * pitch * result.pads
    longer = max(x, y)
    if need <= x * y:
        cells = math.ceil(x / pitch) * math.ceil(y / pitch)
    elif x != y and longer * longer <= need:
        cells = math.ceil(longer / pitch) * math.ceil(need / longer / pitch)
    else:
        cells = math.ceil(math.sqrt(need) / pitch) ** 2
    return cells * pitch * pitch, True


@compiled
def stacked_area(die: Record, parts: Record) -> float:
    """Area that what is mounted on a die takes: the fuller side with gaps and edge, or a factor on the dies'."""
    factor = die.assembly_area_factor
    if factor > 0.0:
        return factor * parts.plain_area
    return enlarged(max(parts.face_area, parts.back_area), die.assembly_edge_mm, 1.0)


@compiled
def cover(code: Record, die: Record, host: Record, area: float, parts: Record) -> None:
    """Add the area of a die to what it covers of its host, or takes inside of it."""
    if code.buried == 1:
        parts.buried_area += die.count * area
        return
    count, margin = die.count, host.assembly_separation_mm / 2.0
    parts.plain_area += count * area
    spread = count * enlarged(area, margin, die.aspect_ratio)
    if code.back == 1:
        parts.back_area += spread
    else:
        parts.face_area += spread


@compiled
def size_die(unit: Unit, reaches: np.ndarray, signals_by_reach: np.ndarray, face: Record, back: Record) -> bool:
    """Pads, vias and area of a die; whether its links are short enough.

    `face` and `back` are the sums of the results of the dies mounted on its sides.
    """
    code, die, _, _, parts, result = unit
    count_pads(unit, face, back)
    covered = back.area_mm2 if code.face_up == 1 else face.area_mm2
    pads, reached = pad_field(unit, reaches, signals_by_reach, covered)
    stacked = stacked_area(die, parts)
    outline, circuits = die.given_outline_mm2, parts.io_area_mm2 + result.via_area_mm2
    result.core_mm2 = die.core_area_mm2 if math.isnan(outline) else max(outline - circuits, 0.0)
    area = max(result.core_mm2 + parts.io_area_mm2 + result.via_area_mm2, pads, stacked)
    area = area if math.isnan(outline) else outline
    area = area if math.isnan(die.given_area_mm2) else die.given_area_mm2
    width, height = math.sqrt(area * die.aspect_ratio), math.sqrt(area / die.aspect_ratio)
    result.pad_area_mm2, result.stacked_area_mm2, result.area_mm2 = pads, stacked, area
    result.width_mm, result.height_mm = width, height
    result.io_area_mm2, result.io_power_W, result.signals = parts.io_area_mm2, parts.io_power_W, parts.signals
    result.shoreline_slack_mm = parts.shoreline_slack_mm + 2.0 * (width + height)
    return reached
