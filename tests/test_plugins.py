"""What installed packages add by entry points, and what is said of those that cannot be."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from tests.places import ROOT
from tests.support.examples import first_of
from tests.support.installed import answer, installed, sweeper

EXAMPLE = ROOT / "examples" / "plugin"
STUDY = """
study: cooled
axes:
  workload: [llama3_8b, llama3_8b_cooled]
  chip: h100_sxm5_80gb
  memory: hbm3_h100
  link: nvlink4
  topology: switch
  chips: 8
  dim_x: 8
  tensor_parallel: 8
  batch_size: 8
  microbatch: 1
  cooling: {linspace: [0.1, 0.4, 3000]}
output: {columns: [system_power_W, cooled_power_W, power_efficiency_flops_per_W]}
"""
COLUMNS = "workload, cooling, system_power_W, cooled_power_W, power_efficiency_flops_per_W"
DOUBLED = """
from sweeper.kernels.equation import Output, equation

@equation(Output("doubled_power_W", "W", "twice the power"), source="made up")
def doubled_power(system_power_W: float) -> float:
    return 2.0 * system_power_W
"""
SMALL = {"study": "small", "axes": {**yaml.safe_load(STUDY)["axes"], "workload": "llama3_8b"}}
del SMALL["axes"]["cooling"]


def example(site: Path) -> Path:
    """The example, installed into a folder as it says itself."""
    groups = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    points = {f"{group.removeprefix('sweeper.')}/{name}": to for group, of in groups.items() for name, to in of.items()}
    shutil.copytree(EXAMPLE / "sweeper_cooling", site / "sweeper_cooling")
    return installed(site, "sweeper_cooling", points, {})


def small(folder: Path, **more: object) -> Path:
    """A study of one point."""
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump({**SMALL, **more}))
    return path


def test_the_page_shows_the_example() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text()
    python, toml, study = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("python", "toml", "yaml"))
    assert python[0] in (EXAMPLE / "sweeper_cooling" / "__init__.py").read_text()
    assert toml[0] in (EXAMPLE / "pyproject.toml").read_text()
    assert yaml.safe_load(study[0]) | {"axes": {}} == yaml.safe_load(STUDY) | {"axes": {}}
    assert yaml.safe_load(study[0])["axes"] | {"cooling": 0} == yaml.safe_load(STUDY)["axes"] | {"cooling": 0}
    lines = sum(path.read_text().count("\n") for path in EXAMPLE.rglob("*") if path.suffix in (".py", ".toml", ".yaml"))
    assert f"It is {lines} lines." in page and lines <= 60


@pytest.mark.slow
def test_an_equation_a_family_a_number_a_backend_and_a_library_of_a_package(tmp_path: Path) -> None:
    site = example(tmp_path / "site")
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    place = ("-q", "--out", str(tmp_path / "out"))
    run = answer(site, "run", str(path), *place, "--backend", "processes", "--workers", "2")
    rows = answer(site, "query", run["run_directory"], f"SELECT {COLUMNS} FROM data")
    assert len(rows) == 6000  # as many as make compiled loops worth while
    for row in rows:
        assert row["cooled_power_W"] == pytest.approx(row["system_power_W"] * (1.0 + row["cooling"]))
    plain, cooled = ([row for row in rows if row["workload"] == f"llama3_8b{end}"] for end in ("", "_cooled"))
    for ours, theirs in zip(plain, cooled, strict=True):
        paid = theirs["power_efficiency_flops_per_W"] * (1.0 + theirs["cooling"])
        assert paid == pytest.approx(ours["power_efficiency_flops_per_W"])
    again = answer(site, "run", str(path), "-q", "--out", str(tmp_path / "again"))
    parts = [sorted(Path(each["run_directory"], "data").iterdir()) for each in (run, again)]
    assert [part.read_bytes() for part in parts[0]] == [part.read_bytes() for part in parts[1]]
    listed = answer(site, "env")["plugins"]
    assert {(each["kind"], each["name"]) for each in listed} == {
        *{("number", "cooling"), ("equation", "cooling"), ("family", "cooled"), ("library", "cooling")},
        ("backend", "processes"),
    }
    assert {each["package"] for each in listed} == {"sweeper_cooling 1.0"}
    assert not any(each["problem"] for each in listed)
    listings = {kind: answer(site, "list", kind)[kind] for kind in ("family", "backend", "column")}
    names = {kind: [each["name"] for each in listing] for kind, listing in listings.items()}
    assert "cooled" in names["family"] and "processes" in names["backend"] and "cooled_power_W" in names["column"]
    told = sweeper(site, "explain", str(path), "0")
    assert "cooled_power_W" in told.stdout and "a share of the power" in told.stdout
    # Without the package nothing knows its words.
    alone = sweeper(tmp_path, "plan", str(path))
    assert alone.returncode == 2 and "llama3_8b_cooled" in alone.stderr and "unknown column 'cooling'" in alone.stderr


POWER = """
from doubling.helper import times
from sweeper.kernels.equation import Output, equation

