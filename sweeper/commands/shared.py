"""What commands share: options, how they end, how they answer, and how they find studies, libraries and runs."""

import json
import math
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial, reduce, wraps
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

from sweeper.commands.completing import settings, studies
from sweeper.errors import EnvironmentFault, Interrupted, NoDataset, SpecError, SweeperError, UsageFault, listed
from sweeper.plugins import assert_free, assert_words, find, label, named
from sweeper.running import BACKENDS
from sweeper.views.text import infinite_in, without_nan


class Finite(click.FloatRange):
    """A finite number."""

    name = what = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Fails for one that is not finite, which no range excludes."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite {self.what}.", param, ctx)
        return number


class Seconds(Finite):
    """A finite number of seconds."""

    name = "seconds"
    what = "number of seconds"


STUDY = click.argument("study", metavar="STUDY", shell_complete=studies)
LIBRARY = click.option(
    "--library", "library", multiple=True, metavar="DIR", help="Library directory that comes before ours; repeatable."
)


class Given(NamedTuple):
    """What a command is given beside a study: library directories that come before ours, and other values of axes."""

    library: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


SET = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="AXIS=VALUES",
    shell_complete=settings,
    help="Other values of an axis, as a study writes them: 'chips=[8, 64]'; repeatable.",
)


def study_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands that take a study: libraries, and other values of its axes."""

    @wraps(command)
    def called(*arguments: Any, library: tuple[str, ...], settings: tuple[str, ...], **others: Any) -> None:
        command(*arguments, given=Given(library, settings), **others)

    return LIBRARY(SET(called))


MOST = 1_000_000
"""Most moves and candidates of a placer, and its largest seed, as in studies of placements."""
OUT = click.option("--out", default="results", show_default=True, metavar="DIR", help="Directory or URI of datasets.")
VERIFY = click.option(
    "--verify", is_flag=True, help="Compare the checksum of every part, not only of those that were touched."
)
EXECUTION = (
    click.option("--backend", type=click.Choice(named("backends", BACKENDS)), default="local", show_default=True),
    click.option("--workers", type=click.IntRange(min=1), help="Worker actors of Ray; one per CPU if not given."),
    click.option(
        "--threads",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="Chunks that a worker evaluates at a time.",
    ),
    click.option("--address", metavar="ADDRESS", help="Running Ray cluster: auto, host:port or ray://host:port."),
    click.option(
        "--retries", type=click.IntRange(min=0), default=2, show_default=True, help="Tries after a chunk's own error."
    ),
    click.option(
        "--chunk-timeout",
        "chunk_timeout_s",
        type=Seconds(min=0.0, min_open=True),
        metavar="SECONDS",
        help="After which a worker of Ray is replaced and its chunk tried again; an hour if not given.",
    ),
    click.option(
        "--chunk-seconds",
        type=Seconds(min=0.0),
        metavar="SECONDS",
        help="Work that a worker of Ray is given at a time, in whole chunks; about 2 seconds if not given.",
    ),
    click.option("--fail-fast", is_flag=True, help="Stop at the first failed chunk."),
    VERIFY,
    click.option("-q", "--quiet", is_flag=True, help="No progress."),
)
"""Options of commands that run a study."""


def executing(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands that run a study."""
    return reduce(lambda decorated, option: option(decorated), reversed(EXECUTION), command)


def as_json(value: Any) -> str:
    """One JSON document; what JSON has no kind of, such as dates, is text."""
    return json.dumps(without_nan(value), indent=2, default=str)


FORMATS: dict[str, Callable[[Any], str]] = {
    "json": as_json,
}
"""Our formats of an answer besides text: what writes it. Plug-ins may add others; each is an option."""


