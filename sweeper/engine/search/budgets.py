"""Budgets that variables share, and the coordinates in which a search moves without leaving them.

Shares are logits of a softmax with one more entry for what stays unused, so no step leaves the budget; variables with
bounds of their own are logits between these.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

UNUSED = 0.005
"""Part of each budget that starts leave unused."""
LOGITS = 40.0
"""Bound of logits: a share of exp(-40) is none."""


@dataclass(frozen=True)
class SharedBudgets:
    """Which points may be tried: shares of budgets, and variables with bounds.

    groups: indices of the variables that share a budget, for each budget; shares are at least `floor` and sum to at
    most 1.
    bounds: index -> (low, high) of every other variable; spread over its logarithm where low > 0.
    """

    groups: tuple[tuple[int, ...], ...]
    bounds: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    floor: float = 0.0

    def __post_init__(self) -> None:
        used = sorted([i for group in self.groups for i in group] + list(self.bounds))
        if not used or used != list(range(len(used))):
            raise ValueError(f"each variable belongs to one budget or has bounds, numbered from 0: {used}")
        if self.floor < 0 or any(len(group) * self.floor >= 1 for group in self.groups):
            raise ValueError(f"floors of {self.floor:g} exceed a budget")
        if any(not low < high < np.inf for low, high in self.bounds.values()):
            raise ValueError(f"low < high < infinity is not met by all of {dict(self.bounds)}")

    @cached_property
    def variables(self) -> int:
        return sum(map(len, self.groups)) + len(self.bounds)

    @cached_property
    def boxed(self) -> np.ndarray:
        """Indices of the variables with bounds."""
        return np.array(sorted(self.bounds), np.intp)

    @cached_property
    def shares(self) -> np.ndarray:
        """Indices of the variables that are shares, group by group."""
        return np.array([i for group in self.groups for i in group], np.intp)

    @cached_property
    def _spans(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Low, high, and whether logarithmic, of the variables with bounds."""
        low, high = np.array([self.bounds[i] for i in self.boxed]).reshape(-1, 2).T
        return low, high, low > 0

    @cached_property
    def logits(self) -> tuple[np.ndarray, ...]:
        """Columns of each group's coordinates: its shares, then what stays unused."""
        return tuple(np.array([*group, self.variables + g], np.intp) for g, group in enumerate(self.groups))

    @cached_property
    def member(self) -> np.ndarray:
        """[groups, coordinates] 1 where a coordinate is a logit of the group."""
        member = np.zeros((len(self.groups), self.coordinates))
        for g, columns in enumerate(self.logits):
            member[g, columns] = 1.0
        return member

    @cached_property
    def _members(self) -> np.ndarray:
        """[groups] Logits of each group."""
        return self.member.sum(axis=1)

    @cached_property
    def _is_logit(self) -> np.ndarray:
        """[coordinates] Whether a coordinate is a logit."""
        return np.asarray(self.member.any(axis=0))

    @property
    def coordinates(self) -> int:
        """Coordinates of the descent: one for each variable, and what each budget leaves unused."""
        return self.variables + len(self.groups)

    def unit(self, x: np.ndarray) -> np.ndarray:
        """Variables with bounds as numbers from 0 to 1: [n, variables] -> [n, bounded]."""
        low, high, log = self._spans
        x = np.clip(x[:, self.boxed], low, high)
        base = np.where(log, low, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(log, np.log(x / base) / np.log(np.where(log, high, np.e) / base), (x - low) / (high - low))

    def from_unit(self, unit: np.ndarray) -> np.ndarray:
        """Inverse of `unit`; exact at both ends."""
        low, high, log = self._spans
        base = np.where(log, low, 1.0)
        values = np.where(log, base * (np.where(log, high, 1.0) / base) ** unit, low + (high - low) * unit)
        return np.clip(values, low, high)

    def project(self, x: np.ndarray) -> np.ndarray:
        """Nearest allowed points (least squares) of points [n, variables].

        A budget that is exceeded takes the same amount from all its shares above the floor: Held, Wolfe and Crowder,
        Validation of subgradient optimization, 1974.
        """
        x = np.array(x, np.float64)
        for group in self.groups:
            above = np.maximum(x[:, group] - self.floor, 0.0)
            left = 1.0 - len(group) * self.floor
            falling = -np.sort(-above, axis=1)
            excess = (np.cumsum(falling, axis=1) - left) / np.arange(1, len(group) + 1)
            last = np.maximum((falling > excess).sum(axis=1) - 1, 0)
            taken = np.maximum(np.take_along_axis(excess, last[:, None], axis=1), 0.0)
            x[:, group] = self.floor + np.maximum(above - taken, 0.0)
        x[:, self.boxed] = np.clip(x[:, self.boxed], *self._spans[:2])
        return x

    def random(self, starts: int, generator: np.random.Generator) -> np.ndarray:
        """Points [starts, variables], evenly spread over the splits that use each whole budget, and between bounds."""
        x = np.empty((starts, self.variables))
        for group in self.groups:
            parts = generator.standard_exponential((starts, len(group)))
            x[:, group] = self.floor + (1.0 - len(group) * self.floor) * parts / parts.sum(axis=1, keepdims=True)
        x[:, self.boxed] = self.from_unit(generator.random((starts, len(self.boxed))))
        return x

    def decode(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points [n, variables] at places [n, coordinates], and the softmax [n, coordinates] behind their shares.

        Numbers between bounds are a squared sine of their coordinate: no step leaves the bounds, and the bounds
        themselves are within reach.
        """
        x, soft = np.empty((len(place), self.variables)), np.zeros_like(place)
        for group, columns in zip(self.groups, self.logits):
            parts = np.exp(place[:, columns])
            parts /= parts.sum(axis=1, keepdims=True)
            soft[:, columns] = parts
            x[:, group] = self.floor + (1.0 - len(group) * self.floor) * parts[:, :-1]
        if len(self.boxed):
            x[:, self.boxed] = self.from_unit(np.sin(place[:, self.boxed]) ** 2)
        return x, soft

    def encode(self, x: np.ndarray) -> np.ndarray:
        """Places [n, coordinates] of allowed points [n, variables], with at least `UNUSED` of each budget set free."""
        place = np.empty((len(x), self.coordinates))
        for group, columns in zip(self.groups, self.logits):
            parts = np.maximum((x[:, group] - self.floor) / (1.0 - len(group) * self.floor), 1e-6)
            free = np.maximum(1.0 - parts.sum(axis=1, keepdims=True), UNUSED)
            place[:, columns] = np.log(np.hstack([parts, free]))
        place[:, self.boxed] = np.arcsin(np.sqrt(np.clip(self.unit(x), 1e-4, 1.0 - 1e-4)))
        return self.centred(place)

    def centred(self, place: np.ndarray) -> np.ndarray:
        """The same points by logits of mean 0 in each group, bounded."""
        place = place - ((place @ self.member.T) / self._members) @ self.member
        return np.where(self._is_logit, np.clip(place, -LOGITS, LOGITS), place)