@equation(Output("doubled_power_W", "W", "more power"), source="made up")
def doubled_power(system_power_W: float, compute_efficiency: float) -> float:
    return times(system_power_W)
"""
HELPER = """
from sweeper.kernels.equation import compiled

@compiled
def times(x):
    return {} * x
"""


@pytest.mark.nightly
@pytest.mark.slow
def test_compiled_code_and_runs_follow_the_source_of_a_plug_in(tmp_path: Path) -> None:
    """A few points, whose equations are called one by one, and as many as make a compiled loop worth while.

    What changes is in another file than the equation, and was never seen by the cache of this user.
    """
    output = {"columns": ["system_power_W", "doubled_power_W"]}
    efficiencies = ([0.5, 0.6], {"linspace": [0.1, 0.9, 5000]})
    (tmp_path / "few").mkdir()
    few, path = (
        small(folder, axes={**SMALL["axes"], "compute_efficiency": values}, output=output)
        for folder, values in zip((tmp_path / "few", tmp_path), efficiencies, strict=True)
    )
    ratio = "doubled_power_W / system_power_W"
    asked = f"SELECT MIN({ratio}) AS least, MAX({ratio}) AS most FROM data"
    found = {}
    files = {"doubling/__init__.py": "", "doubling/power.py": POWER}
    site = installed(tmp_path / "site", "doubling", {"equations/power": "doubling.power"}, files)
    for factor in (2.0, 3.0):
        (site / "doubling" / "helper.py").write_text(f"{HELPER.format(factor)}# {uuid4()}\n")
        for study, rows in ((few, 2), (path, 5000)):
            run = answer(site, "run", str(study), "-q", "--out", str(tmp_path / "out"))
            assert run["rows"] == rows
            assert answer(site, "query", run["run_directory"], asked) == [{"least": factor, "most": factor}]
            found[run["run_directory"]] = factor
    assert len(found) == 4


@pytest.mark.slow
def test_a_format_and_a_chart(tmp_path: Path) -> None:
    code = (
        "from sweeper.plugins import Chart\n"
        "def lines(value):\n    return '\\n'.join(f'- {key}' for key in value)\n"
        "def draw(frame, folder, study):\n"
        "    (folder / 'count.svg').write_text(f'<svg>{study} {frame.height}</svg>')\n"
        "    return [folder / 'count.svg']\n"
        "COUNT = Chart('rows', frozenset({'point_id'}), draw)\n"
        "LACKS = Chart('moons', frozenset({'moon'}), draw)\n"
    )
    points = {"formats/markdown": "shown:lines", "charts/count": "shown:COUNT", "charts/moons": "shown:LACKS"}
    site = installed(tmp_path / "site", "shown", points, {"shown.py": code})
    run = answer(site, "run", str(small(tmp_path)), "-q", "--out", str(tmp_path / "out"))["run_directory"]
    (picture,) = answer(site, "show", run, "--chart", "count")
    assert Path(picture).read_text() == "<svg>small 1</svg>"
    assert "- python" in sweeper(site, "env", "--markdown").stdout.splitlines()
    lacking = sweeper(site, "show", run, "--chart", "moons")
    assert lacking.returncode == 2 and "no moons, which shows moon" in lacking.stderr
    assert "rows" in sweeper(site, "list", "chart").stdout
    unknown = sweeper(site, "show", run, "--chart", "cuont")
    assert unknown.returncode == 2 and "did you mean 'count'" in unknown.stderr


TWICE = f"{DOUBLED}{DOUBLED.replace('def doubled_power', 'def again')}"
WRITES_OURS = DOUBLED.replace("doubled_power_W", "system_power_W").replace("system_power_W: float", "chips: float")
UNKNOWN_CHOICE = DOUBLED.replace('source="made up"', 'source="made up", when=("overlap", ("sometimes",))')
VARIANT = (
    "from sweeper.plugins import Variant\nfrom doubled import doubled_power\nMINE = Variant({!r}, (doubled_power,))\n"
)
WORDS = "from sweeper.words.attributes import fraction\nNUMBERS = {'chips': fraction('share of chips')}\n"
CHIP = "h100_sxm5_80gb: {extends: a100_sxm4_80gb}\n"

REFUSED = {
    "writes our column": (
        {"equations/a": "doubled"},
        {"doubled.py": WRITES_OURS},
        "as another equation does",
    ),
    "writes its own twice": ({"equations/a": "doubled"}, {"doubled.py": TWICE}, "doubled_power_W, as another equation"),
    "no choice of ours": ({"equations/a": "doubled"}, {"doubled.py": UNKNOWN_CHOICE}, "overlap: sometimes"),
    "no equation": ({"equations/a": "doubled"}, {"doubled.py": "x = 1\n"}, "is no equations"),
    "cannot be imported": ({"equations/a": "doubled"}, {"doubled.py": "import moon\n"}, "No module named 'moon'"),
    "numbers are no dict": (
        {"numbers/a": "doubled"},
        {"doubled.py": "x = 1\n"},
        "of broken 1.0 is of type module, not a",
    ),
    "number is no attribute": (
        {"numbers/a": "words:NUMBERS"},
        {"words.py": "NUMBERS = {'water_price': 3.0}\n"},
        "gives 'water_price' as 3.0, which is no sweeper.words.attributes.Attribute",
    ),
    "not there": ({"equations/a": "doubled:gone"}, {"doubled.py": DOUBLED}, "gone"),
    "our number": (
        {"numbers/a": "words:NUMBERS"},
        {"words.py": WORDS},
        "adds chips, which is taken: a study gives it",
    ),
    "no library": ({"libraries/a": "doubled"}, {"doubled.py": DOUBLED}, "is no package with a folder"),
    "our entry": (
        {"libraries/a": "lib"},
        {"lib/__init__.py": "", "lib/chips/c.yaml": CHIP},
        "'h100_sxm5_80gb' is also a name of 'h100_sxm5_80gb'",
    ),
    "our study": (
        {"libraries/a": "lib"},
        {"lib/__init__.py": "", "lib/studies/dse80.yaml": yaml.safe_dump(SMALL)},
        "two studies are installed as dse80",
    ),
}


@pytest.mark.parametrize("case", first_of(list(REFUSED), 5))
def test_what_cannot_be_is_refused_in_one_line(case: str, tmp_path: Path) -> None:
    points, files, message = REFUSED[case]
    site = installed(tmp_path / "site", "broken", points, files)
    words = ("plan", "dse80") if case == "our study" else ("plan", str(small(tmp_path)))
    found = sweeper(site, *words)
    assert found.returncode in (2, 3), found.stderr
    assert message in found.stderr and "Traceback" not in found.stderr
    about = answer(site, "env")
    assert [each["name"] for each in about["plugins"]] == ["a"]
    assert (
        any(message in told for told in [*about["plugin_faults"], about["plugins"][0]["problem"]])
        or case == "our entry"
    )


NAMES = {
    ("number", "workload"): "workload, which is taken: a study gives it",
    ("number", "x y"): "'x y', which is no name",
    ("number", "system_power_W"): "system_power_W, which is taken: an equation has it",
    ("number", "heads"): "heads, which is taken: an equation has it",
    ("equation", "chips"): "chips, which is taken: a study gives it",
    ("equation", "memory_bandwidth_Bps"): "memory_bandwidth_Bps, which is taken: a study gives it",
    ("equation", "doubled power_W"): "'doubled power_W', which is no name",
}
"""What is said of the name of a number, or of an equation's column."""


