"""The library: layers, inheritance, aliases, provenance, and the entries that come with the package."""

import pickle
from pathlib import Path

import pytest

from sweeper.errors import SpecError
from sweeper.library.entries import Value
from sweeper.library.graph_workload import read_workload
from sweeper.library.library import FOLDERS, Library, builtin_specs
from sweeper.library.table_arrays import traits
from sweeper.library.table_workload import OperatorTable, read_table
from sweeper.reading.expressions import Expression
from sweeper.study.columns import Stock
from sweeper.words.system import ATTRIBUTES, GRADES
from tests.support.small_specs import FILES, write_files


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library.load([write_files(tmp_path, FILES)])


def test_numbers_carry_unit_source_and_grade(library: Library) -> None:
    chip = library.find("chip", "alpha")
    assert chip.values["peak_flops"] == Value(10e12, "flop/s", "a datasheet", "datasheet")
    assert chip.values["price"] == Value(1000, "usd", "a price list", "estimate")
    assert chip.values["lanes"] == Value(1, "", "default of the vocabulary", "assumed")
    assert chip.values.keys() == ATTRIBUTES["chip"].keys()
    assert chip.tags == ("small", "gpu")
    assert chip.origin.endswith("chips.yaml:2")


def test_an_entry_extends_another(library: Library) -> None:
    chip = library.find("chip", "beta")
    assert chip.values["peak_flops"] == Value(40e12, "flop/s", "another datasheet", "datasheet")
    assert chip.values["power"].source == "a datasheet"
    assert chip.values["price"] == Value(1000, "usd", "a price list", "assumed")
    assert chip.description == "a chip"
    assert chip.tags == ("big", "gpu")
    assert chip.aliases == ()


@pytest.mark.parametrize("name", ["alpha", "a1", "A1", "alfa", "ALPHA"])
def test_aliases_in_any_case(library: Library, name: str) -> None:
    assert library.find("chip", name).name == "alpha"


def test_an_unknown_name_is_answered_with_the_nearest(library: Library) -> None:
    with pytest.raises(LookupError, match="unknown chip 'alpa', did you mean 'alpha'"):
        library.find("chip", "alpa")


def test_selection_by_tags_and_numbers(library: Library) -> None:
    def names(where: str | None = None, tags: tuple[str, ...] = ()) -> list[str]:
        return [entry.name for entry in library.select("chip", Expression(where) if where else None, tags)]

    assert names() == ["alpha", "beta"]
    assert names(tags=("gpu", "big")) == ["beta"]
    assert names("peak_flops < 2e13 and price == 1000") == ["alpha"]
    assert names("power > 1e6") == []
    with pytest.raises(LookupError, match="did you mean 'gpu'"):
        names(tags=("gpus",))


def test_topologies_have_dimensions(library: Library) -> None:
    assert library.find("topology", "torus").dimensions == ("ring", "ring")


def test_earlier_directories_win_and_may_extend_later_ones(tmp_path: Path) -> None:
    write_files(tmp_path / "ours", FILES)
    mine = {"chips/mine.yaml": "alpha: {extends: alpha, source: mine, grade: assumed, power: 300 W}\n"}
    library = Library.load([write_files(tmp_path / "mine", mine), tmp_path / "ours"])
    chip = library.find("chip", "a1")
    assert chip.values["power"] == Value(300, "W", "mine", "assumed")
    assert chip.values["peak_flops"].number == 10e12
    assert library.find("chip", "beta").values["power"].number == 300


def test_entries_mean_the_same_wherever_they_stand(tmp_path: Path) -> None:
    first = Library.load([write_files(tmp_path / "a", FILES)])
    moved = {name: "# a comment\n\n" + text for name, text in FILES.items()}
    second = Library.load([write_files(tmp_path / "b", moved)])
    for kind in FOLDERS:
        for name in first.names(kind):
            assert first.find(kind, name).resolved() == second.find(kind, name).resolved()


def test_entries_in_use_travel_without_the_files(tmp_path: Path) -> None:
    write_files(tmp_path, FILES)
    library = Library.load([tmp_path])
    library.find("chip", "beta")
    (tmp_path / "chips" / "chips.yaml").unlink()
    copy = pickle.loads(pickle.dumps(library))
    assert repr(copy.find("chip", "beta").values) == repr(library.find("chip", "beta").values)


def test_a_misnamed_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "chip").mkdir()
    (tmp_path / "chip" / "mine.yaml").write_text("mine: {}")
    with pytest.raises(SpecError, match="unknown library folder 'chip', did you mean 'chips'"):
        Library.load([tmp_path])


