"""Formulas are hostile text: what is not on the list is refused with its place, and nothing is ever run."""

from __future__ import annotations

import contextlib
import gc
import string
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.analysis.design import build
from sfumato.analysis.formula import MOST_CHARACTERS, Variable, read_formula
from sfumato.errors import QueryError

COLUMNS = ("income", "age", "sex", "occupation", "hours per week", "Größe")


def terms(text: str) -> list[str]:
    formula = read_formula(text, COLUMNS)
    return [":".join(formula.factors[i].name for i in term) or "Intercept" for term in formula.terms]


@pytest.mark.parametrize(
    ("right", "expected"),
    [
        ("1", ["Intercept"]),
        ("age + sex", ["Intercept", "age", "sex"]),
        ("0 + age", ["age"]),
        ("age - 1", ["age"]),
        ("-1 + age", ["age"]),
        ("age + age", ["Intercept", "age"]),
        ("age:sex", ["Intercept", "age:sex"]),
        ("age*sex", ["Intercept", "age", "sex", "age:sex"]),
        ("age*sex:occupation", ["Intercept", "age", "sex:occupation", "age:sex:occupation"]),
        ("age/sex", ["Intercept", "age", "age:sex"]),
        ("(age + sex)**2", ["Intercept", "age", "sex", "age:sex"]),
        (
            "(age + sex + occupation)**2 - age:sex",
            ["Intercept", "age", "sex", "occupation", "age:occupation", "sex:occupation"],
        ),
        ("sex:age - age:sex", ["Intercept"]),
        ("I(age**2) + np.log(age)", ["Intercept", "I(age ** 2)", "np.log(age)"]),
        ("C(sex, contr.treatment(base='Male'))", ["Intercept", "C(sex, base='Male')"]),
        ("C(sex, Treatment('Male'))", ["Intercept", "C(sex, base='Male')"]),
        ("`hours per week` + I(`hours per week` / 10)", ["Intercept", "hours per week", "I(hours per week / 10)"]),
        ("Größe", ["Intercept", "Größe"]),
        ("{age > 30}", ["Intercept", "age > 30"]),
        ("C(age // 10)", ["Intercept", "C(age // 10)"]),
    ],
)  # fmt: skip
def test_operators_mean_what_they_mean_in_r(right: str, expected: list[str]) -> None:
    assert terms(f"income ~ {right}") == expected


HOSTILE = [
    "age.__class__",
    "age.real",
    "__import__('os').system('true')",
    "eval('1')",
    "exec('1')",
    "open('x')",
    "getattr(age, 'x')",
    "np.load('x')",
    "np.log.__self__",
    "np.log(age, out=age)",
    "np.log(*age)",
    "np.random.rand()",
    "np.exp(np.load('x'))",
    "I([a for a in age])",
    "I({a for a in age})",
    "{[a for a in age]}",
    "I((a for a in age))",
    "I((b := age))",
    "I(f'{age}')",
    "I(f'{__import__(\"os\")}')",
    "I(lambda: 1)",
    "I(age if age else sex)",
    "I(age and sex)",
    "I(not age)",
    "I(age[0])",
    "I(age @ sex)",
    "I(age << 3)",
    "I('a' * 9)",
    "I('a' + 'b')",
    "I(True)",
    "I(None)",
    "I(...)",
    "I(b'x')",
    "I(1j)",
    "I(age < 3 < 4)",
    "I(age in sex)",
    "I(age is sex)",
    "I(*age)",
    "I(x=age)",
    "C(age, levels=[1, 2])",
    "C(age, contr.poly)",
    "C(age, contr.treatment(base=age))",
    "C(age, contr.treatment(base=__import__('os')))",
    "C(__import__('os'))",
    "await age",
    "age; import os",
    "age\nimport os",
    "age # comment",
    "age \\ sex",
    "age | sex",
    "age % 3",
    "age = 3",
    "'age'",
    "3",
    "1.5",
    "(age",
    "age)",
    "{age",
    "`age",
    "{}",
    "{{age}}",
    "`__import__('os')`",
    "age ~ sex",
    "(((((((((((((((((((((((((((((((((((((((((((((((((age)))))))))))))))))))))))))))))))))))))))))))))))))",
    "(age + sex)**5",
    "(age + sex)**2.5",
    "0:age",
    "income2",
    "",
    "+",
    "\x00",
    "I('''",
    "I(\"a' + __import__('os') + '\")",
    "I(" + "-" * 1900 + "1)",
    "I(" + "(" * 900 + "1" + ")" * 900 + ")",
    "Q('age')",
    "hashed(age)",
]  # fmt: skip


