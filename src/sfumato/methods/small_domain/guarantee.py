"""What a small-domain release promises: how far readers get, what is verified, what the custodian sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import SpecError, VerificationError
from ...laws.keep_or_redraw import SubTables
from ...laws.published import check_drawn_sets, check_floor, one_unit, published_sets, stated_sizes
from ...laws.set_tables import SetTables
from ...model.private import Known, Profile, Work
from ...model.public import Claim, Floats, Published, ReaderBound, value_label
from ...stats.gamma import gamma_bound, keep_probabilities
from ...stats.joint_codes import sum_by_group
from ..shared.channel_design import Design
from ..shared.least_error import least_sized_partition, times_least
from ..shared.readers import Found, ValueChannel, amplified, in_parts, independent, linked, seen_as_it_is, set_seen
from ..shared.restricted import errors_of, expected_error, protection, row_gamma
from ..shared.set_lists import least_variance
from .plan import Costs, Partition, distance_from_best
from .set_reports import total_variance

if TYPE_CHECKING:
    from .specification import SmallDomainPlan


# --- readers ----------------------------------------------------------------------------------------------------------
# How far readers of a small-domain release get: published sub-tables, a value channel in each.


HISTOGRAM = "the sub-tables are planned from the true counts: whoever knows all records but one knows the last"


def shares(work: Work, profile: Profile) -> Floats:
    """(sub-tables, values): share of a value's records that go to a sub-table."""
    deal, true_counts = work.deals[0], profile.true_counts()
    assert deal.counts is not None
    owner = np.repeat(np.arange(len(true_counts)), np.diff(deal.start))
    share = np.zeros((int(deal.labels.max()) + 1, len(true_counts)))
    share[deal.labels, owner] = deal.counts / np.maximum(true_counts[owner], 1)
    return share


def readers(
    channels: Sequence[tuple[Fraction, Fraction]], claim: Claim, known: Known | None
) -> tuple[ReaderBound, ...]:
    """The ladder where values are published; `channels` are (p, q) of every sub-table."""
    largest = partial(_largest_value, channels)
    return _in_sub_tables([(p + q) / q for p, q in channels], "value", claim, known, largest)