def test_a_file_below_the_folder_of_its_kind_is_an_error(tmp_path: Path) -> None:
    """Nothing read it, and its entries were missing without a word."""
    deep = tmp_path / "chips" / "sub" / "mine.yaml"
    deep.parent.mkdir(parents=True)
    deep.write_text("mine: {}")
    with pytest.raises(SpecError, match="nothing reads it: entries of chips/ stand in chips/ itself") as caught:
        Library.load([tmp_path])
    assert [problem.file for problem in caught.value.problems] == [str(deep)]


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="does not exist"):
        Library.load([tmp_path / "nowhere"])


class TestWorkload:
    def test_repeats_are_written_out(self, library: Library) -> None:
        workload = read_workload(library.find("workload", "toy"))
        assert [kernel.name for kernel in workload.kernels] == ["first", "step_1", "step_2", "step_3", "last"]
        assert [kernel.inputs for kernel in workload.kernels] == [(), (0,), (0, 1), (0, 2), (3,)]
        step = workload.kernels[2]
        assert step.m.evaluate(workload.parameters) == 128
        assert step.n.symbols == {"microbatch"}
        assert step.k.evaluate({}) == 1

    def test_fields(self, library: Library) -> None:
        workload = read_workload(library.find("workload", "toy"))
        assert workload.parameters == {"hidden": 64, "samples": 32, "word": 2}
        assert workload.scalars["word"].evaluate(workload.parameters) == 2
        assert [workload.scalars[name].text for name in ("tiles", "stage_boundary", "resident")] == ["1", "0", "0"]
        last = workload.kernels[-1]
        assert (last.phase, last.tile, last.shard, last.weight, last.gradient) == ("backward", "n", "m", False, False)
        assert last.split == (("m", Expression("chips")),)
        assert last.collectives == (("all_reduce_data", Expression("hidden*word")),)

    def test_partitions(self, library: Library) -> None:
        partitions = read_workload(library.find("workload", "toy")).partitions
        assert partitions == {
            "kernel_by_kernel": (0, 1, 2, 3, 4),
            "single": (0, 0, 0, 0, 0),
            "optimal": (),
            "halves": (0, 0, 1, 1, 1),
        }

    def test_kernels_are_sorted_only_where_edges_need_it(self, tmp_path: Path) -> None:
        kernels = (
            "kernels:\n"
            '  - {name: "b_{i}", repeat: {i: [0, 2]}, type: gemm, m: 1, n: 1, inputs: ["a_{i}"]}\n'
            '  - {name: "a_{i}", repeat: {i: [0, 2]}, type: gemm, m: 1, n: 1, inputs: ["b_{i-1}"]}\n'
            "  - {name: free, type: gemm, m: 1, n: 1}\n"
        )
        text = "w:\n  source: s\n  grade: assumed\n  layers: 1\n  batch: 1\n  word: 2\n  " + kernels.replace(
            "\n", "\n  "
        )
        library = Library.load([write_files(tmp_path, {"workloads/w.yaml": text})])
        workload = read_workload(library.find("workload", "w"))
        assert [kernel.name for kernel in workload.kernels] == ["a_0", "b_0", "a_1", "b_1", "a_2", "b_2", "free"]
        assert all(index > producer for index, kernel in enumerate(workload.kernels) for producer in kernel.inputs)

    def test_an_extension_replaces_parameters(self, tmp_path: Path) -> None:
        more = "wide: {extends: toy, source: mine, grade: assumed, parameters: {hidden: 128}}\n"
        files = {**FILES, "workloads/more.yaml": more}
        workload = read_workload(Library.load([write_files(tmp_path, files)]).find("workload", "wide"))
        assert workload.parameters == {"hidden": 128, "samples": 32, "word": 2}
        assert len(workload.kernels) == 5

    def test_expressions_may_name_switches(self, tmp_path: Path) -> None:
        traffic = "  kernels:\n  - {name: a, type: gemm, m: 8, n: 8, dram: 64 * tensor_traffic}\n"
        head = "w:\n  source: s\n  grade: assumed\n  layers: 1\n  batch: 1\n  word: 2\n"
        library = Library.load([write_files(tmp_path, {"workloads/w.yaml": head + traffic})])
        (kernel,) = read_workload(library.find("workload", "w")).kernels
        assert [kernel.dram.evaluate({"tensor_traffic": choice}) for choice in (0, 1)] == [0, 64]
        hidden = head + "  parameters: {overlap: 1}\n" + traffic
        library = Library.load([write_files(tmp_path, {"workloads/w.yaml": hidden})])
        with pytest.raises(SpecError, match="'overlap' is a column of the mapping"):
            read_workload(library.find("workload", "w"))


