"""Digests of the datasets of all bundled studies: whether a change of the code left their bytes alone.

    python -m tests.recorded_datasets               compare every study with what is recorded; exit 1 if one differs
    python -m tests.recorded_datasets dse80         compare one
    python -m tests.recorded_datasets --write       record them anew (say in the commit what changed, and why)

A digest is of a column's values in the order of the rows, and one (`schema`) of names, types, units, meanings,
grades and sources. The values hold for one processor target and one C library: record on the machine that compares.
"""

import argparse
import csv
import hashlib
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import sweeper
from tests.places import DATA, ROOT, STUDIES

RECORD = DATA / "recorded_datasets.csv"

Digests = dict[tuple[str, str], str]
"""Digest by study and column."""


def column_digest(column: pa.ChunkedArray) -> str:
    """Hex digest of a column's values, bit by bit."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
    if pa.types.is_string(column.type):
        data = "\n".join(column.to_pylist()).encode()
    else:
        data = column.to_numpy().tobytes()
    return hashlib.sha256(data).hexdigest()[:16]


def schema_digest(schema: pa.Schema) -> str:
    """Hex digest of the fields with their metadata; those of the file, which hold the run's identity, are left out."""
    fields = [f"{field.name} {field.type} {sorted((field.metadata or {}).items())}" for field in schema]
    return hashlib.sha256("\n".join(fields).encode()).hexdigest()[:16]


def digests(study: str) -> Digests:
    """Run a bundled study into a temporary directory and digest its dataset."""
    with tempfile.TemporaryDirectory() as out:
        result = sweeper.run(sweeper.plan(ROOT / "specs" / "studies" / f"{study}.yaml"), out=out, quiet=True)
        table = pa.concat_tables(
            pq.read_table(part) for part in sorted(Path(result.directory, "data").glob("*.parquet"))
        )
    found = {(study, name): column_digest(table[name]) for name in table.column_names}
    return {(study, "schema"): schema_digest(table.schema), (study, "rows"): str(table.num_rows), **found}


def recorded() -> Digests:
    """The digests on file."""
    with RECORD.open(newline="") as file:
        return {(row["study"], row["column"]): row["digest"] for row in csv.DictReader(file)}


def write(found: Digests) -> None:
    """Put digests on file, in place of those of the same studies."""
    studies = {study for study, _ in found}
    kept = {} if not RECORD.exists() else {key: value for key, value in recorded().items() if key[0] not in studies}
    with RECORD.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("study", "column", "digest"))
        rows.writerows((*key, digest) for key, digest in sorted({**kept, **found}.items()))


def differences(study: str, found: Digests) -> list[str]:
    """Columns of a study whose digest is not the recorded one."""
    known = {key: digest for key, digest in recorded().items() if key[0] == study}
    return sorted(column for study, column in known.keys() | found.keys()
                  if known.get((study, column)) != found.get((study, column)))  # fmt: skip


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", metavar="STUDY")
    parser.add_argument("--write", action="store_true", help="record instead of comparing")
    asked = parser.parse_args(arguments)
    different = 0
    for study in asked.studies or [path.stem for path in STUDIES]:
        found = digests(study)
        if asked.write:
            write(found)
            print(f"{study}: {len(found)} digests recorded", flush=True)
            continue
        columns = differences(study, found)
        different += bool(columns)
        print(f"{study}: {'same bytes' if not columns else 'different: ' + ', '.join(columns)}", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
