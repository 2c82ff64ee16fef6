"""Optimizers again, in plain Python: state by the moments that are kept, Newton-Schulz by its products, who does what.

Twins of the equations of kernels/transformers/optimizers, as in `naive`, and random inputs for them, written from
Jordan 2024, Liu 2025 (arXiv 2502.16982) and Graham 1969. Products come from their own twin.
"""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from sweeper.kernels.codes import OPERATOR_TYPES, PLACES
from sweeper.kernels.transformers.optimizers.muon import Matrices
from tests.twins.naive import FOR_EQUATION, SPECIAL, Outputs, twin
from tests.twins.naive_energy import amounts, either, through_cache
from tests.twins.naive_models import (
    Named,
    chosen,
    collective,
    conversion,
    groups,
    operator_table,
    product,
    shards_of,
    sizes_of,
)

COLUMN_UNITS = {"place_matrices": 2 * ("s", "flop", "B", "B", "")}
"""Units of the columns of arrays."""

KINDS = ("dense", "expert")
NEWTON_SCHULZ_STEPS = 5
WORD_B = 2  # bfloat16
LAUNCHES = 19  # five times three products; cast, norm, division, update


def state_bytes(given: Named, parameters: float, matrices: float) -> tuple[float, float]:
    """What the moments of some parameters take, and what Adam's would take in 32 bits."""
    each = {"adam": (2, 2), "muon": (2, 1), "sgd_momentum": (1, 1)}[chosen(given, "optimizer")]
    others = parameters - matrices
    return given["moment_B"] * (each[0] * others + each[1] * matrices), 2 * 4 * (others + matrices)


def updating(given: Named, parameters: float, matrices: float) -> float:
    """Bytes: what is not kept is neither read nor written."""
    kept, of_adam = state_bytes(given, parameters, matrices)
    return max(given["calibration_optimizer_traffic_B"] * parameters + 2 * kept - 2 * of_adam, 0.0)


@twin
def optimizer(**given: Any) -> Outputs:
    """Each chip updates the parameters whose state it keeps."""
    spread = shards_of(given)

    def kept(word: str) -> float:
        return sum(given[f"{word}_{kind}_parameters_per_chip"] / chips for kind, chips in spread.items())

    traffic = updating(given, kept("trained"), kept("matrix")) + conversion(given)
    counted = chosen(given, "optimizer_traffic") == "per_iteration"
    moving_s = traffic / given["attainable_memory_Bps"] if counted else 0.0
    return {"optimizer_time_s": moving_s + given["orthogonalise_s"]}


def newton_schulz(given: Named, rows: float, columns: float) -> dict[str, Any]:
    """X X', (X X') (X X'), and their sum with X: the last two products add to what is there."""
    short, long = sorted((rows, columns))
    flops = given["chip_peak_flops"] * given["calibration_gemm_efficiency"]
    shapes = [(short, short, long, 1), (short, short, short, 2), (short, long, short, 2)]  # m, n, k, times the result
    seconds, traffic, cache, around = 0.0, frozenset({0.0}), 0.0, 5 * WORD_B * rows * columns
    for m, n, k, touched in shapes:
        widths = (WORD_B, WORD_B, touched * WORD_B)
        cost = product(given, 1, m, n, k, widths, flops, 0.0)
        seconds += NEWTON_SCHULZ_STEPS * cost.seconds
        traffic = either(traffic, frozenset(NEWTON_SCHULZ_STEPS * moved for moved in cost.traffic))
        cache += NEWTON_SCHULZ_STEPS * through_cache(m, n, k, widths)
    seconds += around / given["attainable_memory_Bps"] + LAUNCHES * given["calibration_kernel_overhead_s"]
    return {
        "seconds": max(seconds, LAUNCHES * given["host_kernel_s"]),
        "flops": NEWTON_SCHULZ_STEPS * (4 * short**2 * long + 2 * short**3),
        "l2_B": cache + around,
        "memory_B": frozenset(around + moved for moved in traffic),
        "elements": rows * columns,
    }


@twin
def place_matrices(**given: Any) -> Outputs:
    """Matrices one by one: those of trained products of hidden layers."""
    found = []
    for place in PLACES:
        total: dict[str, Any] = dict.fromkeys(Matrices._fields, 0.0) | {"memory_B": frozenset({0.0})}
        longest: dict[str, Any] = dict.fromkeys(Matrices._fields, 0.0)
        for op in operator_table(given, "operator_dims"):
            if PLACES[op["place"]] != place or place in ("first", "last") or OPERATOR_TYPES[op["type"]] != "gemm":
                continue
            times = op["count"] * op["trained"] * op["matrices"]
            for count, columns in ((times, op["n"] - 2 * op["paired"]), (2 * times, op["paired"])):
                if count > 0 and columns > 0 and op["weight"] > 0:
                    one = newton_schulz(given, op["k"] / (given["tensor_grid_rows"] or 1), columns)
                    longest = max(longest, one, key=lambda matrix: matrix["seconds"])
                    memory = frozenset(count * moved for moved in one["memory_B"])
                    memory = either(total["memory_B"], memory)
                    total = {name: total[name] + count * one[name] for name in total if name != "memory_B"}
                    total["memory_B"] = memory
        found.append([*(total[name] for name in Matrices._fields), *(longest[name] for name in Matrices._fields)])
    return {"place_matrices": found}


