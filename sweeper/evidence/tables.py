"""Evidence as tables: the scoreboard, fitted constants with their errors, published claims beside our figures."""

from collections.abc import Mapping, Sequence
from typing import Any

from sweeper.evidence.claims import claims, published
from sweeper.views.frames import frame_of
from sweeper.views.text import listing

MEASURES = {"median_ape": "MEDIAN", "mean_ape": "MEAN", "p90_ape": "P90", "max_ape": "MAX", "signed": "SIGNED"}
"""Statistics of relative errors in percent, and their headings."""


LEFT_OUT = {"name": "DEFAULT", "task": "TASK", "low": "P5", "high": "P95", "runs": "RUNS",
            "parts": "STACKS LEFT OUT IN TURN", "constants": "CONSTANTS"}  # fmt: skip
"""Headings of the bands of measured over predicted time without a calibration."""


def default_rows(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Defaults of chips without a calibration, a row for each task."""
    return [
        {
            "name": name,
            "task": task,
            **band,
            "constants": ", ".join(f"{n} {v:g}" for n, v in about["constants"].items()),
        }
        for name, about in found.items()
        for task, band in about["bands"].items()
    ]


def in_percent(value: float | None) -> str:
    """A percentage with two digits after the point."""
    return "-" if value is None else f"{value:.2f}"


def scores(board: Mapping[str, Any]) -> str:
    """The scoreboard as tables: errors of every set, beside the baselines, targets and what others report; rows apart;
    refusals; coverage of tables; constants of stacks."""
    sets = board["sets"]
    blocks = (
        (ABOUT, set_errors(sets)),
        ("Parts of sets.", part_errors(board["parts"])),
        (AGAINST, set_baselines(sets)),
        (READINGS, set_readings(sets)),
        ("Targets, and what others report on the same rows.", set_targets(sets)),
        (APART, set_misfits(sets)),
        (f"Refused: {counts(board['refused'])}.", set_refusals(sets)),
        (COVERED, table_coverage(board["tables"])),
        (CONSTANTS, stack_constants(board["calibrations"])),
    )  # fmt: skip
    return "\n\n".join(f"{title}\n{text}" for title, text in blocks if text)


ABOUT = """Errors in percent, of SCORED rows. INFERRED: what the table leaves open (recomputation, shards, microbatch)
is the fastest that fits; heads of keys and a vocabulary that it does not give are guessed. IN FIT: some calibration was
fitted to the row. MISFIT: ran, but needs more memory than there is by our count; not scored. RANK: Spearman's
correlation. MEMORY: balanced accuracy of whether a run fits."""
AGAINST = """Ours beside two baselines, on the same rows. CONSTANT: the median efficiency of all rows of the kind on the
chip, these included. OTHERS: the median efficiency of other models (shapes) of the same source and chip. BEST: least
median of those who answer all rows; a constant that was fitted to the rows of the set alone answers none."""
READINGS = """Readings of nearly the same work, in percent of each other: rows whose nearest neighbour of the same chip,
format and kernel differs by at most a step of two in one size. Some of that is work, the rest no model can tell. OURS:
median error on all of them."""
COVERED = """Rows that say all that physics needs, and those of them with an answer. REPEATED: equal to an earlier row
of the table in every cell; they count all the same."""
CONSTANTS = """Constants by stack: fitted, and set by hand (assumed or estimated, inherited ones too). LENT: rows of
another chip than the constants are fitted to."""
APART = "Predicted not to fit, although they ran: errors in percent, not counted above."
CONTENDERS = {"ours": "OURS", "constant": "CONSTANT", "other_models": "OTHERS"}
"""Who predicts, and their headings."""
COMPARED = {"median_ape": "MEDIAN", "p90_ape": "P90", "spearman": "RANK"}
"""By what they are compared, and the headings."""


def table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    """Rows below their headings; nothing where there are no rows."""
    return listing(rows, columns) if rows else ""


def counts(numbers: Mapping[str, int]) -> str:
    """How many of what, in words."""
    return "; ".join(f"{count} {name}" for name, count in numbers.items()) or "none"


def set_errors(sets: Mapping[str, Mapping[str, Any]]) -> str:
    """Rows and errors of every set."""
    numbers = {
        name: name.replace("_", " ").upper() for name in ("rows", "modelled", "inferred", "in_fit", "misfit", "scored")
    }
    measures = {**MEASURES, "spearman": "RANK", "memory_balanced_accuracy": "MEMORY"}
    rows = [
        {"set": name, **entry, **{measure: in_percent(entry.get(measure)) for measure in measures}}
        for name, entry in sets.items()
    ]
    return table(rows, {"set": "SET", **numbers, **measures})


def part_errors(parts: Mapping[str, Mapping[str, Any]]) -> str:
    """Errors of the groups of sets that are many of a kind."""
    rows = [
        {"part": name, **entry, **{measure: in_percent(entry[measure]) for measure in MEASURES}}
        for name, entry in parts.items()
    ]
    return table(rows, {"part": "PART", "rows": "ROWS", **MEASURES})


def set_baselines(sets: Mapping[str, Mapping[str, Any]]) -> str:
    """Medians, tails and ranks of ours and of the baselines, of every set for which there is one."""
    rows = [
        {"set": name, "best": CONTENDERS.get(entry["best"], "-").lower()}
        | {
            f"{measure} {who}": in_percent(found[measure])
            for who, found in {"ours": entry, **entry["baselines"]}.items()
            for measure in COMPARED
        }
        for name, entry in sets.items()
        if entry["best"] or any(found["alone"] for found in entry["baselines"].values())
    ]
    heads = {f"{m} {who}": f"{head} {name}" for m, head in COMPARED.items() for who, name in CONTENDERS.items()}
    return table(rows, {"set": "SET", **heads, "best": "BEST"})


def set_readings(sets: Mapping[str, Mapping[str, Any]]) -> str:
    """How far readings of nearly the same work lie apart, by group of rows, and how far ours are off."""
    rows = [
        {"group": name, **found}
        | {measure: in_percent(found[measure]) for measure in ("median_ape", "p90_ape", "ours")}
        for entry in sets.values()
        for name, found in entry["readings"].items()
        if found["near"]
    ]
    heads = {"rows": "ROWS", "near": "WITH A NEIGHBOUR", "median_ape": "MEDIAN", "p90_ape": "P90", "ours": "OURS"}
    return table(rows, {"group": "READINGS", **heads})


def set_targets(sets: Mapping[str, Mapping[str, Any]]) -> str:
    """Targets, and errors that others report, of sets that have either."""
    rows = [
        {"set": name, "target": entry["target"] or "-"}
        | {"peers": "; ".join(f"{peer['name']}: {peer['error']}" for peer in entry["peers"]) or "-"}
        for name, entry in sets.items()
        if entry["target"] or entry["peers"]
    ]
    return table(rows, {"set": "SET", "target": "TARGET", "peers": "PEERS"})


def set_misfits(sets: Mapping[str, Mapping[str, Any]]) -> str:
    """Errors of rows that ran although they do not fit by our count."""
    rows = [
        {"set": name, "misfit": entry["misfit"]}
        | {measure: in_percent(entry["misfit_errors"][measure]) for measure in MEASURES}
        for name, entry in sets.items()
        if entry["misfit"]
    ]
    return table(rows, {"set": "SET", "misfit": "MISFIT", **MEASURES})


def set_refusals(sets: Mapping[str, Mapping[str, Any]]) -> str:
    """Rows without an answer of every set by kind, and what was said."""
    rows = [
        {"set": name, "refused": counts(entry["refused"]), "reasons": counts(entry["reasons"])}
        for name, entry in sets.items()
        if entry["refused"]
    ]
    return table(rows, {"set": "SET", "refused": "REFUSED", "reasons": "REASONS"})


def table_coverage(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Complete rows of every table, and how many of them have an answer."""
    heads = {
        "rows": "ROWS",
        "repeated": "REPEATED",
        "complete": "COMPLETE",
        "complete_modelled": "MODELLED",
        "coverage": "COVERAGE (%)",
    }
    rows = [{"table": name, **found, "coverage": in_percent(found["coverage"])} for name, found in tables.items()]
    return table(rows, {"table": "TABLE", **heads})


def stack_constants(stacks: Mapping[str, Mapping[str, Any]]) -> str:
    """How many constants of every stack are fitted, how many set by hand, and which."""
    rows = [
        {
            "stack": name,
            "rows": found["rows"],
            "lent": found["lent"],
            "fitted": len(found["fitted"]),
            "hand_set": len(found["hand_set"]),
        }
        | {"values": by_hand(found["hand_set"]) or "-"}
        for name, found in stacks.items()
    ]
    heads = {"rows": "ROWS", "lent": "LENT", "fitted": "FITTED", "hand_set": "BY HAND", "values": "VALUES SET BY HAND"}
    return table(rows, {"stack": "STACK", **heads})


def by_hand(constants: Mapping[str, Mapping[str, Any]]) -> str:
    """Values that nobody measured or fitted."""
    return ", ".join(f"{name} {value['value']:.4g} {value['unit']}".rstrip() for name, value in constants.items())


def fitted(fits: Mapping[str, Mapping[str, Any]]) -> str:
    """Fitted constants with their intervals, and errors in percent, as tables."""
    blocks = []
    for name, fit in fits.items():
        constants = [{"constant": constant, **interval} for constant, interval in fit["constants"].items()]
        heads = {"constant": "CONSTANT", "value": "VALUE", "low": "LOW", "high": "HIGH", "unit": "UNIT"}
        kinds = {
            "in_sample": "in sample",
            "left_out": f"left out by {fit['left_out_by']}",
            "source_left_out": f"left out by source ({fit['sources']})",
        }
        errors = [
            {"error": title} | {measure: in_percent(fit[kind][measure]) for measure in MEASURES}
            for kind, title in kinds.items()
            if fit[kind] is not None
        ]
        title = f"{name}: {fit['rows']} rows"
        bands = [
            f"{task}: runs left out took {band['low']:.3f} to {band['high']:.3f} of the predicted time"
            for task, band in fit["bands"].items()
        ]
        hand = f"set by hand: {len(fit['hand_set'])}: {by_hand(fit['hand_set']) or '-'}"
        tables = listing(constants, heads), listing(errors, {"error": "ERROR (%)", **MEASURES})
        blocks.append("\n".join([title, *tables, *bands, hand]))
    return "\n\n".join(blocks)


UNSEEN = """Runs of models that no constant was fitted to: each stack fitted on half of its models and scored on the
others, both ways. CONSTANTS: how many are fitted; 0: the stack is predicted as it stands, from what others were fitted
to. Errors in percent, baselines as in the scoreboard."""
GAINS = {"measured": "MEASURED", "predicted": "PREDICTED"}
"""What a format gains, and the headings."""


def unseen(board: Mapping[str, Any]) -> str:
    """Errors on unseen models as tables: by stack, by table and kind of model; what narrow formats gain."""
    heads = {"models": "MODELS", "misfit": "MISFIT", "scored": "SCORED", **MEASURES}
    against = {f"{m} {who}": f"{head} {CONTENDERS[who]}" for m, head in COMPARED.items() if m != "p90_ape"
               for who in ("constant", "other_models")}  # fmt: skip

    def line(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        measures = {measure: in_percent(entry[measure]) for measure in (*MEASURES, "spearman")}
        rivals = {f"{m} {who}": in_percent(found[m]) for who, found in entry["baselines"].items() for m in COMPARED}
        return {"name": name, **entry, **measures, **rivals}

    stacks = [line(name, entry) for name, entry in board["stacks"].items()]
    machines = [line(name, entry) for name, entry in board["machines"].items()]
    groups = [line(name, entry) for name, entry in board["groups"].items()]
    gains = [
        {**found, **{of: f"{found[of]:.3f}" for of in GAINS}, **{m: in_percent(found[m]) for m in MEASURES}}
        for found in board["speedups"]
    ]
    alone = "; ".join(f"{name} ({count} rows)" for name, count in board["left_out"].items()) or "none"
    blocks = (
        (UNSEEN, table(stacks, {"name": "STACK", "constants": "CONSTANTS", **heads, "spearman": "RANK", **against})),
        ("Other workloads: halves of the systems of a stack.",
         table(machines, {"name": "STACK", "constants": "CONSTANTS", **heads, "models": "SYSTEMS", "spearman": "RANK",
                          **against})),
        ("By table and kind of model.", table(groups, {"name": "RUNS", **heads, "spearman": "RANK", **against})),
        ("How many times as fast as in 16 bits a run is, and errors of what is predicted of that.",
         table(gains, {"source": "SOURCE", "chip": "CHIP", "format": "FORMAT", "pairs": "PAIRS", **GAINS, **MEASURES})),
        (f"Too few models or rows to leave half of them out: {alone}.", " "),
    )  # fmt: skip
    return "\n\n".join(f"{title}\n{text}".rstrip() for title, text in blocks if text)


def published_claims(name: str) -> list[dict[str, object]]:
    """Published figures beside ours. Raises UsageFault for a set of claims that does not exist."""
    datasets = published(name).datasets
    before = {key: frame_of(dataset.as_published) for key, dataset in datasets.items()}
    after = {key: frame_of(dataset.full_physics) for key, dataset in datasets.items()}
    return claims(name, before, after)