class Watch:
    """The interpreter's own record of what this thread executes, opens or imports in the block.

    Without collections: what other tests have left may be removed by one, with its files.
    """

    def __init__(self) -> None:
        self.active, self.seen, self._thread = False, list[str](), get_ident()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, _: object) -> None:
        heard = {"exec", "open", "import", "os.system", "subprocess.Popen", "marshal.loads"}
        if self.active and get_ident() == self._thread and event in heard:
            self.seen.append(event)

    @contextmanager
    def on(self) -> Iterator[None]:
        self.seen.clear()
        gc.disable()
        self.active = True
        try:
            yield
        finally:
            self.active = False
            gc.enable()


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


def test_the_watch_sees_code_that_runs(watch: Watch) -> None:
    with watch.on():
        eval("1 + 1")
    assert watch.seen == ["exec"]


@pytest.mark.parametrize("right", HOSTILE)
def test_what_is_not_on_the_list_is_refused(right: str, watch: Watch) -> None:
    with pytest.raises(QueryError), watch.on():
        read_formula(f"income ~ {right}", COLUMNS)
    assert not watch.seen


@pytest.mark.parametrize(
    "left", ["", "age + sex", "~", "1", "income:age", "__import__('os')", "{income == }", "income ~ 1"]
)
def test_the_left_side_is_one_outcome(left: str) -> None:
    with pytest.raises(QueryError):
        read_formula(f"{left} ~ age ", COLUMNS)


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("income ~ age + I(sex.x)", "sex.x"),
        ("income ~ agee + sex", "agee"),
        ("income ~ `hours per week` + I(`hours per week` + 'a')", "'a'"),
        ("income ~ Größe + I(Größe + os)", "os"),
        ("income ~ center(age)", "center(age)"),
        ("{occupation == f'x'} ~ age", "f'x'"),
    ],
)
def test_the_caret_stands_under_the_offending_part(text: str, marked: str) -> None:
    with pytest.raises(QueryError) as caught:
        read_formula(text, COLUMNS)
    start, end = caught.value.position
    assert text[start:end] == marked


@pytest.mark.parametrize("name", ["center", "scale", "poly", "bs"])
def test_transforms_over_rows_are_refused_by_name(name: str) -> None:
    with pytest.raises(QueryError, match=rf"{name}\(\) needs all rows"):
        read_formula(f"income ~ {name}(age)", COLUMNS)


def test_a_long_formula_is_not_read() -> None:
    with pytest.raises(QueryError, match="characters"):
        read_formula("income ~ " + " + ".join(["age"] * MOST_CHARACTERS), COLUMNS)


