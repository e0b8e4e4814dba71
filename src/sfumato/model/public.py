"""The nouns that may leave the custodian's house: what a release states and what a reader computes with.

Types that hold facts about people live in `private.py`; nothing here refers to them.
"""

from __future__ import annotations

import datetime
import math
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ..errors import SpecError, VerificationError
from .names import option_name
from .types import ColumnType

if TYPE_CHECKING:
    from scipy.sparse import csr_array


Codes = NDArray[np.int32]  # positions in a domain
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Scalar = None | bool | int | float | str | datetime.date | datetime.datetime | datetime.time | Decimal


class Trust(StrEnum):
    """How far a method's promise carries; shown wherever the method is named."""

    PROVED = "proved"  # the bound holds for the stated reader
    CONDITIONAL = "conditional"  # holds under assumptions that a real adversary may break
    BASELINE = "baseline"  # for comparison only


ADDED = ("group", "set")  # roles of columns that a method adds: numbers of sub-tables, groups and published sets
MOST_ROWS = 1000  # of a person: the powers of what each row tells are computed exactly
REST = {"quasi": "quasi", "keep": "insensitive", "drop": "identifying"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """Which column plays which part, one name or several. A column without a role is an error, never a guess.

    `rest` gives all columns that are not named one role: "quasi", "keep" (insensitive) or "drop" (identifying).
    `person` tells people apart and is never published; where a person has several rows, a random
    `max_rows_per_person` of them are kept.
    """

    sensitive: tuple[str, ...] | list[str] | str
    quasi: tuple[str, ...] | list[str] | str = ()
    identifying: tuple[str, ...] | list[str] | str = ()
    insensitive: tuple[str, ...] | list[str] | str = ()
    rest: str | None = None
    person: str | None = None
    max_rows_per_person: int | None = None

    def __post_init__(self) -> None:
        for name in ("sensitive", "quasi", "identifying", "insensitive"):
            given = getattr(self, name)  # a text names one column, never its letters
            object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))
        if self.rest not in {None, *REST}:
            raise SpecError(f'rest must be quasi, keep or drop, got "{self.rest}"', field="rest")
        most = self.max_rows_per_person
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_ROWS):
            raise SpecError(
                f"max_rows_per_person must be a whole number from 1 to {MOST_ROWS:,}, got {most!r}",
                field="max_rows_per_person",
            )
        if most is not None and self.person is None:
            raise SpecError(
                "rows per person can be limited only where people can be told apart; name their column with --person",
                field="person",
            )
        if not self.sensitive:
            raise SpecError("no sensitive column is named; give at least one (--sa)", field="sensitive")
        seen: dict[str, str] = {}
        for role, columns in self.by_role().items():
            for column in columns:
                if column in seen:
                    raise SpecError(
                        f'column "{column}" has two roles, {seen[column]} and {role}; give it one', field=column
                    )
                seen[column] = role

    def resolve(self, columns: Iterable[str]) -> Roles:
        """The same roles with `rest` spelled out for these columns."""
        if self.rest is None:
            return self
        given = {name for names in self.by_role().values() for name in names}
        free = tuple(name for name in columns if name not in given)
        role = REST[self.rest]
        spelled: dict[str, Any] = {role: (*getattr(self, role), *free), "rest": None}
        return replace(self, **spelled)

    def by_role(self) -> dict[str, tuple[str, ...]]:
        """The columns of each role, sensitive first."""
        named = {role: tuple(getattr(self, role)) for role in ("sensitive", "quasi", "identifying", "insensitive")}
        return named if self.person is None else named | {"person": (self.person,)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The possible values of one column, or of several columns taken together as one value.

    `values[code]` is a tuple with one entry per column; codes are positions in it. Values are sorted, null last.
    """

    columns: tuple[str, ...]
    values: tuple[tuple[Scalar, ...], ...]
    declared: bool = False  # False: taken from the data, and said so

    def __len__(self) -> int:
        return len(self.values)


def value_label(value: tuple[Any, ...]) -> Any:
    """A domain value as people read it: the scalar itself, or a list for a compound value."""
    scalars = [v if v is None or isinstance(v, bool | int | float | str) else str(v) for v in value]
    return scalars[0] if len(scalars) == 1 else scalars


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Listed:
    """Sets of values, one of which is published in place of a value.

    Set z holds the domain codes `members[start[z]:start[z + 1]]`, ascending. data.parquet has its number z in `column`,
    in place of the unit's own columns; sets.parquet says which values it holds.
    """

    column: str
    start: Integers  # (sets + 1,)
    members: Codes

    def __len__(self) -> int:
        return len(self.start) - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SetWeights:
    """What a row that shows a set adds to the count of a value, and to its variance: the rows of sets.parquet."""

    set_id: Integers
    value: Codes
    member: NDArray[np.bool_]  # whether the set holds the value
    weight: Floats
    variance_weight: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the release: `type` is the type the original column had."""

    name: str
    role: str
    type: ColumnType
    domain: tuple[Scalar, ...] | None = None  # sorted; only for columns the method changes
    released_type: ColumnType | None = None  # where the published cell has another type (a label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """What is promised, computed from the channel that runs."""

    model: str
    parameters: Mapping[str, Any]
    statement: str
    assumptions: tuple[str, ...]
    not_covered: tuple[str, ...]
    trust: Trust


READERS = ("value", "set", "histogram", "linking", "corruption", "person")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What is to be held: priors of at most rho1 end at most at rho2; None where a method names none.

    `rows_per_person` is the most rows that one person has in the table; None: nobody said, one is assumed.
    """

    rho1: Fraction | None = None
    rho2: Fraction | None = None
    rows_per_person: int | None = None

    def or_own(self, rho1: Fraction | None, rho2: Fraction | None) -> Claim:
        """The same with a plan's own figures where none are given."""
        return replace(
            self, rho1=rho1 if self.rho1 is None else self.rho1, rho2=rho2 if self.rho2 is None else self.rho2
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderBound:
    """One reader of docs/explanation/readers.md: the largest posterior she reaches, and whether rho2 holds.

    `held` None: the release alone does not decide it, or no bound is claimed. `posterior` is rounded up; None: unknown.
    """

    reader: str  # one of READERS
    held: bool | None
    posterior: float | None
    why: str
    rows: int | None = None  # of the person, for the reader "person"

    def document(self) -> dict[str, Any]:
        """As JSON; nulls stay: they say that nothing is stated."""
        found = {"reader": self.reader, "held": self.held, "posterior": self.posterior, "why": self.why}
        return found | ({} if self.rows is None else {"rows": self.rows})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unprotected:
    """Values that are more frequent than the prior that is covered, and the share of the rows that hold them."""

    values: tuple[tuple[Scalar, ...], ...]
    share: float  # rounded up to two digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One method with its parameters. `variant` "" is the method's own entry, others stand beside it."""

    method: str
    parameters: Mapping[str, Any]
    variant: str = ""
    estimator: str | None = None
    releases: int | None = None  # 1 where every release of a plan is the same; None: as many as wanted

    def texts(self) -> dict[str, str]:
        """Name -> parameter as it is typed."""
        found = {}
        for name, value in self.parameters.items():
            text = ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
            if isinstance(value, Mapping):
                text = ",".join(f"{k}={v}" for k, v in value.items())
            found[name] = text
        return found

    def options(self) -> str:
        """The parameters as typed on the command line; what is empty is not typed."""
        typed = ((option_name(name), text) for name, text in self.texts().items() if text)
        return shlex.join(["--method", self.method, *(part for pair in typed for part in pair)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Lines to draw for people: series name -> points (x, y)."""

    title: str
    x: str
    y: str
    series: Mapping[str, tuple[tuple[float, float], ...]]
    log: bool = False  # both axes


# --- questions and answers, as a mechanism sees them ---------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The release's own aggregate, one entry per observed combination (R entries).

    Rows of the release fall into *strata*: rows that agree on everything the question asks of untouched columns.
    Stratum t belongs to output row `key[t]` and uses coefficients `pattern[t]`.
    `moments[r, j]` is the sum over rows of the j-th product of measures; `moments[:, 0]` counts rows.
    """

    stratum: NDArray[np.intp]
    part: NDArray[np.int64]  # sub-table or group id; 0 where the method has none
    value: NDArray[np.intp]  # class of the published value(s), or number of the published set; 0: none was observed
    moments: Floats  # (R, J)
    key: NDArray[np.intp]  # (T,)
    pattern: NDArray[np.intp]  # (T,)
    keys: int  # K, the number of output rows
    numbers: Floats | None = None  # (R, G): the measures of an entry's rows, where entries are told apart by them
    memo: dict[object, object] = field(default_factory=dict, compare=False, repr=False)  # about these entries

    @property
    def strata(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """F linear functionals of the *original* table: sum over its rows of g(row) * h(true value).

    Functional f uses measure g number `measure[f]` (0 is the constant 1) and, in stratum t, the coefficients
    h = `coefficients[pattern[t]][f]` over the V joint classes of the involved units.
    `classes[i][code]` is the class of a domain value of unit `units[i]`; joint classes are numbered as by
    `numpy.ravel_multi_index` over `shape`. A method that is not `lumpable` gets one class per value.
    """

    units: tuple[int, ...]
    classes: tuple[Codes, ...]
    coefficients: tuple[csr_array, ...]  # one (F, V) per pattern
    measure: NDArray[np.intp]  # (F,)
    products: NDArray[np.intp]  # (G, G): column of `moments` that holds the sum of g_a * g_b
    pairs: NDArray[np.intp]  # (P, 2): functionals whose covariance is wanted
    binary: bool  # every coefficient is 0 or 1
    z: float  # normal quantile of the level
    options: Mapping[str, str] = field(default_factory=dict)  # e.g. {"estimator": "paper"}
    groups: int = 1  # of unit keys: functional f = group * J + j with J = functionals / groups
    full: bool = False  # tails of counts: mid-p, or full for intervals that must hold together

    @property
    def alpha(self) -> float:
        """The chance that both tails have beyond z."""
        return math.erfc(self.z / math.sqrt(2.0))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(c.max()) + 1 if len(c) else 0 for c in self.classes)

    @property
    def functionals(self) -> int:
        return len(self.measure)

    @property
    def indicator(self) -> NDArray[np.bool_]:
        """(F,): functionals whose coefficients are all 0 or 1, whatever else is asked beside them."""
        fine = np.ones(self.functionals, dtype=bool)
        for H in self.coefficients:
            fine[H.tocoo().row[H.data != 1]] = False
        return fine


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimated:
    """Answers for K output rows and F functionals. NaN in `value` means: only `minimum`/`maximum` are known."""

    value: Floats  # (K, F) unbiased, may be negative
    variance: Floats  # (K, F)
    low: Floats  # (K, F) interval at the asked level, not yet cut to what is possible
    high: Floats
    covariance: Floats  # (K, P) for Asked.pairs
    minimum: Floats | None = None  # certain bounds, where the method has them
    maximum: Floats | None = None
    caveats: tuple[str, ...] = ()
    inverted: NDArray[np.bool_] | None = None  # (K, F): sets of counts that a test allows, possible ones only
    assumed: bool = False  # variances rest on an assumption that nobody can check: intervals are what is certain


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a reader has besides the observed aggregate: sizes, domains, side tables, whole-release counts.

    `totals(units)` returns (part, codes, count) over the whole release, counted once and kept;
    `codes` has one column per unit. `side` holds the columns of sensitive.parquet as integer arrays.
    `memo` keeps what a mechanism computes once per open release (a channel, a factorisation).
    """

    rows: int
    domains: tuple[Domain, ...]
    totals: Callable[[tuple[int, ...]], tuple[Integers, Codes, Integers]]
    side: Mapping[str, NDArray[Any]]
    memo: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A release as whoever checks it sees it: what it states, and what its files hold.

    `counted(columns)` returns (codes of the distinct published cells over some columns, rows of each).
    """

    rows: int
    columns: tuple[Column, ...]
    evidence: Evidence
    counted: Callable[[tuple[str, ...]], tuple[Integers, Integers]]

    def group_sizes(self) -> tuple[Integers, Integers]:
        """(group or sub-table ids, rows of each)."""
        part, _, count = self.evidence.totals(())
        return part, count

    def check_units(self, role: str = "sensitive") -> None:
        """Nothing; VerificationError where a column of the role is not among those that the method changed."""
        changed = {name for domain in self.evidence.domains for name in domain.columns}
        if not self.with_role(role):
            raise VerificationError(f"release.json names no {role} column")
        left = [name for name in self.with_role(role) if name not in changed]
        if left or not changed:
            name = f'the {role} column "{left[0]}"' if left else f"the {role} columns"
            raise VerificationError(f"{name} would be published as they are: release.json lists no domain for them")

    def with_role(self, role: str) -> tuple[str, ...]:
        """Names of the columns that have the role."""
        return tuple(column.name for column in self.columns if column.role == role)


@dataclass(frozen=True, slots=True, kw_only=True)
class Likelihood:
    """The public side of the randomisation of one unit, as a reader rebuilds it from the bundle.

    `counts[i, x]` estimates how many records of value x lie in part i (one part where nothing is split).
    `chance(part, shown)[r, x]` is the chance that a record of value x in that part shows that value; 1 everywhere where
    values are withheld. `knowing(part, prior)` is the value that a reader takes for the likeliest of a record there who
    also knows how the method chooses what it publishes of a part; None where no such reader is worked out.
    """

    counts: Floats  # (parts, values)
    chance: Callable[[Integers, Codes], Floats]
    silent: bool = False  # what a record shows does not depend on its value
    exact: bool = False  # the counts are published, not estimated
    knowing: Callable[[int, Floats], int] | None = None


# How many rows of a release one person may have: the unit of privacy is a person, not a row (docs/people.md).


RowsPerPerson = Annotated[int, Field(ge=1, le=MOST_ROWS)]  # of a stated plan: its powers are computed exactly


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """What a release states about people and rows. `checked` False: nobody looked, one row each is assumed."""

    checked: bool = False
    rows_per_person: int = 1
    rows_left_out: int = 0  # rows of people who had more

    @property
    def assumption(self) -> str:
        """The sentence that the guarantee rests on."""
        if not self.checked:
            return "each person has one row (not checked: no column that tells people apart was named)"
        most = self.rows_per_person
        said = "each person has one row: checked" if most == 1 else f"each person has at most {most} rows: checked"
        if not self.rows_left_out:
            return said
        kept = "one random row" if most == 1 else f"a random {most} rows"
        return f"{said}; {kept} of everyone with more were kept, {self.rows_left_out:,} rows left out"

    @property
    def caveats(self) -> tuple[str, ...]:
        """What every answer says: it speaks of the rows that were kept."""
        if not self.rows_left_out:
            return ()
        rows = "row" if self.rows_per_person == 1 else "rows"
        return (
            f"rows of people with more than {self.rows_per_person} {rows} were left out: {self.rows_left_out:,} rows",
        )

    @property
    def sampling(self) -> tuple[str, ...]:
        """What answers about a population say: its errors are those of rows that are drawn one by one."""
        most = self.rows_per_person
        if most == 1:
            return ()
        return (f"people may have {most} rows: errors of a population take rows for people, and may be too small",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """The title of a column and the label of each of its codes, as its file has them."""

    title: str | None = None
    values: tuple[tuple[Scalar, str], ...] = ()