@pytest.mark.parametrize(
    ("unit", "told"), [("bananas", ": unknown unit 'bananas'; its name says W"), ("J", " is in 'J'; its name says W")]
)
def test_units_that_are_unknown_or_not_those_of_the_name_are_refused(unit: str, told: str, tmp_path: Path) -> None:
    module = DOUBLED.replace('"W"', f'"{unit}"')
    site = installed(tmp_path / "site", "doubled", {"equations/a": "doubled"}, {"doubled.py": module})
    (fault,) = answer(site, "env")["plugin_faults"]
    assert fault == f"the plug-in 'a' (equation) of doubled 1.0: doubled_power_W{told}"


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_names_that_are_taken_or_none_are_refused(kind: str, name: str, tmp_path: Path) -> None:
    code = {"number": WORDS.replace("chips'", f"{name}'"), "equation": DOUBLED.replace("doubled_power_W", name)}[kind]
    point = {"number": {"numbers/a": "named:NUMBERS"}, "equation": {"equations/a": "named"}}[kind]
    site = installed(tmp_path / "site", "named", point, {"named.py": code})
    (fault,) = answer(site, "env")["plugin_faults"]
    assert fault.startswith(f"the plug-in 'a' ({kind}) of named 1.0 adds {NAMES[kind, name]}")