@given(st.text(alphabet=string.printable + "~`{}äß", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for formula in (text, f"income ~ {text}", f"income ~ I({text})", f"{{{text}}} ~ age"):
        with contextlib.suppress(QueryError):
            read_formula(formula, COLUMNS)


def _grid() -> dict[str, Variable]:
    age = Variable(name="age", values=(20, 30, 40), codes=np.array([[0], [1], [2]]), numeric=True, randomised=False)
    names = ("clerk", "smith", None)
    work = Variable(name="occupation", values=names, codes=np.array([[0, 1, 2]]), numeric=False, randomised=True)
    return {"age": age, "occupation": work}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age + 1", [[21.0], [31.0], [41.0]]),
        ("-age // 30 % 2", [[1.0], [1.0], [0.0]]),
        ("np.log1p(age) * 0", [[0.0], [0.0], [0.0]]),
        ("age >= 30", [[0.0], [1.0], [1.0]]),
        ("occupation == 'clerk'", [[1.0, 0.0, np.nan]]),
        ("'clerk' != occupation", [[0.0, 1.0, np.nan]]),
        ("9 ** 9 ** 9", np.inf),
    ],
)
def test_expressions_are_computed_on_the_grid(text: str, expected: object) -> None:
    formula = read_formula(f"{{{text}}} ~ age", ("age", "occupation"))
    np.testing.assert_array_equal(formula.outcome.expression.evaluate(_grid()), expected)


def test_the_same_expression_in_sql() -> None:
    formula = read_formula("{`a\"b` == 'it''s' } ~ 1", ('a"b',))
    assert formula.outcome.expression.sql(lambda _: False) == 'CAST(("a""b" = \'its\') AS DOUBLE)'
    formula = read_formula("{np.log(age) / 2 > 1} ~ 1", ("age",))
    sql = formula.outcome.expression.sql(lambda _: True)
    assert sql == "CAST(((ln(CAST(\"age\" AS DOUBLE)) / CAST('2.0' AS DOUBLE)) > CAST('1.0' AS DOUBLE)) AS DOUBLE)"


def test_levels_come_from_the_domain_and_null_is_one() -> None:
    formula = read_formula("age ~ age + occupation", ("age", "occupation"))
    design = build(formula, _grid(), np.ones((3, 3)), np.ones(3))
    assert design.names == ("Intercept", "age", "occupation[T.smith]", "occupation[T.NULL]")
    np.testing.assert_array_equal(design.x[1], [[1, 30, 0, 0], [1, 30, 1, 0], [1, 30, 0, 1]])
    assert design.terms == {"Intercept": (0,), "age": (1,), "occupation": (2, 3)}


def test_levels_that_do_not_take_part_are_left_out_and_the_base_can_be_chosen() -> None:
    formula = read_formula("age ~ C(occupation, contr.treatment(base='smith')):age", ("age", "occupation"))
    weight = np.ones((3, 3))
    weight[:, 2] = 0
    design = build(formula, _grid(), weight, np.ones(3))
    assert design.names == (
        "Intercept",
        "C(occupation, base='smith')[smith]:age",
        "C(occupation, base='smith')[clerk]:age",
    )


def test_missing_numbers_are_refused_with_their_count() -> None:
    grid = _grid()
    grid["age"] = Variable(
        name="age", values=(20, 30, None), codes=np.array([[0], [1], [2]]), numeric=True, randomised=False
    )
    formula = read_formula("age ~ age", ("age", "occupation"))
    with pytest.raises(QueryError, match=r"up to 7 rows(?s:.)*age IS NOT NULL"):
        build(formula, grid, np.ones((3, 3)), np.array([1.0, 2.0, 7.0]))


@pytest.mark.parametrize("name", ["\u00b5g", "\ufb01x", "gr\u00f6\u00dfe", "\uff41ge"])
def test_names_are_taken_as_they_are_typed(name: str) -> None:
    """Python reads the micro sign as a Greek letter: another column, or none."""
    columns = ["y", name, *{"fix", "age", "\u03bcg"}]
    for text in (f"y ~ {name}", f"y ~ I({name} * 2)", f"y ~ np.log({name})", f"y ~ `{name}`"):
        assert read_formula(text, columns).columns == (name,), text
    with pytest.raises(QueryError, match="no column") as refused:
        read_formula(f"y ~ {name} + I(1 + nothing)", columns)
    assert refused.value.position == (len(f"y ~ {name} + I(1 + "), len(f"y ~ {name} + I(1 + nothing"))
