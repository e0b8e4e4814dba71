"""Records dealt to a given number of sub-tables of about one size, each with few values.

The paper's groups shrink geometrically, so its last ones fall under any minimum size and must be merged into
wide sub-tables. Dealing avoids that tail: a value too frequent for one sub-table is cut into as few equal pieces
as will do, every other value stays whole, and pieces go where there is most room. A sub-table then holds little
more than theta values, or, when values are rare, little more than its share of them.
"""

from __future__ import annotations

from bisect import insort

import numpy as np
from numpy.typing import NDArray

from .balancing import Codes, Counts, Group

FEW = 8  # pieces, up to which each is put in its place by itself


def deal(true_counts: Counts, bins: int, piece: int) -> list[Group] | None:
    """`bins` groups of about equal size with at most `piece` records of a value in each; None if that cannot be.

    Frequent values first, each cut into ceil(count / piece) equal pieces for the emptiest bins; then the other
    values in rounds of one for each bin, the most frequent to the emptiest. Ties: lowest index. Deterministic.
    """
    order: Codes = np.argsort(-true_counts, kind="stable")
    order = order[true_counts[order] > 0]
    frequent = int((true_counts > piece).sum())
    room = list(range(bins))  # of every bin its records so far times `bins`, plus its number; ascending
    values, records, places = [], [], []
    for value, count in zip(order[:frequent].tolist(), true_counts[order[:frequent]].tolist(), strict=True):
        pieces = -(-count // piece)
        if pieces > bins:
            return None
        emptiest, room = room[:pieces], room[pieces:]
        least, more = divmod(count, pieces)
        sizes = [least + 1] * more + [least] * (pieces - more)
        values += [value] * pieces
        records += sizes
        places += [one % bins for one in emptiest]
        fuller = [one + size * bins for one, size in zip(emptiest, sizes, strict=True)]
        if pieces <= FEW:
            for one in fuller:
                insort(room, one)
        else:
            room = sorted(room + fuller)  # three ascending runs
    fill = np.zeros(bins, dtype=np.int64)
    for filled, place in (divmod(one, bins) for one in room):
        fill[place] = filled
    rounds: list[tuple[Codes, Counts, NDArray[np.int64]]] = [
        (np.array(values, dtype=np.int64), np.array(records, dtype=np.int64), np.array(places, dtype=np.int64))
    ]
    for start in range(frequent, order.size, bins):
        dealt = order[start : start + bins]
        emptiest_first = np.argsort(fill, kind="stable")[: dealt.size]
        fill[emptiest_first] += true_counts[dealt]
        rounds.append((dealt, true_counts[dealt], emptiest_first))
    if not fill.all():
        return None
    value_of, records_of, bin_of = (np.concatenate(column) for column in zip(*rounds, strict=True))
    ordered = np.lexsort((value_of, bin_of))
    value_of, records_of = value_of[ordered], records_of[ordered]
    ends = np.cumsum(np.bincount(bin_of, minlength=bins)).tolist()
    held = [slice(low, high) for low, high in zip([0, *ends], ends, strict=False)]  # numpy's own split takes longer
    return [Group(values=value_of[these], true_counts=records_of[these]) for these in held]
