"""The command line: the commands of `sweeper.commands` under one name.

Results go to standard output, progress and messages to standard error. Exit codes: 0 done; 1 done with failed chunks
or a claim outside its tolerance; 2 a mistake in the command or a spec; 3 the environment; 4 output conflict;
130 interrupted, resumable.
"""

import gc as garbage

import click

from sweeper.commands.comparing import diff_command
from sweeper.commands.datasets import export_command, query, show_command
from sweeper.commands.designs import (
    cost_check_command,
    cost_command,
    generate_command,
    grades_command,
    portfolio_command,
)
from sweeper.commands.evidence import calibrate_command, claims_command, validate
from sweeper.commands.library import completion, env, init, list_entries, schema_command
from sweeper.commands.nights import gc, night, runs_command
from sweeper.commands.placing import fit_placement, fit_units, judge_placements, place
from sweeper.commands.points import explain, map_command, trace_command
from sweeper.commands.reporting import report_command
from sweeper.commands.runs import optimize, plan, run, status, worker
from sweeper.commands.sensitivity import break_even, sensitivity, tornado_command
from sweeper.commands.servers.capacity import capacity_command
from sweeper.commands.servers.serve import serve_command

GARBAGE = (100_000, 20, 100)
"""How many new objects, and generations of them, Python waits for before it looks for circles among them."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sweeper")
def main() -> None:
    """Sweep workloads x chips x memories x links x topologies x mappings, and find the best.

    \b
    sweeper plan dse80                  how large is it
    sweeper run dse80 --backend ray     evaluate it
    sweeper show dse80                  draw it
    """
    # Reading and planning make many objects that live: looking for circles among them all the time is a tenth of both.
    garbage.set_threshold(*GARBAGE)


for command in (
    *(plan, run, night, diff_command, runs_command, gc, status, worker),
    *(optimize, sensitivity, tornado_command, break_even, serve_command, capacity_command),
    *(show_command, query, export_command, report_command, explain, trace_command, map_command),
    *(
        cost_command,
        cost_check_command,
        portfolio_command,
        grades_command,
        generate_command,
        place,
        fit_placement,
        judge_placements,
        fit_units,
    ),
    *(validate, calibrate_command, claims_command),
    *(init, list_entries, schema_command, completion, env),
):
    main.add_command(command)