def test_a_misspelt_group_is_told(tmp_path: Path) -> None:
    site = installed(tmp_path / "site", "doubled", {"equation/a": "doubled"}, {"doubled.py": DOUBLED})
    (fault,) = answer(site, "env")["plugin_faults"]
    told = "the plug-in 'a' of doubled 1.0: unknown group 'sweeper.equation', did you mean 'sweeper.equations'?"
    assert fault.startswith(told)


@pytest.mark.parametrize(
    ("name", "told"), [("out", "out, which is taken: another option"), ("mark-down", "'mark-down', which is no name")]
)
def test_formats_that_cannot_be_options_are_refused(name: str, told: str, tmp_path: Path) -> None:
    site = installed(tmp_path / "site", "shown", {f"formats/{name}": "shown:text"}, {"shown.py": "text = str\n"})
    (fault,) = answer(site, "env")["plugin_faults"] if name == "out" else [sweeper(site, "env").stderr.strip()]
    assert fault.startswith(f"the plug-in {name!r} (format) of shown 1.0 adds {told}")
    found = sweeper(site, "show", "dse80")
    assert (found.returncode, found.stderr) == (3, f"{fault}\n")


def test_objects_of_another_type_are_named_before_anything_is_written(tmp_path: Path) -> None:
    kinds = ("backends", "charts", "families", "formats")
    site = installed(tmp_path / "site", "wrong", {f"{kind}/mine": "wrong:THING" for kind in kinds}, {})
    (site / "wrong.py").write_text("THING = {}\n")
    problems = [each["problem"] for each in answer(site, "env")["plugins"]]
    assert [problem.partition(",")[0] for problem in problems] == [
        f"the plug-in 'mine' ({kind}) of wrong 1.0 is of type dict" for kind in ("family", "backend", "format", "chart")
    ]
    out = tmp_path / "out"
    for words in (("run", str(small(tmp_path)), "--backend", "mine", "--out", str(out)), ("list", "chart")):
        found = sweeper(site, *words)
        assert found.returncode == 3 and found.stderr.count("\n") == 1 and found.stderr.strip() in problems
    assert not out.exists()


def test_a_family_that_is_like_none_is_refused(tmp_path: Path) -> None:
    files = {"doubled.py": DOUBLED, "mine.py": VARIANT.format("operator"), "lib/__init__.py": ""}
    files["lib/workloads/w.yaml"] = "my_llama: {extends: llama3_8b, family: mine}\n"
    site = installed(tmp_path / "site", "broken", {"families/mine": "mine:MINE", "libraries/a": "lib"}, files)
    found = sweeper(site, "plan", str(small(tmp_path, axes={**SMALL["axes"], "workload": "my_llama"})))
    assert found.returncode == 3 and "did you mean 'operators'" in found.stderr
    assert "did you mean 'operators'" in sweeper(site, "list", "family").stderr


