"""Accuracy of decoy releases on real tables: bias and coverage, error by selectivity, two sensitive columns.

    SFUMATO_DATA=... python -m benchmarks.splu bias         [--releases 200]
    SFUMATO_DATA=... python -m benchmarks.splu bands        [--releases 3]
    SFUMATO_DATA=... python -m benchmarks.splu canada       [--releases 3]
    SFUMATO_DATA=... python -m benchmarks.splu two-columns  [--releases 100]

Each prints one Markdown table. Releases are drawn row by row with the package's own functions and answered from the
published histogram alone, as a reader would.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks import decoy_counts
from sfumato.laws import decoy_estimate as de
from sfumato.laws.decoy_channel import rebuild_channel
from sfumato.laws.decoy_estimate import iterate
from sfumato.laws.grouping import largest_size, random_margins, slot_table
from sfumato.methods.splu import draw_slots
from sfumato.model.private import Deal
from sfumato.stats.shuffling import Splitter, hand_out

Z = 1.959963984540054
BANDS = [(0.005, 0.01), (0.01, 0.02), (0.02, 0.03), (0.03, 0.04), (0.04, 0.05), (0.05, 0.08)]


def load(name: str, columns: list[str]) -> dict[str, np.ndarray]:
    """Integer codes of the columns of a table of SFUMATO_DATA, missing values a code of their own."""
    folder = os.environ.get("SFUMATO_DATA")
    if not folder:
        raise SystemExit("set SFUMATO_DATA to the folder with the larger tables")
    table = pq.read_table(Path(folder) / f"{name}.parquet", columns=columns)
    found = {}
    for column in columns:
        encoded = table[column].combine_chunks().dictionary_encode(null_encoding="encode")
        labels = encoded.dictionary.to_pylist()
        rank = np.empty(len(labels), np.int32)
        rank[sorted(range(len(labels)), key=lambda i: (labels[i] is not None, labels[i]))] = np.arange(len(labels))
        found[column] = rank[encoded.indices.to_numpy(zero_copy_only=False)]
    return found


def publish(codes: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """The published codes of every row, in the order of the rows (a real release is shuffled)."""
    slots = draw_slots(random_margins(np.bincount(codes), size, rng), rng)
    deal = Deal(unit=0, start=slots.offsets, labels=slots.published.astype(np.int64), counts=slots.counts)
    share = Splitter(deal, rng).split(np.bincount(codes, minlength=len(slots.offsets) - 1), rng)
    return hand_out(share, codes, rng)


def tally(masks: np.ndarray, codes: np.ndarray, values: int) -> np.ndarray:
    """Rows of each value inside each condition: (values, conditions)."""
    return np.stack([np.bincount(codes[mask], minlength=values) for mask in masks], axis=1).astype(float)


def answer(published: np.ndarray, masks: np.ndarray, size: int, values: int) -> de.Estimates:
    """Default answers for every value and condition, zero for values never published."""
    channel = rebuild_channel(np.bincount(published, minlength=values), size, seed=1)
    found = decoy_counts.calibrated_counts(channel, tally(masks, published, values)[channel.active])
    value, variance = np.zeros((values, len(masks))), np.zeros((values, len(masks)))
    value[channel.active], variance[channel.active] = found.value, found.variance
    return de.Estimates(value=value, variance=variance)


def paper(published: np.ndarray, masks: np.ndarray, size: int, values: int, asked: np.ndarray) -> np.ndarray:
    """The SPLU paper's iteration with its own rate and 1 % stop, for the queries asked; NaN elsewhere.

    Cells that decay to nothing never satisfy the stop: 500 rounds are enough to see where they go.
    """
    inside = tally(masks, published, values)
    total = np.bincount(published, minlength=values)[:, None].astype(float)
    n, rows = inside.sum(axis=0)[None, :], float(len(published))
    y = np.stack([rows - n - (total - inside), total - inside, n - inside, inside], axis=-1)
    found = np.full(inside.shape, np.nan)
    found[asked] = iterate(y[asked], (size,), "paper", rounds=500).states[..., 3]
    return found


def anatomy(codes: np.ndarray, masks: np.ndarray, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Plain and debiased answers of an anatomy release with the same groups."""
    true = np.bincount(codes)
    values = len(true)
    grouping = random_margins(true, size, rng)
    slot_value = np.concatenate((grouping.members.ravel(), grouping.leftover_values))
    slot_group = np.concatenate((np.repeat(np.arange(grouping.groups), size), grouping.leftover_groups))
    seats = np.argsort(slot_value, kind="stable")
    group = np.empty(len(codes), np.int64)
    order = np.lexsort((rng.random(len(codes)), codes))  # records of a value in random order
    group[order] = slot_group[seats]
    sizes = np.bincount(slot_group)
    plain = np.stack(
        [np.bincount(slot_value, (np.bincount(group[m], minlength=grouping.groups) / sizes)[slot_group], values)
         for m in masks], axis=1)  # fmt: skip
    return plain, np.linalg.solve((slot_table(grouping) / true[:, None]).T, plain)


