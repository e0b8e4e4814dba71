"""The attacks: a guess for every target, from the release and the background knowledge that an attack states.

An attack is a function that guesses, with a line of `ATTACKS` that says what its reader knows. None of them sees the
truth: `score` does that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ..model.public import Codes, Floats, Integers
from ..stats.joint_codes import joint_ranks
from .view import ReleaseView


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """Background knowledge about T targets. A reader uses no more of it than the attack says she has."""

    rows: Integers  # (T,) the target's row of the release
    cells: Integers  # (T, quasi-identifiers) the target's true quasi-identifiers, coded as `ReleaseView.quasi` says
    persons: Integers  # (T, k) rows of one person, who has one sensitive value; the target's row first
    others: Codes  # (rows of the release,) true values of all records, -1 where not known; the target's own included
    second: ReleaseView | None  # another release of the same table
    second_rows: Integers | None  # (T,) the target's row there


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack. `run` gives the guessed codes, or a sentence why it does not apply."""

    name: str
    reader: str  # of the ladder in docs/explanation/threats.md
    knows: str  # her background knowledge, one phrase
    covered: bool  # whether the method's promise speaks about this reader
    run: Callable[[ReleaseView, Background], Codes | str]


# Naive Bayes learnt from a release alone: how quasi-identifiers go with the sensitive value.
#
# Expectation maximisation over rows whose true value is hidden: each row's belief is prior times the columns'
# likelihood times what the row shows; the tables are recounted from the beliefs.


MOST_ROWS, MOST_VALUES, ROUNDS, SMOOTH = 60_000, 200, 12, 1.0

Constrain = Callable[[Integers, Floats], Floats]  # (rows, beliefs) -> beliefs that fit what the release says jointly


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """log P(published code of a column | value), for the columns that are used."""

    columns: tuple[int, ...]  # positions in `ReleaseView.quasi`
    tables: tuple[Floats, ...]  # (codes, values)
    prior: Floats

    def log_prior(self, codes: Integers) -> Floats:
        """(rows, values): log prior times likelihood for rows of codes of all quasi-identifiers; -1 is not known."""
        found = np.tile(np.log(np.maximum(self.prior, 1e-12)), (len(codes), 1))
        for j, table in zip(self.columns, self.tables, strict=True):
            known = codes[:, j] >= 0
            found[known] += table[codes[known, j]]
        return found


def published_cells(view: ReleaseView, rows: Integers) -> Integers:
    """(rows, quasi-identifiers): their published codes."""
    if not view.quasi:
        return np.zeros((len(rows), 0), dtype=np.int64)
    return np.stack([f.codes[rows] for f in view.quasi], axis=1)