@pytest.mark.parametrize(("kind", "words"), [("backends", ("run", "--backend", "mine")), ("charts", ("list", "chart"))])
def test_two_packages_with_the_same_name_are_refused(kind: str, words: tuple[str, ...], tmp_path: Path) -> None:
    site = tmp_path / "site"
    for package in ("one", "two"):
        installed(site, package, {f"{kind}/mine": f"{package}:THING"}, {f"{package}.py": "THING = 1\n"})
    study = [str(small(tmp_path))] if words[0] == "run" else []
    found = sweeper(site, *words, *study)
    assert found.returncode == 3
    assert f"one 1.0 and two 1.0 all have the {kind.removesuffix('s')} 'mine'" in found.stderr
    assert all("uninstall" in each["problem"] for each in answer(site, "env")["plugins"])
    if kind == "backends":  # what does not use it goes on
        assert sweeper(site, "plan", *study).returncode == 0


def wheel(project: Path, into: Path) -> None:
    """Build the wheel of a project."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)


@pytest.mark.nightly
@pytest.mark.slow
def test_one_wheel_beside_another_package_of_kernels(tmp_path: Path) -> None:
    """In an environment of its own: our wheel and the example's, and another package whose name is that of a folder of
    ours, imported first or last."""
    wheel(ROOT, tmp_path / "wheels")
    wheel(shutil.copytree(EXAMPLE, tmp_path / "plugin"), tmp_path / "wheels")
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    wheels = map(str, (tmp_path / "wheels").glob("*.whl"))
    install = [str(environment / "bin" / "pip"), "install", "-q", "--no-index", "--no-deps", *wheels]
    subprocess.run(install, check=True, capture_output=True)
    site = next(environment.glob("lib/python*/site-packages"))
    assert not (site / "kernels").exists()
    (site / "kernels").mkdir()
    (site / "kernels" / "__init__.py").write_text("OTHER = True\n")
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"])
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def said(program: str, *words: str) -> str:
        command = [str(environment / "bin" / program), *words]
        found = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stderr
        return found.stdout

    told = "print(kernels.OTHER, sweeper.kernels.codes.__name__, sweeper.__file__)"
    for order in ("kernels, sweeper.kernels.codes", "sweeper.kernels.codes, kernels"):
        ours, name, place = said("python", "-c", f"import {order}; {told}").split()
        assert (ours, name, place) == ("True", "sweeper.kernels.codes", f"{site}/sweeper/__init__.py")
    assert "148,080 points" in said("sweeper", "plan", "dse80")
    assert "cooled" in said("sweeper", "list", "family")


def test_an_equation_that_reads_its_own_column_is_told(tmp_path: Path) -> None:
    module = DOUBLED.replace("system_power_W", "doubled_power_W")
    site = installed(tmp_path / "site", "doubled", {"equations/a": "doubled"}, {"doubled.py": module})
    found = sweeper(site, "plan", str(small(tmp_path, output={"columns": ["doubled_power_W"]})))
    told = "equations in a circle: doubled_power of doubled reads doubled_power_W, which doubled_power writes\n"
    assert (found.returncode, found.stderr) == (3, told)


def test_a_parameter_that_nothing_writes_is_told_with_its_equation(tmp_path: Path) -> None:
    module = DOUBLED.replace("system_power_W", "system_power")
    site = installed(tmp_path / "site", "doubled", {"equations/a": "doubled"}, {"doubled.py": module})
    found = sweeper(site, "plan", str(small(tmp_path, output={"columns": ["doubled_power_W"]})))
    assert found.returncode == 2
    assert "no column 'system_power' (did you mean 'system_power_W'?)" in found.stderr
    assert "which the equation doubled_power of doubled reads" in found.stderr and "small.yaml:" in found.stderr
