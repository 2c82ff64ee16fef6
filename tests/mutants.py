"""Mutants of studies and library entries: how many are read, refused, and what else comes out of the reader.

python -m tests.mutants --count 10000 --seed 0      exit 1 if anything but numbers and refusals comes out
python -m tests.mutants --only 4711 --keep DIR      one mutant, with its traceback and its files
"""

import argparse
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

import sweeper
from tests.support.mutants import MY_LIBRARY, lived, mutant, write

FINE = ("refused", "evaluated")


def main() -> int:
    """Try mutants, and say what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--only", type=int, help="number of a mutant to look at")
    parser.add_argument("--keep", type=Path, help="directory for the files of that mutant")
    options = parser.parse_args()
    if options.only is not None:
        write(mutant(options.seed, options.only), options.keep)
        print(mutant(options.seed, options.only).about)
        print(sweeper.plan(options.keep / "study.yaml", [options.keep / "library", MY_LIBRARY]).evaluate(0))
        return 0
    ends: Counter[str] = Counter()
    with suppress(KeyboardInterrupt):  # What has been counted so far is told.
        for number in range(options.first, options.first + options.count):
            one = mutant(options.seed, number)
            with tempfile.TemporaryDirectory() as root:
                end, message = lived(one, Path(root))
            ends[end] += 1
            if end not in FINE:
                print(f"{number}: {end}: {' '.join(message.split())[:200]} ({one.about})", flush=True)
    print(", ".join(f"{count} {end}" for end, count in ends.most_common()))
    return int(any(end not in FINE for end in ends))


if __name__ == "__main__":
    sys.exit(main())
