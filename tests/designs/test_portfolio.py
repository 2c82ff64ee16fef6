"""Designs shared by the systems of a portfolio file: by hand, conserved, and every mistake of a file told."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sweeper.cli import main
from sweeper.designs.portfolio import portfolio_report, read_portfolio
from sweeper.library.library import Library, builtin_specs
from tests.places import ROOT

EXAMPLE = ROOT / "examples" / "portfolio.yaml"


def library() -> Library:
    return Library.load([builtin_specs()])


def run(path: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["portfolio", str(path), *options])


def test_a_design_is_paid_once_and_by_all() -> None:
    """Shares times volumes are the sum of all designs; what one system pays alone is more for every one that shares."""
    report = portfolio_report(read_portfolio(EXAMPLE, library()), library())
    paid = sum(row["design_shared_usd"] * row["volume"] for row in report["systems"])
    assert paid == pytest.approx(sum(design["usd"] for design in report["designs"]), rel=1e-9)
    assert all(row["design_shared_usd"] < row["design_alone_usd"] for row in report["systems"])
    by_name = {design["design"]: design for design in report["designs"]}
    assert by_name["ccd"]["systems"] == by_name["iod"]["systems"] == 3
    assert by_name["ccd"]["pieces"] == 8 * 5e5 + 4 * 1e6 + 2 * 3e5
    assert by_name["iod"]["pieces"] == 5e5 + 1e6 + 3e5
    wafers = {row["node"]: row for row in report["wafers"]}
    assert wafers["n16"]["months"] == pytest.approx(wafers["n16"]["wafers"] / 2000.0)
    assert wafers["organic_substrate"]["months"] == 0.0


def test_a_system_by_itself_pays_what_its_package_says(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("portfolio: one\nsystems:\n  only: {package: a100, volume: 1e5}\n")
    (row,) = portfolio_report(read_portfolio(path, library()), library())["systems"]
    alone = CliRunner().invoke(main, ["cost", "a100", "--set", "package.volume=1e5", "--draws", "2", "--json"])
    parts = {part["name"]: part["value"] for part in json.loads(alone.stdout)["parts"]}
    assert row["design_alone_usd"] == pytest.approx(parts["package_design_usd"], rel=1e-9)
    assert row["design_shared_usd"] == pytest.approx(row["design_alone_usd"], rel=1e-9)
    total = json.loads(alone.stdout)["total"]["value"]
    assert row["total_usd"] == pytest.approx(total, rel=1e-9)


def test_the_command_prints_both_tables() -> None:
    text = run(EXAMPLE)
    assert text.exit_code == 0 and "one family of processors" in text.stdout and "What is designed" in text.stdout
    assert json.loads(run(EXAMPLE, "--json").stdout)["portfolio"] == "one family of processors"


def test_a_portfolio_has_systems(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("portfolio: none\nsystems: {}\n")
    found = run(path)
    assert found.exit_code == 2 and "p.yaml:2:10:" in found.stderr and "at least one" in found.stderr


def test_a_system_that_cannot_be_built_has_no_price(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    system = "{package: a100, volume: 1e6, set: {package.memory_stacks: 40}}"
    path.write_text(f"portfolio: p\nsystems:\n  large: {system}\n")
    found = run(path)
    assert (
        found.exit_code == 2 and "the system large cannot be built: a100 has carrier_exceeds_assembly" in found.stderr
    )


def test_the_dearer_of_two_designs_is_paid_in_any_order(tmp_path: Path) -> None:
    systems = [
        "  cheap: {package: h100, volume: 1e6, set: {node/n5/mask_set: 1 usd}}\n",
        "  dear: {package: h100, volume: 1e6}\n",
    ]
    found = []
    for number, order in enumerate((systems, systems[::-1])):
        path = tmp_path / f"{number}.yaml"
        path.write_text(f"portfolio: p\nsystems:\n{''.join(order)}")
        rows = json.loads(run(path, "--json").stdout)["systems"]
        found.append({row["system"]: row["design_shared_usd"] for row in rows})
    assert found[0] == found[1]


@pytest.mark.parametrize(("dies", "code"), [(0, 2), (2, 0)])
def test_a_die_of_which_there_is_none_takes_no_wafers(tmp_path: Path, dies: int, code: int) -> None:
    path = tmp_path / "p.yaml"
    system = f"{{package: epyc_7742, volume: 1e5, set: {{package.dies: {dies}}}}}"
    path.write_text(f"portfolio: p\nsystems:\n  a: {system}\nsupply: {{n7: 10 1/month}}\n")
    found = run(path)
    assert found.exit_code == code
    assert ("p.yaml:4:10: supply.n7: no system of this portfolio takes wafers of n7" in found.stderr) == (code == 2)


@pytest.mark.parametrize(
    ("old", "new", "line", "fragment"),
    [
        ("package: epyc_7742, volume: 5e5", "package: epyc_7724, volume: 5e5", 5, "did you mean 'epyc_7742'?"),
        ("volume: 5e5", "volum: 5e5", 5, "lacks the key 'volume'"),
        ("volume: 5e5", "volume: 5 usd", 5, "is in usd"),
        ("package.dies: 4", "package.dice: 4", 6, "unknown setting of epyc_7742 'package.dice'"),
        ("package.power: 155 W", "package.power: 155", 6, "needs a unit"),
        ("package.dies: 4", "package.volume: 4", 6, "unknown setting of epyc_7742 'package.volume'"),
        ("portfolio: one", "portfolios: one", 3, "portfolios"),
        ("systems:", "system:", 4, "system"),
        ("{n7: 1500", "{n17: 1500", 8, "unknown node 'n17', did you mean"),
        ("{n7: 1500", "{n3: 1500", 8, "no system of this portfolio takes wafers of n3"),
        ("{n7: 1500 1/month", "{n7: 1500 usd", 8, "is in usd"),
        ("{n7: 1500 1/month", "{n7: 1500", 8, "needs a unit"),
        ("{n7: 1500", "{n6: 9 1/month, n7: 1500", 8, "the supply of n7 is given twice"),
        ("{n7: 1500", "{n4: 1500", 8, "no system of this portfolio takes wafers of n4"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, old: str, new: str, line: int, fragment: str) -> None:
    path = tmp_path / "p.yaml"
    text = EXAMPLE.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    found = run(path)
    assert found.exit_code == 2 and fragment in found.stderr
    assert f"p.yaml:{line}:" in found.stderr


BOUGHT = """\
box:
  description: a bought die
  source: s
  grade: assumed
  parameters: {volume: 1e6}
  dies:
    - {name: die, node: n5, wafer: wafer_300, assembly: free_assembly, test: no_test, area: 9 mm^2, price: 5 usd,
       quality: 1}
"""


def test_a_package_without_a_volume_is_no_system(tmp_path: Path) -> None:
    """No design of it is known; of what is bought there is none, which may be."""
    (tmp_path / "packages").mkdir()
    path = tmp_path / "p.yaml"
    path.write_text("portfolio: x\nsystems:\n  a: {package: box, volume: 5e5}\n")
    (tmp_path / "packages" / "own.yaml").write_text(BOUGHT)
    found = run(path, "--library", str(tmp_path))
    assert found.exit_code == 0 and "nothing: all is bought" in found.stdout
    (tmp_path / "packages" / "own.yaml").write_text(BOUGHT.replace("  parameters: {volume: 1e6}\n", ""))
    for options in ((), ("--json",)):
        found = run(path, "--library", str(tmp_path), *options)
        assert found.exit_code == 2 and "p.yaml:3:16: systems.a.package: box says no volume" in found.stderr
