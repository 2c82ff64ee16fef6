"""What a reader of ruamel.yaml's positions and pydantic's models would tell of the mistakes that ours has messages for.

    python -m tests.reading.models

A study as far as it needs no library: its keys, objectives, output and boxes. What its columns may be depends on the
library, on units and on other columns, so that models would call the code that ours is.
"""

from collections import Counter
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from sweeper.reading.checks import NAME
from tests.reading.test_bad_specs import STUDY_CASES, Case
from tests.support.small_specs import STUDY

Text = Annotated[str, Field(min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Output(_Model):
    """The key `output`."""

    mode: Literal["all", "feasible", "best", "top_k", "pareto", "bands", "optimized"] = "all"
    columns: list[Text] | Text | None = None
    float32: StrictBool = False
    top_k: Annotated[int, Field(ge=1, le=1_000_000)] = 10


class Objective(_Model):
    """The key `objective`."""

    minimise: Text | None = None
    maximise: Text | None = None


class Box(_Model):
    """A box, or what a study and a box have in common."""

    axes: dict[str, Any] = Field(default_factory=dict)
    search: dict[str, Any] = Field(default_factory=dict)
    assumptions: Any = None
    override: Any = None


class Study(Box):
    """All keys of a study."""

    study: Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
    title: Text = ""
    description: Text = ""
    answer: Text = ""
    boxes: Annotated[list[Box], Field(min_length=1)] | None = None
    objective: Objective | list[Objective] | None = None
    optimize: Any = None
    output: Output = Field(default_factory=Output)


class Told(NamedTuple):
    """Who refuses a study, `yaml` or `model`, or nobody; at which line, 0 if at none; and in which words."""

    by: str
    line: int = 0
    message: str = ""


def told(text: str) -> Told:
    """What is said of a study."""
    try:
        found = YAML(typ="rt").load(text)
    except MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        return Told("yaml", mark.line + 1 if mark else 0, str(fault.problem))
    except YAMLError as fault:
        return Told("yaml", 0, str(fault))
    try:
        Study.model_validate(found)
    except ValidationError as fault:
        first = fault.errors()[0]
        return Told("model", _line(found, first["loc"]), first["msg"])
    return Told("nobody")


def _line(node: Any, path: tuple[int | str, ...]) -> int:
    """Where the deepest part of a path stands that is there; pydantic puts names of its models into paths, too."""
    line = node.lc.line + 1
    for part in path:
        if part in (node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()):
            line, node = node.lc.data[part][0] + 1, node[part]
    return int(line)


def summary() -> dict[str, int]:
    """How many mistakes of studies are told, and how well."""
    cases = [case for case in STUDY_CASES if case.file == "study.yaml"]
    found: list[tuple[Case, Told]] = [(case, told(STUDY.replace(case.old, case.new))) for case in cases]
    by = Counter(each.by for _, each in found)
    hinted = [each for case, each in found if "did you mean" in case.fragment]
    return {
        "mistakes": len(found),
        "refused by ruamel.yaml": by["yaml"],
        "refused by a model": by["model"],
        "at the right line": sum(each.line == case.line for case, each in found if each.by != "nobody"),
        "with the nearest name, of ours": len(hinted),
        "with the nearest name, of theirs": sum("mean" in each.message for each in hinted),
    }


if __name__ == "__main__":
    for name, count in summary().items():
        print(f"{count:4}  {name}")
