"""Cross validation as a plan: every model, protocol and fold is a chunk, so that folds fan out like any sweep.

Grouped folds keep the decisions of a graph together: they are near-copies, and random folds flatter every model.
`sweeper.ranking.trials.relearning` tries a model that has learned before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from sweeper.digests import content_hash
from sweeper.engine.compilation.cache import COMPILERS
from sweeper.engine.compilation.sources import closure, code_digest
from sweeper.errors import UsageFault, unknown
from sweeper.planning.schema import ENCODING, NAMES, field
from sweeper.ranking.dataset import Decisions, read_decisions
from sweeper.ranking.models import MODELS, RANDOM, TRAINERS, Predict, trainers
from sweeper.running.plans import NothingCompiled, WholeChunks
from sweeper.running.storage.places import folder
from sweeper.running.storage.resolved import read_resolved


@dataclass(frozen=True)
class Fold:
    """A model that learns from all decisions but those of one fold."""

    model: str
    protocol: str
    number: int


def fold_of(decisions: Decisions, protocol: str, folds: int) -> np.ndarray:
    """Fold of every decision: graphs, or decisions, dealt out by chance."""
    random = np.random.default_rng(0)
    if protocol == RANDOM:
        return np.asarray(random.permutation(len(decisions)) % folds)
    graphs, number = np.unique(decisions.graph, return_inverse=True)
    return np.asarray((random.permutation(len(graphs)) % folds)[number])


@cache
def decisions_in(directory: str) -> Decisions:
    """Decisions of a dataset, read once in a process."""
    return read_decisions(directory)


def origin(directory: str) -> dict[str, Any]:
    """Name, hash and number of points of a dataset. Raises NoDataset if there is none."""
    found = read_resolved(folder(directory))
    return {key: found[key] for key in ("name", "hash", "points")}


class Trial(Protocol):
    """What is tried on every fold: pairs of a model and a protocol, the longest first; what is asked, in a word; hashes
    of what else is read; modules that decide; and what a model learns from the decisions that it may see."""

    @property
    def asked(self) -> Sequence[tuple[str, str]]: ...

    @property
    def word(self) -> str: ...

    @property
    def sources(self) -> Mapping[str, str]: ...

    def learn(self, job: Fold, decisions: Decisions) -> Predict: ...


@dataclass(frozen=True)
class Comparison:
    """Models that are compared. Raises UsageFault for those that are not known."""

    models: tuple[str, ...] = tuple(MODELS)

    def __post_init__(self) -> None:
        for name in self.models:
            if name not in MODELS:
                raise UsageFault(unknown("cost model", name, MODELS))

    @property
    def asked(self) -> list[tuple[str, str]]:
        """Models under their protocols."""
        order = sorted(self.models, key=lambda name: -list(MODELS).index(name))
        return [(name, protocol) for name in order for protocol in MODELS[name].protocols]

    word = "folds"
    sources: ClassVar[Mapping[str, str]] = {}

    def learn(self, job: Fold, decisions: Decisions) -> Predict:
        """What a model has learned."""
        return MODELS[job.model].learn(decisions)


@dataclass(eq=False)
class FoldPlan(NothingCompiled, WholeChunks):
    """Something that learns from some folds of a dataset of labels and predicts the others, ready to run. Picklable;
    evaluation is pure. Raises UsageFault for fewer than two folds, EnvironmentFault where what trains is not there."""

    directory: str
    trial: Trial = Comparison()
    folds: int = 5

    def __post_init__(self) -> None:
        trainers()
        if self.folds < 2:
            raise UsageFault(f"found {self.folds} fold; two or more are needed")

    @cached_property
    def jobs(self) -> tuple[Fold, ...]:
        """What the chunks are, the longest first."""
        return tuple(Fold(*asked, number) for asked in self.trial.asked for number in range(self.folds))

    @cached_property
    def data(self) -> dict[str, Any]:
        """Name, hash and number of decisions of the dataset."""
        return origin(self.directory)

    @property
    def name(self) -> str:
        """Name of the dataset, and what is done with it."""
        return f"{self.data['name']}_{self.trial.word}"

    @property
    def point_count(self) -> int:
        """Predictions, of decisions that flow."""
        return len(self.jobs) * self.chunk_points(0)

    @property
    def chunk_count(self) -> int:
        """Trainings."""
        return len(self.jobs)

    def chunk_points(self, chunk: int) -> int:
        """Decisions of a fold, about."""
        return int(self.data["points"]) // self.folds

    @property
    def libraries(self) -> tuple[str, ...]:
        """Packages whose versions the bytes may depend on."""
        return (*COMPILERS, *TRAINERS, "pyarrow")

    @property
    def encoding(self) -> dict[str, Any]:
        """How parts are written as Parquet."""
        return ENCODING

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the predictions."""
        names = {"model": "cost model", "protocol": "how decisions were dealt out", "block": "kind of block"}
        counts = {"fold": "fold that was kept out", "graph": "number of the graph"}
        shares = {"label": "simulated share of the bound", "predicted": "predicted share of the bound"}
        return pa.schema(
            [
                field("point_id", pa.int64(), "", "number of the decision in its study", "key"),
                *(field(name, NAMES, "", about, "parameter") for name, about in names.items()),
                *(field(name, pa.int64(), "", about, "parameter") for name, about in counts.items()),
                *(field(name, pa.float64(), "", about, "metric") for name, about in shares.items()),
            ],
            metadata={"sweeper.study": self.name, "sweeper.hash": self.hash},
        )

    @cached_property
    def resolved(self) -> dict[str, Any]:
        """Everything that determines the result, as plain data."""
        modules = (
            *closure(["sweeper.kernels.placement.judging.network", "sweeper.kernels.placement.judging.trees"]),
            *closure([type(self.trial).__module__], _decides),
        )
        return {
            "study": self.name,
            "dataset": self.data["hash"],
            **self.trial.sources,
            "jobs": [[job.model, job.protocol, job.number] for job in self.jobs],
            "folds": self.folds,
            "code": {name: code_digest(name) for name in modules},
            "libraries": trainers(),
        }

    @cached_property
    def hash(self) -> str:
        """Content hash of the dataset, the models and the code."""
        return content_hash(self.resolved)

    def evaluate(self, chunk: int) -> pa.Table:
        """Predictions of a fold by a model that never saw it."""
        job, decisions = self.jobs[chunk], decisions_in(self.directory)
        fold = fold_of(decisions, job.protocol, self.folds)
        asked = decisions.taken(np.flatnonzero(fold == job.number))
        predict = self.trial.learn(job, decisions.taken(np.flatnonzero(fold != job.number)))
        count = len(asked)
        values: dict[str, Any] = {
            "point_id": asked.point,
            "model": [job.model] * count,
            "protocol": [job.protocol] * count,
            "block": asked.block,
            "fold": np.full(count, job.number),
            "graph": asked.graph,
            "label": asked.label,
            "predicted": predict(asked),
        }
        return pa.table([pa.array(values[each.name]).cast(each.type) for each in self.schema], schema=self.schema)

    def tried(self, rows: pa.Table) -> Mapping[str, int]:
        """Nothing is infeasible."""
        return {}


def _decides(module: str) -> bool:
    """Whether a module of ours decides what is predicted."""
    return module.startswith(("sweeper.ranking", "sweeper.placing.graph"))
