"""Attacks on a release, in numbers: one file for each attack, and `score` beside them, which alone sees the truth.

The registry: one line each, in the order of the report. An attack is an `attack.Attack` called ATTACK in its module.
"""

ATTACKS = (
    "record_posterior",
    "linking",
    "several_rows",
    "corruption",
    "two_releases",
    "algorithm_aware",
    "small_sub_tables",
    "group_structure",
    "row_order",
)
