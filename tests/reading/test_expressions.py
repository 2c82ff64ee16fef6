"""Expressions: Python's arithmetic on a whitelist, exact on whole numbers, vectorised."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.reading.expressions import Expression, check_symbols, is_symbol
from sweeper.reading.steps import ExpressionError

VALUES = {"a": 6.0, "b": np.arange(4.0), "kind": np.array(["x", "y", "x", "z"]), "name": "x", "memory.bandwidth": 1e11}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("a*2 + 1", 13),
        ("-2**2", -4),
        ("2**10", 1024),
        ("3**33", 3**33),
        ("2**-1", 0.5),
        ("1024**0.5", 32),
        ("a//4", 1),
        ("-7//2", -4),
        ("-7 % 3", 2),
        ("ceil(a/4) + floor(a/4)", 3),
        ("log2(8)", 3),
        ("sqrt(16)", 4),
        ("min(a, 2, 3) + max(a, 2)", 8),
        ("b**2", [0, 1, 4, 9]),
        ("2**b", [1, 2, 4, 8]),
        ("min(b, 2)", [0, 1, 2, 2]),
        ("1 < b < 3", [False, False, True, False]),
        ("kind == 'x'", [True, False, True, False]),
        ("kind != name", [False, True, False, True]),
        ("name == 'x' and a > 5", True),
        ("not a or a == 6", True),
        ("memory.bandwidth > 1e10", True),
        ("(a > 5) * 3", 3),
        ("a / 0", math.inf),
        ("9**9**9**9", math.inf),
        ("  a +\n  1", 7),
        ("(a - 4) - (4 - a)", 4),
        ("(a > 4) + (a > 4)", 2),
    ],
)
def test_values(text: str, result: object) -> None:
    found = Expression(text).evaluate(VALUES)
    assert np.array_equal(found, result)
    assert isinstance(found, np.ndarray) == isinstance(result, list)


@pytest.mark.parametrize(
    ("text", "offset", "fragment"),
    [
        ("", 0, "empty"),
        ("a b", 0, "cannot read"),
        ("1 +", 0, "cannot read"),
        ("__import__('os').system('x')", 0, "only functions may be called"),
        ("__import__('os')", 0, "unknown function '__import__'"),
        ("a + sqr(4)", 4, "did you mean 'sqrt'?"),
        ("a.b.c", 0, "is not allowed"),
        ("a[0]", 0, "is not allowed"),
        ("[1]", 0, "is not allowed"),
        ("lambda: 1", 0, "is not allowed"),
        ("a if b else 1", 0, "is not allowed"),
        ("2**65", 3, "an exponent beyond 64"),
        ("a @ b", 0, "is not allowed"),
        ("a & b", 0, "is not allowed"),
        ("~a", 0, "is not allowed"),
        ("a in b", 0, "is not allowed"),
        ("a is b", 0, "is not allowed"),
        ("f'{a}'", 0, "is not allowed"),
        ("min(*b)", 4, "is not allowed"),
        ("1j", 0, "is not allowed"),
        ("a + True", 4, "is not allowed"),
        ("min", 0, "is a function"),
        ("min()", 0, "takes 1 to 20"),
        ("sqrt(1, 2)", 0, "takes 1 plain"),
        ("min(a, key=b)", 0, "takes 1 to 20"),
        ("x := 1", 0, "cannot read"),
        ("1e400", 0, "beyond 1e300"),
        ("9" * 400, 0, "beyond 1e300"),
        ("-" * 900 + "1", 50, "nested deeper"),
        ("(" * 300 + ")" * 300, 0, "cannot read"),
        ("1" * 2000, 0, "at most 1000"),
    ],
)
def test_what_is_no_expression(text: str, offset: int, fragment: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Expression(text)
    assert fragment in str(caught.value)
    # Where Python sees a mistake of syntax differs between its versions.
    assert caught.value.offset == offset or fragment == "cannot read"


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("missing + 1", "unknown name 'missing'"),
        ("kind + 1", "is text"),
        ("-name", "is text"),
        ("kind < 'x'", "only be compared"),
        ("a == name", "only be compared"),
    ],
)
def test_what_has_no_value(text: str, fragment: str) -> None:
    with pytest.raises(ExpressionError, match="^.*" + fragment.replace("*", r"\*")):
        Expression(text).evaluate(VALUES)


def test_symbols_are_found_and_checked_at_their_place() -> None:
    expression = Expression("hidden * tensor_parallell + memory.bandwidth")
    assert expression.symbols == {"hidden", "tensor_parallell", "memory.bandwidth"}
    with pytest.raises(ExpressionError, match="did you mean 'tensor_parallel'") as caught:
        check_symbols(expression, ["hidden", "tensor_parallel", "memory.bandwidth"])
    assert caught.value.offset == 9


def test_expressions_are_values() -> None:
    expression = Expression("a*b")
    assert pickle.loads(pickle.dumps(expression)) == expression
    assert hash(expression) == hash(Expression("a*b"))
    assert expression.symbols == {"a", "b"} and not Expression("2*3").symbols


@pytest.mark.parametrize(
    ("text", "zeros", "moved"),
    [
        ("d * o / 2", "d", None),
        ("(1 - d) * w + d * (1 + o / 2)", "d", "w"),
        ("p + d * o", "d", "p"),
        ("p + d * o", "", "p d o"),
        ("0 * x", "", "x"),
        ("d - e", "d e", None),
        ("d / o + d % o + d // o", "d", None),
        ("o / d", "d", "o"),
        ("-d", "d", None),
        ("not d", "d", ""),
        ("d == 0", "d", ""),
        ("2 ** d", "d", ""),
        ("log2(d)", "d", ""),
        ("ceil(d * x)", "d", None),
        ("min(d, x)", "d", "x"),
        ("max(d * x, 0)", "d", None),
        ("a.b * d + q", "d", "q"),
    ],
)
def test_what_moves_a_value_where_some_symbols_are_zero(text: str, zeros: str, moved: str | None) -> None:
    expected = None if moved is None else frozenset(moved.split())
    assert Expression(text).moved_by(frozenset(zeros.split())) == expected


@pytest.mark.parametrize("i", [0, 3, -3])
def test_bound_symbols_are_constants(i: int) -> None:
    expression = Expression("i**2 - 2*i + n")
    bound = expression.bind({"i": i, "unused": 1})
    assert bound.symbols == {"n"}
    assert bound.evaluate({"n": 0.5}) == expression.evaluate({"i": i, "n": 0.5})


def test_conditions_come_apart() -> None:
    parts = Expression("a*b == c and d < 3").conjuncts()
    assert [part.text for part in parts] == ["a * b == c", "d < 3"]
    assert [side.text for side in parts[0].sides() or ()] == ["a * b", "c"]
    assert Expression("a < b < c").sides() is None


@pytest.mark.parametrize(("name", "good"), [("a", True), ("x1", True), ("min", False), ("if", False), ("True", False),
                                            ("a.b", False), ("a b", False), ("1x", False), ("", False)])  # fmt: skip
def test_symbol_names(name: str, good: bool) -> None:
    assert is_symbol(name) == good


whole = st.integers(-(2**17), 2**17)
operators = st.sampled_from(["+", "-", "*", "//", "%", "<", "<=", "==", "!="])


@given(st.lists(whole, min_size=2, max_size=3), operators, operators)
def test_whole_numbers_are_exact(numbers: list[int], first: str, second: str) -> None:
    a, b, c = [*numbers, 7][:3]
    text = f"(a {first} b) {second} c"
    try:
        exact = eval(text, {"a": a, "b": b, "c": c})  # noqa: S307
    except ZeroDivisionError:
        return
    assert Expression(text).evaluate({"a": a, "b": b, "c": c}) == exact
    many = Expression(text).evaluate({"a": np.full(5, a), "b": b, "c": np.full(5, c)})
    assert np.array_equal(many, np.full(5, exact))


@given(st.integers(1, 8), st.integers(0, 15))
def test_powers_and_logarithms_of_whole_numbers_are_exact(base: int, exponent: int) -> None:
    assert Expression("a**b").evaluate({"a": base, "b": exponent}) == base**exponent
    assert Expression("log2(2**b)").evaluate({"b": exponent}) == exponent


@given(st.text(max_size=60))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    fault = None
    try:
        Expression(text).evaluate(VALUES)
    except ExpressionError as caught:
        fault = caught
    assert fault is None or (str(fault) and fault.offset >= 0)
