"""Readers of nodes go on after a mistake, so that all of them are told at once, each at its place."""

import pytest

from sweeper.errors import Problems, SpecError
from sweeper.reading import checks
from sweeper.reading.nodes import parse_yaml


def mistakes(caught: pytest.ExceptionInfo[SpecError]) -> list[tuple[int, str]]:
    """Column and message of every mistake."""
    return [(problem.column, problem.message.split(";")[0]) for problem in caught.value.problems]


def test_every_mistake_of_a_list_is_told() -> None:
    node = parse_yaml("[one, [2], one, {a: 1}, two]", "list")
    with pytest.raises(SpecError) as caught:
        checks.texts(node, "names")
    assert mistakes(caught) == [
        (7, "found a list"),
        (12, "'one' is given twice"),
        (17, "found a mapping"),
    ]
    assert checks.texts(parse_yaml("[one, two]", "list"), "names") == ("one", "two")
    assert checks.texts(parse_yaml("one", "text"), "names") == ("one",)
    assert checks.texts(parse_yaml("[]", "list"), "names") == ()


def test_every_unknown_and_missing_key_is_told() -> None:
    with pytest.raises(SpecError) as caught:
        checks.fields(parse_yaml("{a: 1, x: 2, y: 3}", "m"), "a thing", ("a", "b", "c"), required=("a", "b"))
    assert [problem.message.split(" (")[0] for problem in caught.value.problems] == [
        "a thing lacks the key 'b'",
        "unknown key of a thing 'x'",
        "unknown key of a thing 'y'",
    ]


def test_a_mistaken_entry_has_its_default_and_the_others_are_read() -> None:
    problems = Problems()
    written = checks.known_fields(
        parse_yaml("{count: 1.5, name: x, odd: 1}", "m"), "a thing", ("count", "name"), problems
    )
    assert written.read("count", checks.whole, "count", default=7) == 7
    assert written.read("name", checks.text, "name", default="") == "x"
    assert written.read("absent", checks.text, "absent", default=None) is None
    assert len(problems) == 2


@pytest.mark.parametrize(("text", "value"), [("3", 3), ("1e3", 1000), ("0", None), ("11", None), ("2.5", None)])
def test_whole_numbers_of_a_range(text: str, value: int | None) -> None:
    node = parse_yaml(text, "n")
    if value is None:
        with pytest.raises(SpecError):
            checks.whole(node, "n", 1, 10)
    else:
        assert checks.whole(node, "n", 1, 1000) == value
