"""Trained networks as plain data: JSON files in specs/cost_models, with their hash, source, grade and training set."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from sweeper.errors import UsageFault, unknown
from sweeper.files import write_whole
from sweeper.kernels.placement.features import VERSION
from sweeper.kernels.placement.judging.network import Network
from sweeper.library.entries import Entry
from sweeper.library.library import builtin_specs
from sweeper.ranking.dataset import SUMMARIES, Decisions
from sweeper.running.storage.places import folder
from sweeper.running.storage.resolved import read_resolved

FOLDER = "cost_models"
GRADE = "fitted"
ARRAYS, HASH = "arrays", "sha256"


@dataclass(frozen=True)
class Training:
    """What a model was trained on: name and hash of the dataset, hashes of its fabrics by name, and its decisions and
    graphs."""

    study: str
    hash: str
    fabrics: Mapping[str, str]
    decisions: int
    graphs: int


@dataclass(frozen=True, eq=False)
class CostNetworks:
    """Networks whose predictions are averaged, and where these hold: on fabrics, and between the lowest and the highest
    of every number of a summary in training."""

    name: str
    source: str
    training: tuple[Training, ...]
    networks: tuple[Network, ...]
    lowest: np.ndarray
    highest: np.ndarray

    @property
    def hash(self) -> str:
        """Hex digest of the weights."""
        return digest(plain(self)[ARRAYS])

    def covers(self, summary: np.ndarray) -> np.ndarray:
        """Whether decisions [decision, number] lie in the range of the training."""
        return np.asarray(((summary >= self.lowest) & (summary <= self.highest)).all(-1))


def arrays_of(record: Any, path: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Arrays of a record of records, by path."""
    for name, value in zip(record._fields, record):
        if isinstance(value, tuple):
            yield from arrays_of(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", np.asarray(value)


def record_of(kind: Any, arrays: Mapping[str, np.ndarray], path: str = "") -> Any:
    """The same, put together again."""
    hints = get_type_hints(kind)
    return kind(
        *(
            record_of(hints[name], arrays, f"{path}{name}.") if hasattr(hints[name], "_fields") else arrays[path + name]
            for name in kind._fields
        )
    )


def numbers(array: np.ndarray) -> dict[str, Any]:
    """An array as plain data, in the shortest digits that give its float32 back."""
    return {"shape": list(array.shape), "values": [float(str(value)) for value in array.astype(np.float32).ravel()]}


def digest(arrays: Any) -> str:
    """Hex digest of arrays as plain data."""
    return hashlib.sha256(json.dumps(arrays, sort_keys=True).encode()).hexdigest()


def plain(model: CostNetworks) -> dict[str, Any]:
    """A model as plain data."""
    arrays = {
        f"{number}.{name}": numbers(array)
        for number, network in enumerate(model.networks)
        for name, array in arrays_of(network)
    }
    return {
        "name": model.name,
        "source": model.source,
        "grade": GRADE,
        "features": VERSION,
        "training": [asdict(each) for each in model.training],
        "range": {
            name: [low, high] for name, low, high in zip(SUMMARIES, model.lowest.tolist(), model.highest.tolist())
        },
        HASH: digest(arrays),
        ARRAYS: arrays,
    }


def save(model: CostNetworks, path: Path) -> None:
    """Write a model, an array in a line."""
    found = plain(model)
    lines = [f"  {json.dumps(name)}: {json.dumps(array)}" for name, array in found.pop(ARRAYS).items()]
    head = json.dumps(found, indent=1).removesuffix("\n}")
    body = ",\n".join(lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, f'{head},\n "{ARRAYS}": {{\n{body}\n }}\n}}\n')


def fabric_hash(numbers: Mapping[str, float]) -> str:
    """Hex digest of the numbers of a fabric."""
    return hashlib.sha256(json.dumps(dict(numbers), sort_keys=True).encode()).hexdigest()[:16]


def training_of(directory: str, decisions: Decisions) -> Training:
    """What the decisions of a dataset are."""
    found = read_resolved(folder(directory))
    fabrics = {
        name: fabric_hash({key: value[0] for key, value in entry["values"].items()})
        for name, entry in found["study"]["fabrics"].items()
    }
    return Training(found["name"], found["hash"], fabrics, len(decisions), len(np.unique(decisions.graph)))


def trained_on(
    name: str, networks: tuple[Network, ...], decisions: Decisions, training: tuple[Training, ...]
) -> CostNetworks:
    """Networks with what they were trained on."""
    first, *others = (each.study for each in training)
    source = " ".join(["sweeper fit-placement", first, *(f"--also {other}" for other in others), f"--save {name}.json"])
    low, high = decisions.summary.min(0), decisions.summary.max(0)
    return CostNetworks(name, source, training, networks, low, high)


def names() -> list[str]:
    """Models that come with this package."""
    return sorted(path.stem for path in (builtin_specs() / FOLDER).glob("*.json"))


def load(name: str, fabric: Entry | None = None, others: Sequence[str] = ()) -> CostNetworks:
    """A model by path, or by the name of one of ours; `others` are names that are no networks, for the message.

    Raises UsageFault for one that does not exist or is damaged, one of other features, and, if a fabric is given, for
    one that was trained on others.
    """
    path = Path(name) if name.endswith(".json") else builtin_specs() / FOLDER / f"{name}.json"
    if not path.is_file():
        raise UsageFault(unknown("cost model", name, [*others, *names()]))
    try:
        found = json.loads(path.read_text())
        version, arrays, said, training = (found[key] for key in ("features", ARRAYS, HASH, "training"))
        training = tuple(Training(**each) for each in training)
    except (ValueError, KeyError, TypeError) as fault:
        raise UsageFault(f"{path} is no cost model: {fault!r}") from None
    if version != VERSION:
        raise UsageFault(
            f"{path} was trained on features of version {version}, this sweeper has {VERSION}: train it again"
        )
    if digest(arrays) != said:
        raise UsageFault(f"{path} is damaged: its weights are not those of its hash")
    if fabric is not None:
        _knows(found["name"], training, fabric)
    shaped = {key: np.float32(each["values"]).astype(float).reshape(each["shape"]) for key, each in arrays.items()}
    count = 1 + max(int(key.partition(".")[0]) for key in shaped)
    networks = tuple(record_of(Network, shaped, f"{number}.") for number in range(count))
    low, high = (np.array([found["range"][name][i] for name in SUMMARIES]) for i in range(2))
    return CostNetworks(found["name"], found["source"], training, networks, low, high)


def _knows(name: str, training: tuple[Training, ...], fabric: Entry) -> None:
    """Raise UsageFault for a fabric that a model was not trained on."""
    again = "train it with sweeper fit-placement"
    known = {key: each for part in training for key, each in part.fabrics.items()}
    if fabric.name not in known:
        raise UsageFault(f"{name} was trained on {', '.join(known)}, not on {fabric.name}: {again}")
    if known[fabric.name] != fabric_hash({key: value.number for key, value in fabric.values.items()}):
        raise UsageFault(f"{name} was trained on another {fabric.name}, with other numbers: {again}")