@twin
def no_matrices(**given: Any) -> Outputs:
    return {"place_matrices": [[0.0] * 2 * len(Matrices._fields) for _ in PLACES]}


def of_layers(given: Named, layers: float) -> dict[str, tuple[Named, Named]]:
    """All matrices of some layers and the longest of them, without routed experts and theirs."""
    rows = dict(zip(PLACES, given["place_matrices"], strict=True))
    share = given["expert_layers"] / given["layers"]
    shares = {"layer": 1.0, "dense": 1 - share, "expert": share, "routed": share}
    wholes = {name: dict(zip(Matrices._fields, row[: len(row) // 2], strict=True)) for name, row in rows.items()}
    singles = {name: dict(zip(Matrices._fields, row[len(row) // 2 :], strict=True)) for name, row in rows.items()}
    found = {}
    for kind, where in (("dense", ("layer", "dense", "expert")), ("expert", ("routed",))):
        # the first and the last stage have no matrices of their own: embeddings and head are Adam's
        ends = wholes["first"] if kind == "dense" else dict.fromkeys(Matrices._fields, 0.0)
        whole = {
            name: ends[name] + layers * sum(shares[place] * wholes[place][name] for place in where)
            for name in Matrices._fields
        }
        found[kind] = (whole, max((singles[place] for place in where), key=lambda matrix: matrix["seconds"]))
    return found


def sharing(kind: tuple[Named, Named], name: str, sharers: float, stages: float = 1.0) -> float:
    """Graham's bound on list scheduling: even parts, and all but a share of the longest; nobody does more than all."""
    whole, longest = kind
    return min(whole[name], (whole[name] + (sharers - 1) * stages * longest[name]) / sharers)


def message(given: Named, kind: tuple[Named, Named], sharers: float, stages: float = 1.0) -> float:
    """ZeRO gathers the matrix that is cut at the ends of a part; fully sharded, all shards of a chip travel."""
    whole, longest = (of["elements"] for of in kind)
    if sharers == 1:
        return 0.0
    return WORD_B * (whole / sharers if given["zero_stage"] == 3 else min(stages * longest, whole))


@twin
def orthogonalise(**given: Any) -> Outputs:
    kinds, spread = of_layers(given, given["layers_per_stage"]), shards_of(given)
    return {
        "orthogonalise_s": sum(sharing(kinds[kind], "seconds", spread[kind]) for kind in KINDS),
        **{f"matrix_message_{kind}_B": message(given, kinds[kind], spread[kind]) for kind in KINDS},
    }


@twin
def matrix_exchange(**given: Any) -> Outputs:
    """Fully sharded, shards go to the owners and come back."""
    network, fully = groups(given["group_network"]), given["zero_stage"] == 3
    found = 0.0
    for kind, group in (("dense", "shard" if fully else "data"), ("expert", "expert_data")):
        message_B = given[f"matrix_message_{kind}_B"]
        if fully:
            found += 2 * collective(network[group], "all_to_all", given, message_B)
        else:
            found += collective(network[group], "all_gather", given, message_B)
    return {"matrix_exchange_s": found}


@twin
def update_work(**given: Any) -> Outputs:
    """All layers on one chip of every stage; what an owner has whole nobody else does again."""
    sizes, spread, stages = sizes_of(given["place_sizes"]), shards_of(given), given["pipeline_parallel"]
    experts, layers = given["expert_layers"], given["layers"]
    counts = {"layer": layers, "dense": layers - experts, "expert": experts, "first": 1.0, "last": 1.0}

    def kept(column: str) -> float:
        common = sum(times * sizes[place][column] for place, times in counts.items())
        return common / spread["dense"] + experts * sizes["routed"][column] / spread["expert"]

    kinds = of_layers(given, layers)

    def done(name: str) -> float:
        if given["zero_stage"] == 3:
            return sum(kinds[kind][0][name] / spread[kind] for kind in KINDS)
        return sum(sharing(kinds[kind], name, spread[kind], stages) for kind in KINDS)

    counted = chosen(given, "optimizer_traffic") == "per_iteration"
    moved = updating(given, kept("trained"), kept("matrices")) if counted else 0.0
    return {
        "update_flops": done("flops"),
        "update_l2_B": done("l2_B"),
        "update_memory_B": moved + done("memory_B"),
        **{f"update_{kind}_message_B": message(given, kinds[kind], spread[kind], stages) for kind in KINDS},
    }


TRAFFIC = st.fixed_dictionaries({"calibration_optimizer_traffic_B": st.sampled_from([0.0, 13.0, 38.0, 84.0])})
"""Never as much as what is not read and written: a difference of nothing has no digits."""

FOR_EQUATION.update({"optimizer": TRAFFIC, "update_work": TRAFFIC})
SPECIAL.update(
    {
        "place_matrices": amounts(len(PLACES), COLUMN_UNITS["place_matrices"]).map(np.abs),
        "tensor_grid_rows": st.sampled_from([0.0, 1.0]),
    }
)