def _chosen(context: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked:
        try:
            context.meta["sweeper.format"] = find("formats", FORMATS, str(option.name))
        except SweeperError as fault:
            raise click.UsageError(str(fault)) from None


def _drop_output() -> None:
    """Send what is still buffered for standard output nowhere: writing it again at the end would fail again."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class AnsweringCommand(click.Command):
    """A command with an option for each format; one that takes a single value may be given once. The library's errors
    become one message and an exit code; anything else is a bug and shows its traceback."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        own = {option.lstrip("-") for each in self.params for option in (*each.opts, *each.secondary_opts)}
        self.taken = own.union({"help"}, (str(each.name) for each in self.params))
        self.params += [
            click.Option(
                [f"--{name}", name],
                is_flag=True,
                expose_value=False,
                callback=_chosen,
                help=f"Print the answer as {name}.",
            )
            for name in named("formats", FORMATS)
            if name not in self.taken and name.isidentifier()
        ]

    def check_formats(self) -> None:
        """Raise EnvironmentFault for a format of a plug-in whose name cannot be that of an option of the command."""
        for name in named("formats", ()):
            assert_words(label("formats", name), [name])
            assert_free(label("formats", name), [name], self.taken, "another option or argument has")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=[*args])
        single = [each for each in order if isinstance(each, click.Option) and not (each.multiple or each.is_flag)]
        if twice := [option for option, count in Counter(single).items() if count > 1]:
            raise click.UsageError(f"{twice[0].opts[0]} is given twice", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                # A terminal that cannot show a letter gets its code.
                stream.reconfigure(errors="backslashreplace")
        try:
            self.check_formats()
            super().invoke(ctx)
        except SweeperError as error:
            click.echo(str(error), err=True)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            sys.exit(Interrupted.exit_code)
        except BrokenPipeError:
            _drop_output()
            sys.exit(0)
        except OSError as error:
            click.echo(f"{error.filename or 'the system'}: {error.strerror or error}", err=True)
            _drop_output()
            sys.exit(EnvironmentFault.exit_code)


command = partial(click.command, cls=AnsweringCommand)


def echo(value: Any, text: Callable[[], Any]) -> None:
    """Print a value in the format that was asked for, or its text."""
    chosen = click.get_current_context().meta.get("sweeper.format")
    click.echo(chosen(value) if chosen else text())
    if chosen is as_json and (count := infinite_in(value)):
        click.echo(f"null: {count:,} infinite numbers, which JSON cannot say", err=True)


def library_of(directories: Iterable[str]) -> Any:
    """The installed library with others laid over it."""
    from sweeper.library.library import Library

    return Library.over(directories)


def places(path: Path) -> bool:
    """Whether a file is a study of placements; one that cannot be read is none."""
    from sweeper.reading.nodes import read_yaml
    from sweeper.words.fabrics import PLACEMENTS

    try:
        written = read_yaml(path).value
    except SpecError:
        return False
    return isinstance(written, dict) and PLACEMENTS in written


def planning(what: str) -> AbstractContextManager[None]:
    """Tell on standard error that studies are read and planned, if that takes a while."""
    from sweeper.running.progress import phase

    return phase(f"planning {what}", partial(click.echo, err=True))


def plan_of(study: str, given: Given) -> Any:
    """The plan of a study of systems by path or name.

    Raises UsageFault for a study of placements.
    """
    from sweeper.planning.plan import make_plan
    from sweeper.study.sources import study_path

    path = study_path(study)
    if places(path):
        raise UsageFault(f"{study} is a study of placements; plan, run, status and query take it")
    with planning(study):
        plan = make_plan(path, given.library, given.settings)
        if plan.study.answer:
            from sweeper.views.queries import check_answer

            check_answer(plan)
        return plan


def any_plan_of(study: str, given: Given) -> Any:
    """The plan of a study by path or name, be it of systems or of placements."""
    from sweeper.study.sources import study_path

    path = study_path(study)
    if not places(path):
        return plan_of(study, given)
    from sweeper.placing.decisions import load_decisions
    from sweeper.placing.labels import DecisionPlan

    if given.settings:
        raise UsageFault(f"{study} is a study of placements, whose values --set does not replace")
    plan = DecisionPlan(load_decisions(path, given.library))
    plan.check()
    return plan


def tell_remarks(plan: Any) -> None:
    """Warn, on standard error, of what a study of systems leaves open and may not mean."""
    from sweeper.planning.plan import Plan

    for remark in plan.remarks if isinstance(plan, Plan) else ():
        click.echo(f"warning: {remark}", err=True)


def runs_inside(name: str) -> list[str]:
    """Names of the runs in a folder, if a path is that of one."""
    try:
        return sorted(resolved.parent.name for resolved in Path(name).glob("*/resolved.json"))
    except (OSError, ValueError):
        return []


class Found(NamedTuple):
    """A run that was found: its directory, and the parameters of the options by which it was."""

    directory: str
    by: frozenset[str]


OF_STUDY = frozenset({"library", "settings", "out"})
"""Parameters of the options by which the run of a study is found."""


def given_options(names: Collection[str]) -> list[str]:
    """Of some options, by their parameters, those that the command was given, as they are written; none outside of a
    command."""
    context = click.get_current_context(silent=True)
    options = context.command.params if context else ()
    return [
        each.opts[0]
        for each in options
        if context and each.name in names and context.get_parameter_source(each.name) is ParameterSource.COMMANDLINE
    ]


def assert_read(told: str, read: Collection[str]) -> None:
    """Raise UsageFault for options that find the run of a study, were given, and are not among the `read` ones, by
    their parameters; `told` is what was named instead of a study, in words."""
    if unread := given_options(OF_STUDY.difference(read)):
        raise UsageFault(f"{told}: leave out {' and '.join(unread)}")


def assert_found(names: Sequence[str], found: Iterable[Found], read: Collection[str] = ()) -> None:
    """Raise UsageFault, as `assert_read` does, for options by which none of the named runs was found, but for those
    that are `read` otherwise."""
    told = f"{listed(names)} {'names a run' if len(names) == 1 else 'name runs'}"
    assert_read(told, frozenset(read).union(*(each.by for each in found)))


def run_directories(names: Sequence[str], given: Given, out: str, read: Collection[str] = ()) -> list[str]:
    """Directories of runs, each named as `found_run` takes it. Raises UsageFault for options by which none of them is
    found, but for those that the command reads otherwise, `read` by their parameters."""
    found = [found_run(name, given, out) for name in names]
    assert_found(names, found, read)
    return [each.directory for each in found]


def run_directory(name: str, given: Given, out: str, read: Collection[str] = ()) -> str:
    """The directory of one run, as `run_directories` finds it."""
    (directory,) = run_directories([name], given, out, read)
    return directory


def place_of_runs(name: str, given: Given, out: str) -> str:
    """A folder of runs as given, or the directory of one run, as `run_directory` finds it. Raises UsageFault for
    options that a folder makes no use of."""
    if not runs_inside(name):
        return run_directory(name, given, out)
    assert_read(f"{name} holds runs", ())
    return name


def _since(run: Any, plan: Any) -> str:
    """In what a plan differs from an earlier run of its study, in words; nothing where that cannot be told."""
    from sweeper.nights.diff import resolved
    from sweeper.nights.inputs import CONSEQUENCE, changes

    try:
        before = resolved(run)["study"]
        after = json.loads(json.dumps(plan.resolved))
        found = [f"{each.name} ({each.kind})" for each in changes(before, after) if each.kind != CONSEQUENCE]
    except (NoDataset, KeyError):  # damaged, of placements, or of another version that told less
        return ""
    return f" as it is now, which differs from {run.name} in {listed(found)}" if found else ""


def found_run(name: str, given: Given, out: str) -> Found:
    """A run directory as given, by path or by its name under `out`, or that of a study under `out`, which holds no
    other."""
    from sweeper.running.storage.catalogue import runs_in
    from sweeper.running.storage.places import folder
    from sweeper.running.storage.resolved import RESOLVED
    from sweeper.running.storage.store import assert_own, directory_of
    from sweeper.study.sources import is_there

    if "://" in name or is_there(Path(name) / "resolved.json"):
        return Found(name, frozenset())
    place = folder(out)
    if name in place.folders() and RESOLVED in place.inside(name).entries(""):
        return Found(str(place.inside(name)), frozenset({"out"}))
    if inside := runs_inside(name):
        raise UsageFault(f"{name} holds runs; name one of them: {listed(inside)}")
    if is_there(Path(name)) and Path(name).is_dir():
        raise NoDataset(f"{name} holds no run: there is no {RESOLVED} in it")
    plan = any_plan_of(name, given)
    directory = directory_of(out, plan)
    if "://" not in directory and not Path(directory).exists():
        options = "".join(f" --library {path}" for path in given.library)
        options += "".join(f" --set {shlex.quote(text)}" for text in given.settings)
        of_itself_first = sorted(runs_in(place), key=lambda entry: entry.of)
        others = [entry.run for entry in of_itself_first if entry.study == plan.name]
        told = f"; runs of other versions or settings, which can be named instead: {listed(others)}" if others else ""
        since = _since(place.inside(others[0]), plan) if others else ""
        raise EnvironmentFault(
            f"{name}: this study has not been run{since}; do: sweeper run {name}{options} --out {out}{told}"
        )
    assert_own(folder(directory), plan)
    return Found(directory, OF_STUDY)