class TestOperatorTable:
    """Operators of a table, of which one entry may stand for several."""

    def read(self, folder: Path, operators: str) -> OperatorTable:
        text = f"mine:\n  extends: linpack\n  source: s\n  grade: assumed\n  operators:\n{operators}"
        library = Library.load([builtin_specs(), write_files(folder, {"workloads/mine.yaml": text})])
        return read_table(library.find("workload", "mine"))

    def test_repeats_are_written_out(self, tmp_path: Path) -> None:
        table = self.read(
            tmp_path,
            '  - {name: "a_{i}", repeat: {i: [0, 2]}, type: gemm, m: 8 * (i + 1)}\n'
            '  - {name: "b_{i}", repeat: {i: [1, 2]}, type: collective, message: n, beside: ["a_{i-1}", forward]}\n',
        )
        assert [operator.name for operator in table.operators] == ["a_0", "a_1", "a_2", "b_1", "b_2"]
        assert [operator.fields["m"].evaluate({}) for operator in table.operators[:3]] == [8, 16, 24]
        assert [operator.beside for operator in table.operators[2:]] == [None, ("a_0", "forward"), ("a_1", "forward")]
        assert traits(table)[:, -2].tolist() == [-1, -1, -1, 0, 1]

    @pytest.mark.parametrize(
        ("operator", "words"),
        [
            ('{name: "a_{i}", repeat: {i: [0, n]}, type: gemm}', "unknown name 'n'"),
            ("{name: a, repeat: {i: [0, 1]}, type: gemm}", "operator 'a' stands twice"),
            ('{name: "a_{i}", repeat: {k: [0, 1]}, type: gemm}', "'k' cannot name an index"),
            ('{name: "a_{i}", repeat: {i: [0, 1]}, type: gemm, m: i - 1}', "gives -1"),
            ('{name: "a_{i}", repeat: {i: [0, 1]}, type: collective, beside: ["b_{i}", forward]}', "unknown operator"),
        ],
    )
    def test_mistakes_are_named(self, tmp_path: Path, operator: str, words: str) -> None:
        with pytest.raises(SpecError, match=words):
            self.read(tmp_path, f"  - {operator}\n")


class TestBuiltin:
    def test_every_entry_is_sound(self) -> None:
        library = Library.load([builtin_specs()])
        library.check()
        stock = Stock(library)
        for name in library.names("workload"):
            stock.workload(name)

    def test_every_number_has_a_source_and_a_grade(self) -> None:
        library = Library.load([builtin_specs()])
        values = [value for kind in FOLDERS for entry in library.select(kind) for value in entry.values.values()]
        assert values
        assert all(value.source and value.grade in GRADES for value in values)


# What entries belong to


@pytest.mark.parametrize("word", ["quick", "ddr", "swift"])
def test_what_an_entry_belongs_to_may_be_a_name_an_alias_or_a_tag_of_any_layer(tmp_path: Path, word: str) -> None:
    memory = "quick: {source: s, grade: estimate, aliases: [ddr], tags: [swift], bandwidth: 1 TB/s, capacity: 1 GB}\n"
    mine = write_files(tmp_path / "mine", {"chips/more.yaml": f"gamma: {{extends: alpha, fits: {{memory: {word}}}}}\n"})
    other = write_files(tmp_path / "other", {"memories/more.yaml": memory})
    library = Library.load([mine, other, write_files(tmp_path / "all", FILES)])
    assert library.find("chip", "gamma").fits == {"memory": (word,)}


def test_what_an_ancestor_belongs_to_is_refused_where_it_is_written(tmp_path: Path) -> None:
    chips = "gamma: {extends: alpha, fits: {memory: [stack, stakced]}}\ndelta: {extends: gamma}\n"
    library = Library.load([write_files(tmp_path, {**FILES, "chips/more.yaml": chips})])
    told = (
        r"more\.yaml:1:\d+: gamma\.fits\.memory\[2\]: unknown name or tag of a memory .stakced., did you mean .stacked"
    )
    for name in ("delta", "gamma", "delta"):
        with pytest.raises(SpecError, match=told):
            library.find("chip", name)
    assert library.find("chip", "beta")


def test_a_workload_is_read_once_and_anew_where_its_numbers_are_others(tmp_path: Path) -> None:
    """What a second library redefines of an entry is not that of the first, though its operators are the same nodes."""
    (tmp_path / "workloads").mkdir()
    text = "gpt_7b: {extends: gpt_7b, source: s, grade: assumed, parameters: {layers: 5}}\n"
    (tmp_path / "workloads" / "mine.yaml").write_text(text)
    first, again, other = (Stock(Library.over(layers)).workload("gpt_7b") for layers in ([], [], [tmp_path]))
    assert first is again
    assert other.parameters["layers"] == 5.0 != first.parameters["layers"]
