"""The tables that describe one package to the kernel."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PackageTables:
    """One package; the columns are those of `kernels.packages.layout`.

    Dies stand parents first, layers in the order of the dies, links in the order of their reach.
    """

    die_codes: np.ndarray
    """int64 [dies, DIE_CODES]"""
    die_numbers: np.ndarray
    """float64 [dies, DIE_NUMBERS]"""
    layer_numbers: np.ndarray
    """float64 [layers, LAYER_NUMBERS]"""
    link_codes: np.ndarray
    """int64 [links, LINK_CODES]"""
    link_numbers: np.ndarray
    """float64 [links, LINK_NUMBERS]"""
    conventions: np.ndarray
    """float64 [CONVENTIONS]"""

    @property
    def numbers(self) -> np.ndarray:
        """All numbers, one table after the other, as the equation `package_units` reads them."""
        tables = (self.die_numbers, self.layer_numbers, self.link_numbers, self.conventions)
        return np.concatenate([table.ravel() for table in tables])