def distribution_draw(codes: np.ndarray, masks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Plain counts after every row drew from the overall distribution."""
    true = np.bincount(codes)
    return tally(masks, rng.choice(len(true), size=len(codes), p=true / len(codes)), len(true))


def random_conditions(table: dict[str, np.ndarray], count: int, rng: np.random.Generator) -> np.ndarray:
    """Conditions on one to three columns: a random range of a column with many values, else half of its values."""
    masks = []
    while len(masks) < count:
        mask = np.ones(len(next(iter(table.values()))), bool)
        for name in rng.choice(list(table), size=rng.integers(1, 4), replace=False):
            top = int(table[name].max()) + 1
            if top > 30:
                low, high = np.sort(rng.integers(0, top, size=2))
                mask &= (table[name] >= low) & (table[name] <= high)
            else:
                mask &= rng.random(top)[table[name]] < 0.6
        if mask.mean() > 0.02:
            masks.append(mask)
    return np.array(masks)


def bias(releases: int) -> None:
    """Relative bias and coverage for conditions that go with the occupation."""
    table = load("census_like_acs2018", ["workclass", "education", "gender", "occupation"])
    codes, rng = table.pop("occupation"), np.random.default_rng(1)
    masks = np.array([table[c] == v for c in table for v in range(table[c].max() + 1)])
    masks = np.concatenate(
        [masks, [(table["gender"] == g) & (table["workclass"] == w) for g in (0, 1) for w in range(8)]]
    )
    truth = tally(masks, codes, 50)
    asked = truth >= 0.001 * len(codes)
    print(f"{len(masks)} conditions, {asked.sum()} queries of at least 0.1 % of the rows; {releases} releases\n")
    print(
        "| gamma | estimator | mean relative bias | standard error | queries beyond 4 se | relative error | coverage |"
    )
    print("|---|---|---|---|---|---|---|")
    for size in (5, 8):
        default, covered, published_form = [], [], []
        for _ in range(releases):
            published = publish(codes, size, rng)
            found = answer(published, masks, size, 50)
            default.append(found.value[asked])
            covered.append(np.abs(found.value - truth)[asked] <= Z * np.sqrt(found.variance[asked]))
            published_form.append(paper(published, masks, size, 50, asked)[asked])
        for name, values in (("default", default), ("paper", published_form)):
            error = (np.array(values) - truth[asked]) / truth[asked]
            per_release = error.mean(axis=1)
            z = error.mean(axis=0) / (error.std(axis=0, ddof=1) / np.sqrt(releases))
            coverage = f"{np.mean(covered):.3f}" if name == "default" else "none"
            print(
                f"| {size} | {name} | {per_release.mean():+.4f} | {per_release.std(ddof=1) / np.sqrt(releases):.4f} "
                f"| {(np.abs(z) > 4).sum()} | {np.abs(error).mean():.3f} | {coverage} |"
            )


def band_table(codes: np.ndarray, table: dict, sizes: list[int], releases: int, conditions: int) -> None:
    """Mean relative error by selectivity band, all methods, and for counts of at most ten."""
    rng = np.random.default_rng(2)
    masks, values = random_conditions(table, conditions, rng), int(codes.max()) + 1
    truth = tally(masks, codes, values)
    bands = [(f"{100 * a:g}-{100 * b:g} %", (truth >= a * len(codes)) & (truth < b * len(codes))) for a, b in BANDS]
    bands = [(n, m) for n, m in bands if m.sum() >= 10] + [("1 to 10 rows", (truth >= 1) & (truth <= 10))]
    print("| gamma | method | " + " | ".join(f"{name} ({mask.sum()})" for name, mask in bands) + " |")
    print("|---|---|" + "---|" * len(bands))
    for size in sizes:
        errors: dict[str, list] = {}
        for _ in range(releases):
            published = publish(codes, size, rng)
            plain, debiased = anatomy(codes, masks, size, rng) if values <= 512 else (None, None)
            answers = {
                "splu": answer(published, masks, size, values).value,
                "splu, paper": paper(published, masks, size, values, np.any([m for _, m in bands], axis=0)),
                "anatomy": debiased,
                "anatomy, plain": plain,
                "distribution-draw": distribution_draw(codes, masks, rng),
            }
            for name, found in answers.items():
                if found is not None:
                    errors.setdefault(name, []).append([np.mean(np.abs(found - truth)[m] / truth[m]) for _, m in bands])
        for name, rows in errors.items():
            print(f"| {size} | {name} | " + " | ".join(f"{e:.3f}" for e in np.mean(rows, axis=0)) + " |")


def bands(releases: int) -> None:
    """Error by selectivity on the census stand-in."""
    columns = ["age", "gender", "education", "marital", "race", "workclass", "occupation"]
    table = load("census_like_acs2018", columns)
    band_table(table.pop("occupation"), table, [2, 3, 5, 8, 10], releases, 120)


def canada(releases: int) -> None:
    """Error by selectivity on the adverse reactions, for the 28 organ classes and for the reactions themselves."""
    quasi = ["gender", "age_years", "outcome", "seriousness", "report_type", "reporter_type", "source"]
    for column, sizes in (("reaction_soc", [2, 4, 5, 6]), ("reaction", [5, 9])):
        table = load("canada_vigilance_reactions", [*quasi, column])
        codes = table.pop(column)
        print(
            f"\n{column}: {len(codes)} rows, {codes.max() + 1} values, gamma up to {largest_size(np.bincount(codes))}\n"
        )
        band_table(codes, table, sizes, releases, 120)


def two_columns(releases: int) -> None:
    """Coverage and bias for pairs of values of two randomised columns, age in ten intervals and occupation."""
    table = load("census_like_acs2018", ["age", "workclass", "gender", "occupation"])
    cuts = np.quantile(table["age"], np.linspace(0, 1, 11)[1:-1])
    age, codes, rng = (
        np.searchsorted(cuts, table["age"], side="left").astype(np.int32),
        table["occupation"],
        np.random.default_rng(3),
    )
    masks = np.array([np.ones(len(codes), bool), table["gender"] == 0, table["workclass"] == 0])

    def pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.array([np.bincount(first[m] * 50 + second[m], minlength=500).reshape(10, 50) for m in masks]).astype(
            float
        )

    truth = pairs(age, codes)
    asked = truth >= 0.001 * len(codes)
    error, covered = [], []
    for _ in range(releases):
        first, second = publish(age, 5, rng), publish(codes, 5, rng)
        one, two = (rebuild_channel(np.bincount(p), 5, seed=1) for p in (first, second))
        for k, y in enumerate(pairs(first, second)):
            found = decoy_counts.joint_counts(one, two, y)
            error.append(((found.value - truth[k]) / np.maximum(truth[k], 1))[asked[k]])
            covered.append((np.abs(found.value - truth[k]) <= Z * np.sqrt(found.variance))[asked[k]])
    per = np.array([np.concatenate(error[i : i + 3]) for i in range(0, len(error), 3)])
    hits = np.array([np.concatenate(covered[i : i + 3]) for i in range(0, len(covered), 3)])
    print(f"{asked.sum()} queries (age, occupation, condition) of at least 0.1 % of the rows; {releases} releases\n")
    print(
        "| gamma age, occupation | mean relative bias | standard error | relative error | coverage |\n"
        "|---|---|---|---|---|"
    )
    means, spread = per.mean(axis=1), per.mean(axis=1).std(ddof=1) / np.sqrt(releases)
    print(f"| 5, 5 | {means.mean():+.4f} | {spread:.4f} | {np.abs(per).mean():.3f} | {hits.mean():.3f} |")


COMMANDS = {"bias": (bias, 200), "bands": (bands, 3), "canada": (canada, 3), "two-columns": (two_columns, 100)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--releases", type=int)
    arguments = parser.parse_args()
    run, default_releases = COMMANDS[arguments.command]
    run(arguments.releases or default_releases)
