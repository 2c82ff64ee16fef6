"""Definitions, and fields of tables in their symbols: all at once the same as each by itself."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sweeper.reading.definitions import Definitions, Fields
from sweeper.reading.expressions import Expression
from tests.support.examples import examples

SYMBOLS = ("a", "b", "c")
DEFINED = {"wide": "4 * a", "large": "wide > b", "c": "a - b"}
DEFINITIONS = Definitions(tuple((name, Expression(text)) for name, text in DEFINED.items()))
"""`c` stands for a definition, whatever it is given as."""


@st.composite
def texts(draw: st.DrawFn, depth: int = 2) -> str:
    """Expressions of which parts occur again and again."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([*SYMBOLS, "wide", "large", "0", "2", "-0.5", "1e-3"]))
    left, right = draw(texts(depth - 1)), draw(texts(depth - 1))
    form = draw(st.sampled_from(["{} + {}", "{} - ({})", "({}) * ({})", "({}) / ({})", "min({}, {})", "({}) < ({})",
                                 "({}) and ({})", "({}) // ({})", "({})**2 + {}", "ceil({}) + {}"]))  # fmt: skip
    return form.format(left, right)


@examples(200)
@given(st.lists(st.lists(texts(), min_size=2, max_size=2), min_size=1, max_size=5), st.data())
def test_fields_are_what_each_expression_gives(rows: list[list[str]], data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 3))
    numbers = st.lists(st.sampled_from([0.0, -1.0, 1.5, 7.0]), min_size=n, max_size=n)
    values = {name: np.array(data.draw(numbers)) for name in SYMBOLS}
    table = [[Expression(text) for text in row] for row in rows]
    found = Fields(table, DEFINITIONS).evaluate(values, n)
    known = DEFINITIONS.added(values)
    for i, row in enumerate(table):
        for column, expression in enumerate(row):
            alone = np.broadcast_to(np.asarray(expression.evaluate(known), np.float64), n)
            assert found[:, i, column].tobytes() == alone.tobytes(), expression