def normalised(logs: Floats) -> Floats:
    """Rows of probabilities."""
    raised = np.exp(logs - logs.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def adder(codes: Integers, size: int) -> Callable[[Floats], Floats]:
    """A function that adds the rows of a table up by their codes: (rows, values) to (size, values)."""
    ones = np.ones(len(codes))
    table = sparse.csr_matrix((ones, (codes, np.arange(len(codes)))), shape=(size, len(codes)))
    return lambda rows: np.asarray(table @ rows)


def learn(
    view: ReleaseView, rng: np.random.Generator, constrain: Constrain | None = None, *, whole: bool = False
) -> Model:
    """The model that a few rounds of expectation maximisation find on at most 60,000 rows."""
    rows = np.arange(view.rows)
    if view.rows > MOST_ROWS and not whole:
        rows = np.sort(rng.choice(view.rows, MOST_ROWS, replace=False))
    used = tuple(j for j, f in enumerate(view.quasi) if f.size <= MOST_VALUES)
    codes = published_cells(view, rows)
    with np.errstate(divide="ignore"):
        evidence = np.log(np.maximum(view.likelihood(rows), 1e-12))
    adders = {j: adder(codes[:, j], view.quasi[j].size) for j in used}
    model = Model(columns=(), tables=(), prior=view.prior)
    for _ in range(ROUNDS):
        belief = normalised(model.log_prior(codes) + evidence)
        if constrain is not None:
            belief = constrain(rows, belief)
        total = belief.sum(axis=0)
        tables = []
        for j in used:
            size = view.quasi[j].size
            tables.append(np.log((adders[j](belief) + SMOOTH) / (total + SMOOTH * size)))
        model = Model(columns=used, tables=tuple(tables), prior=total / total.sum())
    return model


def _record_posterior(view: ReleaseView, known: Background) -> Codes | str:
    """The reader of the promise: she knows the target's row and the histogram, and looks at what the row shows."""
    if view.true_shown:
        return "rows show true values; linking is the attack"
    return np.argmax(view.prior * view.likelihood(known.rows), axis=1).astype(np.int32)


def _linking(view: ReleaseView, known: Background) -> Codes | str:
    """The reader who knows a person's quasi-identifiers: she finds the rows that may be hers, and sharpens her prior.

    How quasi-identifiers go with the value she learns from the release itself (`learn`).
    """
    if not view.quasi:
        return "no column is called a quasi-identifier"
    model = None if view.true_shown else learn(view, np.random.default_rng(1))
    guesses = np.zeros(len(known.cells), dtype=np.int32)
    for t, (rows, weight) in enumerate(view.candidates(known.cells)):
        if not len(rows) or weight.sum() <= 0:
            guesses[t] = int(np.argmax(view.prior))
            continue
        if view.true_shown:
            guesses[t] = int(np.argmax(np.bincount(view.shown[rows], weights=weight, minlength=len(view.values))))
            continue
        assert model is not None
        most = rows if len(rows) <= 5000 else rows[np.argsort(-weight)[:5000]]
        share = weight if len(rows) <= 5000 else np.sort(weight)[::-1][:5000]
        prior = model.log_prior(known.cells[t][None, :])
        belief = normalised(prior + np.log(np.maximum(view.likelihood(most), 1e-300)))
        guesses[t] = int(np.argmax(share @ belief))
    return guesses


def _several_rows(view: ReleaseView, known: Background) -> Codes | str:
    """A person with three rows and one value: what each row shows is put together."""
    if view.true_shown:
        return "rows show true values; linking is the attack"
    with np.errstate(divide="ignore"):
        logs = np.tile(np.log(view.prior), (len(known.persons), 1))
        for k in range(known.persons.shape[1]):
            logs += np.log(view.likelihood(known.persons[:, k]))
    return np.argmax(np.where(np.isnan(logs), -np.inf, logs), axis=1).astype(np.int32)


def _corruption(view: ReleaseView, known: Background) -> Codes | str:
    """The reader who knows the true values of everybody else.

    Where a part (group, class, block) shows its true values, she takes the others' away. Where sub-tables are balanced,
    the value that is one short among the others is the target's. Where records are independent, the others tell
    nothing.
    """
    part = view.part
    if view.true_shown:  # classes are parts
        part, _ = joint_ranks([f.codes for f in view.quasi], view.rows)
        part = np.unique(part, return_inverse=True)[1].reshape(-1)
    elif view.release.law.part is None:  # every record by itself
        return np.argmax(view.prior * view.likelihood(known.rows), axis=1).astype(np.int32)
    values = len(view.values)
    members = np.zeros((int(part.max()) + 1, values))
    sure = known.others >= 0
    np.add.at(members, (part[sure], known.others[sure]), 1)
    guesses = np.zeros(len(known.rows), dtype=np.int32)
    for t, row in enumerate(known.rows):
        others = members[part[row]].copy()
        if known.others[row] >= 0:
            others[known.others[row]] -= 1
        guesses[t] = int(np.argmax(_left_over(view, int(row), int(part[row]), part, others)))
    return guesses


def _left_over(view: ReleaseView, row: int, number: int, part: np.typing.NDArray[np.int64], others: Floats) -> Floats:
    if view.true_shown:
        shown = np.bincount(view.shown[part == number], minlength=len(others))
        return np.asarray(shown - others)
    if view.release.law.withheld:
        return np.asarray(view.law.counts[number] - others)
    inside = view.law.counts[number] > 0
    inside |= others > 0
    short = others[inside].max() - others
    flat = inside & (short == 1)
    if flat.sum() == 1 and (short[inside] <= 1).all():  # balanced but for one record
        return flat.astype(float)
    own = view.law.chance(np.array([number]), view.shown[[row]])[0]
    return np.asarray((others + inside) * own)


def _two_releases(view: ReleaseView, known: Background) -> Codes | str:
    """Two releases of one table: what both show about a record is put together."""
    if known.second is None or known.second_rows is None:
        return "needs another release of the table (--second)"
    if view.true_shown or known.second.true_shown:
        return "rows show true values; linking is the attack"
    if known.second.values != view.values:
        return "the second release has another domain"
    both = view.likelihood(known.rows) * known.second.likelihood(known.second_rows)
    return np.argmax(view.prior * both, axis=1).astype(np.int32)


def _algorithm_aware(view: ReleaseView, known: Background) -> Codes | str:
    """The reader who knows how a method chooses what it publishes of a group: which groups can have led to it?"""
    knowing = view.law.knowing
    if knowing is None:
        return "about methods that choose what they publish of a group only"
    groups = view.part[known.rows].tolist()
    best = {group: knowing(group, view.prior) for group in dict.fromkeys(groups)}
    return np.array([best[group] for group in groups], dtype=np.int32)


def _small_sub_tables(view: ReleaseView, known: Background) -> Codes | str:
    """The reader who knows that sub-tables are balanced: inside one, all values are equally likely beforehand."""
    if view.release.law.withheld or view.release.law.part is None:
        return "about methods with published sub-tables only"
    own = view.law.chance(view.part[known.rows], view.shown[known.rows])
    return np.argmax(own, axis=1).astype(np.int32)


SCALINGS = 10
MOST_CELLS = 40_000_000  # rows times values


def _group_structure(view: ReleaseView, known: Background) -> Codes | str:
    """The de Finetti attack [Kifer 2009] on groups: values and rows of all groups teach how columns go with the value.

    Inside a group every value belongs to one member, so beliefs are scaled to a doubly stochastic table (Sinkhorn).
    """
    if not view.release.law.withheld or view.release.law.part is None:
        return "about methods that publish values by group only"
    if not view.quasi:
        return "no column is called a quasi-identifier"
    if view.rows * len(view.values) > MOST_CELLS:
        return "more than 40 million cells"
    held_by = adder(view.part, len(view.law.counts))

    def constrain(rows: Integers, belief: Floats) -> Floats:  # rows are all rows
        part = view.part[rows]
        for _ in range(SCALINGS):
            held = held_by(belief)
            scale = np.divide(view.law.counts, held, out=np.zeros_like(held), where=held > 0)
            belief = belief * scale[part]
            belief = belief / np.maximum(belief.sum(axis=1, keepdims=True), 1e-300)
        return belief

    model = learn(view, np.random.default_rng(2), constrain, whole=True)
    rows = np.arange(view.rows)
    evidence = np.log(np.maximum(view.likelihood(rows), 1e-12))
    belief = constrain(rows, normalised(model.log_prior(published_cells(view, rows)) + evidence))
    return np.argmax(belief[known.rows], axis=1).astype(np.int32)


REACHES = (1, 3, 10, 50)  # rows on both sides
LOOKED_AT = 500  # rows by which a reach is chosen


def _row_order(view: ReleaseView, known: Background) -> Codes | str:
    """The reader who hopes that the file kept the table's order: neighbours in the file would then be alike.

    How far alike she finds out from the release: the reach is taken whose neighbours foretell best what a row shows.
    """
    sample = np.unique(np.linspace(0, view.rows - 1, LOOKED_AT).astype(np.int64))
    own = view.likelihood(sample)
    foretold = [
        np.log(np.maximum((_neighbours_belief(view, sample, r) * own).sum(axis=1), 1e-12)).sum() for r in REACHES
    ]
    reach = REACHES[int(np.argmax(foretold))]
    return np.argmax(_neighbours_belief(view, known.rows, reach), axis=1).astype(np.int32)


def _neighbours_belief(view: ReleaseView, rows: Integers, reach: int) -> Floats:
    """(rows, values): as if the neighbours of a row had its value; what the row shows itself is not looked at."""
    steps = np.array([s for s in range(-reach, reach + 1) if s])
    near = rows[:, None] + steps
    there = (near >= 0) & (near < view.rows)
    needed, place = np.unique(np.where(there, near, 0), return_inverse=True)
    logs = np.log(np.maximum(view.likelihood(needed), 1e-12))
    place = place.reshape(near.shape)
    total = np.tile(np.log(np.maximum(view.prior, 1e-12)), (len(rows), 1))
    for j in range(len(steps)):
        total += np.where(there[:, j, None], logs[place[:, j]], 0.0)
    return normalised(total)


ATTACKS = (  # in the order of the report
    Attack(
        name="record posterior",
        reader="histogram",
        knows="the target's row, and the histogram of the sensitive column",
        covered=True,
        run=_record_posterior,
    ),
    Attack(
        name="linking",
        reader="linking",
        knows="the target's quasi-identifiers; how they go with the value is learnt from the release",
        covered=False,
        run=_linking,
    ),
    Attack(
        name="several rows of a person",
        reader="person",
        knows="three rows of one person, whose sensitive value is the same in all",
        covered=False,
        run=_several_rows,
    ),
    Attack(
        name="corruption",
        reader="corruption",
        knows="the target's row, and the true value of every other record",
        covered=False,
        run=_corruption,
    ),
    Attack(
        name="two releases",
        reader="composition",
        knows="the target's row in this release and in another of the same table",
        covered=False,
        run=_two_releases,
    ),
    Attack(
        name="algorithm-aware",
        reader="algorithm",
        knows="the target's group, the histogram, and how blocks are chosen",
        covered=False,
        run=_algorithm_aware,
    ),
    Attack(
        name="joint posterior of a sub-table",
        reader="composition of a part",
        knows="the target's row, and that its sub-table is flat",
        covered=False,
        run=_small_sub_tables,
    ),
    Attack(
        name="group structure (de Finetti)",
        reader="group structure",
        knows="the target's row; how columns go with the value is learnt from all groups",
        covered=False,
        run=_group_structure,
    ),
    Attack(
        name="order of the rows",
        reader="order",
        knows="the place of the target's row in the file, and not what it shows",
        covered=True,
        run=_row_order,
    ),
)