def set_readers(tables: SetTables, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder where sets are published."""
    return _in_sub_tables([c.gamma_run for c in tables.channels], "set", claim, known, partial(_largest_set, tables))


def _in_sub_tables(
    gammas: Sequence[Fraction], shown: str, claim: Claim, known: Known | None, largest: Callable[[Known, bool], float]
) -> tuple[ReaderBound, ...]:
    """`largest(known, cells)` is the posterior reached. One sub-table alone is a channel over the whole domain."""
    if known is None:
        mine = Found(posterior=claim.rho2, why="every sub-table's channel is limited for the counts that it holds")
    else:
        mine = Found(
            posterior=largest(known, False),
            why=f"prior: the true histogram; she sees the sub-table and the {shown} it shows",
        )
    linking = linked(
        known,
        "prior: the share among the rows with the same quasi-identifiers; she sees the sub-table too",
        lambda k: largest(k, True),
    )
    if len(gammas) > 1:
        return in_parts(claim, histogram=mine, linking=linking, corruption=HISTOGRAM)
    (gamma,) = gammas
    if known is None and claim.rho1 is not None:
        mine = Found(posterior=amplified(claim.rho1, gamma), why=mine.why)
    last = Found(posterior=Fraction(1), why=HISTOGRAM)
    return independent(claim, gamma, histogram=mine, linking=linking, corruption=last)


def _largest_set(tables: SetTables, known: Known, cells: bool) -> float:
    """max over sub-tables, their sets, and the values in them."""
    share = shares(known.work, known.profile)[:, known.joint.codes[:, 0]]
    return max(
        set_seen(known, channel, tables.values[i], cells=cells, weight=share[i])
        for i, channel in enumerate(tables.channels)
    )


def _largest_value(channels: Sequence[tuple[Fraction, Fraction]], known: Known, cells: bool) -> float:
    """max over sub-tables i and values x of f_x a_i(x) (p_i + q_i) / sum_y f_y a_i(y) P_i(x|y)."""
    share = shares(known.work, known.profile)[:, known.joint.codes[:, 0]]
    return max(
        seen_as_it_is(known, ValueChannel(keep=(p + q,), other=(q,)), cells=cells, weight=share[i])
        for i, (p, q) in enumerate(channels)
    )


# --- checks of a release ----------------------------------------------------------------------------------------------
# Whether a small-domain release can be what it says, sub-table by sub-table.


def check_release(plan: SmallDomainPlan, published: Published) -> None:
    """Sub-tables have the stated sizes, two values or more, show no others, and show them as their channel does."""
    one_unit(published)
    stated_sizes(published, plan.sizes, "sub-table")
    values = len(published.evidence.domains[0])
    if plan.mode == "strict" and max(plan.gammas) ** plan.rows_per_person > gamma_bound(plan.rho1, plan.rho2):
        raise VerificationError("a sub-table's gamma is larger than rho1 and rho2 allow")
    for i, (domain, gamma, size) in enumerate(zip(plan.domains, plan.gammas, plan.sizes, strict=True)):
        if len(domain) < 2:
            raise VerificationError(f"sub-table {i} has one value: it hides nothing")
        if domain[-1] >= values:
            raise VerificationError(f"sub-table {i} lists a value outside the published domain")
        if size < len(domain):
            raise VerificationError(f"sub-table {i} lists more values than it has rows: not all of them occur in it")
        # a protected value occurs, so the most frequent one has a record: [docs/explanation/small-domain.md, 3.4]
        if gamma > plan.rho2 * (size - 1) / (1 - plan.rho2):
            raise VerificationError(f"the gamma of sub-table {i} is larger than its size allows")
    if plan.reports is None:
        _check_values(plan, published)
    else:
        _check_sets(plan, published)
    if any(not 0 <= code < values for held in plan.sets for code in held):
        raise VerificationError("a stated set has a value outside the published domain")
    listed = {v for domain in plan.domains for v in domain}
    if len(listed) < values and not published.evidence.domains[0].declared:
        raise VerificationError("the domain was taken from the data, and lists a value that no sub-table has")


def _check_values(plan: SmallDomainPlan, published: Published) -> None:
    """Every sub-table shows its own values, none too rarely for its channel."""
    part, codes, count = published.evidence.totals((0,))
    table = sum_by_group(count, (part, codes[:, 0]), (len(plan.sizes), len(published.evidence.domains[0])))
    for i, (domain, gamma, size) in enumerate(zip(plan.domains, plan.gammas, plan.sizes, strict=True)):
        if table[i, list(domain)].sum() != size:
            raise VerificationError("a row publishes a value that its sub-table does not have")
        q = Fraction(1) / (len(domain) - 1 + gamma)
        check_floor(table[i, list(domain)], float(q), f"sub-table {i}", tests=len(plan.sizes))


def _check_sets(plan: SmallDomainPlan, published: Published) -> None:
    """Every sub-table shows its own sets, none too rarely for its channel, and can be counted from."""
    tables = plan.set_tables
    part, codes, _ = published.evidence.totals((0,))
    if not np.array_equal(tables.part_of(codes[:, 0]), part):
        raise VerificationError("a row publishes a set that its sub-table does not list")
    counts = published_sets(published, int(tables.start[-1]))
    for i, channel in enumerate(tables.channels):
        mine = counts[tables.start[i] : tables.start[i + 1]]
        members, weights = channel.members, channel.weights
        check_drawn_sets(mine, members, weights, plan.gammas[i], f"sub-table {i}", tests=len(plan.sizes))
        try:
            tables.answers(i)
        except SpecError as error:
            raise VerificationError(f"the list of sub-table {i} cannot be counted from: {error}") from None


# --- partition report -------------------------------------------------------------------------------------------------
# What the custodian sees of a small-domain plan before publishing; holds true counts.


def partition_report(
    found: Partition,
    costs: Costs,
    designs: tuple[Design, ...],
    tables: SubTables,
    sets: SetTables | None,
    profile: Profile,
) -> dict[str, Any]:
    """The sub-tables beside plain `uniform`, which values are not protected, and the error to expect."""
    values = profile.domains[0].values
    uniform = keep_probabilities(row_gamma(costs.rho1, costs.rho2, costs.rows_per_person), len(values))
    counts = [t.true_counts for t in found.sub_tables]
    best = distance_from_best(found, costs) if costs.strict and found.all_protected else None
    variance = found.total_variance if sets is None else total_variance(sets, [t.size for t in found.sub_tables])
    least = _least(found, costs)
    distance = None if least is None else times_least(variance, least[0])
    if sets is None:
        error = expected_error(tables, np.concatenate(counts), profile)
    else:
        error = errors_of(sets.standard_errors(counts, len(values)), profile)
    return protection(profile, costs.rho1) | {
        "theta": found.theta,
        "sub_tables": [_sub_table(found, i, sets, profile) for i in range(len(counts))],
        "report": "value" if sets is None else "set",
        "retention": found.retention if sets is None else None,
        "uniform_retention": float(uniform[0]),
        "distance_from_best": best,
        "times_least": distance,
        "expected_error": error,
        "notes": _notes(found, designs, sets, float(uniform[0]))
        + ([] if least is None else [f"the standard errors of counts are {distance:.3f} times {least[1]}"])
        + _one_table(found, sets),
    }


def _least(found: Partition, costs: Costs) -> tuple[float, str] | None:
    """(the total variance that no plan passes, what it is the least of); None in paper mode, which has no cap."""
    if costs.cap is None:
        return None
    if not found.all_protected:  # values that nothing is promised about may fill up a sub-table of any size
        own = sum(t.size * float(least_variance(t.values.size, t.gamma)) for t in found.sub_tables)
        return own, "the least possible in these sub-tables (root mean square)"
    least = least_sized_partition(
        costs.rho1,
        costs.rho2,
        costs.cap,
        values=int(found.protected.sum()),
        rows=found.rows,
        min_size=costs.min_size,
        rows_per_person=costs.rows_per_person,
    )
    size = f"{min(costs.min_size, found.rows):,} rows or more"
    return found.rows * float(least), f"the least possible for any sub-tables of {size} (root mean square)"


def _sub_table(found: Partition, i: int, sets: SetTables | None, profile: Profile) -> dict[str, Any]:
    """A line of the report: `keep` is the chance that what is shown is, or holds, the true value."""
    table, values = found.sub_tables[i], profile.domains[0].values
    largest = int(table.true_counts[found.protected[table.values]].max())
    p, q = table.keep_probabilities
    shown: dict[str, Any] = {"keep": float(p + q), "retention": float(p)}
    if sets is not None:
        channel = sets.channels[i]
        shown = {
            "keep": float(channel.matrix()[:, 0] @ channel.members[:, 0]),
            "retention": float(channel.keep),
            "sets": len(channel.members),
            "values_per_set": float(channel.weights @ channel.members.sum(axis=1) / channel.total),
        }
    return {
        "id": i,
        "size": table.size,
        "domain": [value_label(values[v]) for v in table.values],
        "counts": table.true_counts.tolist(),
        "rho1": str(Fraction(largest, table.size)),
        "gamma": float(table.gamma),
        **shown,
    }


def _notes(found: Partition, designs: tuple[Design, ...], sets: SetTables | None, uniform: float) -> list[str]:
    """What is published, and how far it is from the best for declared questions."""
    if sets is None:
        return [f"retention averaged over records: {found.retention:.1%}; plain uniform would keep {uniform:.1%}"]
    notes = [f"one of {int(sets.start[-1]):,} listed sets of values is published in place of a value"]
    if designs:
        sizes = np.array([t.size for t in found.sub_tables], dtype=float)
        error = times_least(
            sizes @ np.array([d.variance for d in designs]), sizes @ np.array([d.least for d in designs])
        )
        proved = "proved" if all(d.certified for d in designs) else "among the sets tried"
        notes.append(
            f"for the declared questions the standard errors are at most {error:.3f} times the least possible in these "
            f"sub-tables; {max(d.gap for d in designs):.1%} of variance at most is left to gain ({proved})"
        )
    return notes


def _one_table(found: Partition, sets: SetTables | None) -> list[str]:
    """A line where nothing is gained by sub-tables."""
    if len(found.sub_tables) > 1:
        return []
    same = "uniform" if sets is None else "subset-response"
    return [f"one table is best here: the release is that of {same} on the values that occur"]
