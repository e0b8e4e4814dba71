"""Faults of the source, one for each law, estimator, interval and guard; found by their text, wherever it stands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A text that stands once in the package, what stands there instead, and tests of `make test` that see it."""

    name: str
    text: str
    instead: str
    tests: tuple[str, ...]


MUTANTS = (
    # --- laws: what is drawn, and what is said about it
    Mutant(
        name="keep-or-redraw keeps values more often than it says",
        text="< np.uint64(int(p * 2**32))",
        instead="< np.uint64(int((p + (1 - p) / 3) * 2**32))",
        tests=("tests/contract/test_contract.py::test_every_cell_of_the_channel",),
    ),
    Mutant(
        name="a sub-table redraws from all values but its last",
        text="rng.integers(0, np.diff(tables.start)[part])]",
        instead="rng.integers(0, np.maximum(np.diff(tables.start)[part] - 1, 1))]",
        tests=("tests/contract/test_contract.py::test_every_cell_of_the_channel",),
    ),
    Mutant(
        name="a set's keep probability is rounded up",
        text="return int(lifted / (self.total + lifted) * UNIT)",
        instead="return int(lifted / (self.total + lifted) * UNIT) + 1",
        tests=("tests/unit/test_set_channel.py",),
    ),
    Mutant(
        name="a set is said to be shown less often than it is",
        text="return inside + (1 - self.keep) * n / self.total",
        instead="return inside + (1 - self.keep) * n / (self.total + 1)",
        tests=("tests/unit/test_set_channel.py",),
    ),
    Mutant(
        name="a group may hold one value less than l",
        text="if (values < self.l).any():",
        instead="if (values < self.l - 1).any():",
        tests=("tests/trust/test_forgeries.py::test_forgeries[anatomy]",),
    ),
    Mutant(
        name="a group may hold a value twice",
        text="if step == 0:",
        instead="if step < -1:",
        tests=("tests/unit/test_anatomy_verify.py",),
    ),
    Mutant(
        name="decoys may show a value in all rows",
        text="check_ceiling(published_counts(published, u), 1 / size, where",
        instead="check_ceiling(published_counts(published, u), 1.0, where",
        tests=("tests/trust/test_forgeries.py::test_forgeries[splu]",),
    ),
    Mutant(
        name="pairs of decoys have wrong chances",
        text="found[:, k] = polynomials[:, k] - odds * found[:, k - 1]",
        instead="found[:, k] = polynomials[:, k] - 0.9 * odds * found[:, k - 1]",
        tests=("tests/unit/test_decoy_channel.py",),
    ),
    Mutant(
        name="a class is diverse at half the entropy",
        text="entropy >= math.log(l) - 1e-12",
        instead="entropy >= math.log(l) / 2",
        tests=("tests/unit/test_lattice.py", "tests/unit/test_l_diversity.py"),
    ),
    Mutant(
        name="blocks may give values another chance than their target's",
        text="if (rest[:, leaf] != plans[:, leaf]).any():",
        instead="if (rest[:, leaf] < 0).any():",
        tests=("tests/unit/test_transform.py",),
    ),
    Mutant(
        name="a draw from the overall distribution has the spread of its square",
        text="second * (square - mean**2)",
        instead="second * square",
        tests=("tests/unit/test_expected.py",),
    ),
    Mutant(
        name="columns are said to look like others more rarely than they do",
        text="b = (1.0 - theta) / len(classes) * held",
        instead="b = (1.0 - theta) / (len(classes) + 1) * held",
        tests=("tests/unit/test_randomized_response.py", "tests/unit/test_few_changes.py"),
    ),
    # --- estimators
    Mutant(
        name="what was redrawn is added instead of taken away",
        text="return (o - b * n) / on.p, n",
        instead="return (o + b * n) / on.p, n",
        tests=("tests/unit/test_perturbation.py",),
    ),
    Mutant(
        name="the variance forgets the rows that have the value",
        text="variance = n2 * v0 + slope * np.clip(e2, 0, n2)",
        instead="variance = n2 * v0",
        tests=("tests/unit/test_perturbation.py",),
    ),
    Mutant(
        name="a covariance has one sign wrong",
        text="term = (p * (1 - p) * e12 - p * b2 * e1",
        instead="term = (p * (1 - p) * e12 + p * b2 * e1",
        tests=("tests/unit/test_perturbation.py",),
    ),
    Mutant(
        name="weights of a stated channel come from its transpose",
        text="w = np.linalg.solve(channel, h)",
        instead="w = np.linalg.solve(channel.T, h)",
        tests=("tests/unit/test_stated_channel.py",),
    ),
    Mutant(
        name="the skewness of an answer from sets is wrong",
        text="return third - 3 * functionals * second + 2 * functionals**3",
        instead="return third - 2 * functionals * second + functionals**3",
        tests=("tests/unit/test_set_answers.py",),
    ),
    Mutant(
        name="a total forgets half of its covariances",
        text="total += 2 * self._covariance(a, b)",
        instead="total += self._covariance(a, b)",
        tests=("tests/unit/test_same_number.py",),
    ),
    Mutant(
        name="the errors of a fit are halved",
        text="found[target] = (both + both.T) / 2",
        instead="found[target] = (both + both.T) / 8",
        tests=("tests/unit/test_newton.py",),
    ),
    # --- intervals
    Mutant(
        name="the third cumulant of a row is that of a rarer one",
        text="a * (1.0 - a) * (1.0 - 2.0 * a)",
        instead="a * (1.0 - a) * (1.0 - a)",
        tests=("tests/unit/test_tail_inversion.py",),
    ),
    Mutant(
        name="full tails are narrower than mid-p ones",
        text="shown = np.stack([-(t - unit / 2), t + unit / 2])",
        instead="shown = np.stack([-(t + unit / 2), t - unit / 2])",
        tests=("tests/unit/test_tail_inversion.py",),
    ),
    Mutant(
        name="the lower end of a total spends the whole alarm",
        text="farthest_allowed(many, alpha / 2, totals, totals * chance)",
        instead="farthest_allowed(many, alpha, totals, totals * chance)",
        tests=("tests/unit/test_tail_inversion.py",),
    ),
    Mutant(
        name="Fieller's set takes z for its square",
        text="A**2 - z**2 * VA",
        instead="A**2 - z * VA",
        tests=("tests/unit/test_fieller.py",),
    ),
    Mutant(
        name="many intervals at once have the level of one",
        text="(1 - level) / (2 * comparisons)",
        instead="(1 - level) / 2",
        tests=("tests/unit/test_response.py", "tests/unit/test_interval_defects.py"),
    ),
    # --- guards
    Mutant(
        name="gamma is larger than rho1 and rho2 allow",
        text="return rho2 * (1 - rho1) / (rho1 * (1 - rho2))",
        instead="return rho2 / (rho1 * (1 - rho2))",
        tests=("tests/unit/test_gamma.py",),
    ),
    Mutant(
        name="a person's rows are each given the whole gamma",
        text="    if rows == 1:\n        return floor_significant(gamma, digits)",
        instead="    if rows:\n        return floor_significant(gamma, digits)",
        tests=("tests/unit/test_people.py", "tests/unit/test_gamma.py"),
    ),
    Mutant(
        name="counts that the noise cannot have made pass",
        text="if surprise.min(initial=0.0) < 0 else None",
        instead="if surprise.min(initial=0.0) < -1e9 else None",
        tests=("tests/unit/test_tails.py",),
    ),
    Mutant(
        name="rows may be in any order",
        text="    check_order(release)\n    release.check_unchanged()",
        instead="    release.check_unchanged()",
        tests=("tests/trust/test_forgeries.py::test_forgeries[uniform]",),
    ),
    Mutant(
        name="a release may state any guarantee",
        text='raise VerificationError("the stated guarantee is not the one that the published parameters give")',
        instead="pass",
        tests=("tests/trust/test_forgeries.py::test_forgeries[uniform]",),
    ),
    Mutant(
        name="all partitions draw the same numbers",
        text='message = f"{step}/{partition}".encode()',
        instead="message = step.encode()",
        tests=("tests/trust/test_randomness.py",),
    ),
)
