"""Printed names of library entries, for pictures."""

from typing import NamedTuple


class Variant(NamedTuple):
    """An entry that pictures show under the common name of several, and what they then say below."""

    common: str
    note: str = ""


VARIANTS = {
    "hpl_1m": Variant("hpl"),
    "hpl_5m": Variant("hpl"),
    "h100_sxm_half": Variant("h100_sxm", "H100 on the dragonfly: computed with half of its cores, as published."),
}
"""A benchmark run in two sizes, and a chip that a publisher gave half its cores."""

LABELS = {
    "gpt3_1t": "GPT3-1T training",
    "dlrm_793b": "DLRM 793B training",
    "hpl": "HPL",
    "fft_1t": "FFT, 1T points",
    "h100_sxm": "H100",
    "tpu_v4": "TPU v4",
    "sn30": "SN30",
    "wse_2": "WSE-2",
    "torus_2d": "2D torus",
    "torus_3d": "3D torus",
    "dgx_1": "DGX-1",
    "dgx_2": "DGX-2",
    "dragonfly": "Dragonfly",
    "ddr4": "DDR4",
    "hbm3": "HBM3",
    "pcie5": "PCIe 5",
    "nvlink4": "NVLink 4",
}
"""Printed names of library entries, in the order in which figures show them; others follow under their own name."""
