"""Kinds of forgery, each tried on a release of every method: what `verify` catches, and what no bundle can show.

A kind changes a copy of an honest release; whoever forges is competent and makes digests, row counts and
datapackage.json anew unless the kind is about those. `CAUGHT` and `UNSEEN` say what to expect of a method, None that
it does not apply, or that chance decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from commands import METHODS, sfumato
from forged_folders import (
    cut_short,
    damaged_page,
    edited,
    false_statistics,
    linked,
    noted,
    stated_twice,
    telling_writer,
    true_sets,
)
from forged_rows import (
    by,
    exchanged_values,
    extra_column,
    first_cell,
    foreign_set,
    foreign_value,
    group_one_value,
    half,
    label_cell,
    last_as_bytes,
    listed_numbers,
    mirrored,
    moved,
    no_text,
    number_as_text,
    one_value,
    other_member,
    renumbered,
    set_twice,
    shuffled,
    swapped,
    table,
    thrice,
    true_values,
    turned_rows,
    unknown_group,
    unlisted_set,
    weighed,
    without_set,
)
from forged_statements import (
    Stated,
    bigger_sizes,
    column_twice,
    doubled_set,
    dropped_set,
    more_noise,
    narrower_domain,
    other_method,
    out_of_units,
    put,
    role,
    sizes_exchanged,
    stronger_number,
    trusted,
    unit_twice,
    wider_domain,
)
from forging import forged
from sfumato.methods import REGISTRY

CAUGHT, UNSEEN = "caught", "cannot be seen"
ROLES = ("--sa", "disease", "--qi", "age,sex", "--keep", "number")
OPTIONS = dict(METHODS) | {"randomized-response": ("--keep-probability", "disease=1/2,age=1/2,sex=3/4")}
IN_SETS = "small-domain, sets"  # its example publishes values: gamma is too large for sets there
RELEASES = {name: name for name in REGISTRY} | {IN_SETS: "small-domain"}  # release -> its method
OPTIONS[IN_SETS] = ("--rho1", "1/5", "--rho2", "1/4", "--min-size", "50", "--report", "set")


def honest(folder: Path) -> dict[str, Path]:
    """One release of every method, of small-domain also one that shows sets; the table beside them is t.parquet."""
    pq.write_table(table(), folder / "t.parquet")
    made = {}
    for name, method in RELEASES.items():
        said = (*ROLES, "--method", method, *OPTIONS[name], "--seed", 3, "--accept-unprotected")
        done = sfumato("publish", folder / "t.parquet", folder / name, *said)
        assert done.code == 0, done.text
        made[name] = folder / name
    return made


Expected = Callable[[str], str | None]  # name of a method -> CAUGHT, UNSEEN or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of forgery: changes for `forged`, or a function on the finished copy."""

    name: str
    expected: Expected
    manifest: Callable[[Stated], None] | None = None
    data: Callable[[pa.Table], pa.Table] | None = None
    side: Callable[[pa.Table], pa.Table] | None = None
    sets: Callable[[pa.Table], pa.Table] | None = None
    after: Callable[[Path], None] | None = None

    def of(self, release: str) -> str | None:
        """What to expect of one of `RELEASES`, by its own name or by its method's."""
        return self.expected(release) or self.expected(RELEASES[release])

    def forge(self, release: Path, target: Path) -> Path:
        """The forged copy."""
        forged(release, target, manifest=self.manifest, data=self.data, side=self.side, sets=self.sets)
        if self.after is not None:
            self.after(target)
        return target


def everywhere(_: str) -> str:
    return CAUGHT


def nowhere(_: str) -> str:
    return UNSEEN


def only(*names: str) -> Expected:
    """Caught for these methods, not applicable to the others."""
    return lambda name: CAUGHT if name in names else None


def where(caught: tuple[str, ...], unseen: tuple[str, ...] = ()) -> Expected:
    return lambda name: CAUGHT if name in caught else UNSEEN if name in unseen else None


def about_sets(name: str) -> str | None:
    return CAUGHT if name in {"subset-response", IN_SETS} else None


NOISY = ("uniform", "small-domain", "randomized-response", "subset-response")  # a floor under every value
ROW_BY_ROW = (*NOISY, "splu", "distribution-draw")
PARTED = ("small-domain", "target-distribution", "anatomy")  # rows name a sub-table or a group
UNPARTED = tuple(name for name in REGISTRY if name not in PARTED)


KINDS = (
    Kind(name="a stronger statement", expected=everywhere,
         manifest=put("guarantee", "statement", to="Nobody can learn anything.")),
    Kind(name="nothing is said not to be covered", expected=everywhere,
         manifest=put("guarantee", "not_covered", to=lambda x: x[:-1] or ["nothing"])),
    Kind(name="other assumptions", expected=everywhere, manifest=put("guarantee", "assumptions", to=["none at all"])),
    Kind(name="more trust", expected=everywhere, manifest=trusted),
    Kind(name="better numbers in the guarantee", expected=everywhere, manifest=stronger_number),
    Kind(name="another model of guarantee", expected=everywhere,
         manifest=put("guarantee", "model", to="differential privacy")),
    Kind(name="another method", expected=everywhere, manifest=other_method),
    Kind(name="an unknown method", expected=everywhere, manifest=put("method", to="sfumatissimo")),
    Kind(name="another format version", expected=everywhere, manifest=put("format_version", to=99)),
    Kind(name="a field that no release has", expected=everywhere, manifest=put("note", to="true values")),
    Kind(name="another version of the software", expected=nowhere, manifest=put("software", "version", to="9.9")),
    Kind(name="made with a seed, said to be without", expected=nowhere, manifest=put("reproducible", to=False)),
    Kind(name="said to be made with more noise", manifest=more_noise,
         expected=where(("subset-response", "uniform", "small-domain", "splu", "randomized-response", "anatomy",
                         "l-diversity"), (IN_SETS,))),
    Kind(name="a parameter left out", expected=where(tuple(n for n in REGISTRY if n != "distribution-draw")),
         manifest=lambda s: s["law"].pop([*s["law"]][1])),
    Kind(name="a sensitive column in no unit", expected=everywhere, manifest=out_of_units),
    Kind(name="a sensitive column called insensitive", expected=everywhere, manifest=role("sensitive", "insensitive")),
    Kind(name="quasi-identifiers called insensitive", manifest=role("quasi", "insensitive"),
         expected=where(("l-diversity", "randomized-response"),
                        tuple(n for n in REGISTRY if n not in {"l-diversity", "randomized-response"}))),
    Kind(name="an untouched column called the group", expected=everywhere, manifest=role("insensitive", "group")),
    Kind(name="a domain with one value more", manifest=wider_domain,
         expected=where(("subset-response", "uniform", "small-domain", "target-distribution", "randomized-response",
                         "anatomy", "l-diversity"), ("splu", "distribution-draw"))),
    Kind(name="a domain without a value that rows show", expected=everywhere, manifest=narrower_domain),
    # only these state something about the reader who knows every other record that depends on it
    Kind(name="a domain called declared",
         expected=lambda name: CAUGHT if name in {"uniform", "subset-response"} else UNSEEN,
         manifest=put("units", 0, "declared", to=True)),
    Kind(name="a unit listed twice", expected=everywhere, manifest=unit_twice),
    Kind(name="a column listed twice, in capitals", expected=everywhere, manifest=column_twice),
    Kind(name="another number of rows", expected=everywhere, manifest=put("rows", to=lambda n: n + 1)),
    Kind(name="another number of rows of a file", expected=everywhere,
         manifest=put("files", "data.parquet", "rows", to=lambda n: n + 1)),
    Kind(name="sizes that are one too large", expected=only("small-domain", "target-distribution"),
         manifest=bigger_sizes),
    Kind(name="sizes exchanged between groups", expected=only("small-domain", "target-distribution"),
         manifest=sizes_exchanged),
    Kind(name="a sub-table of one value", expected=only("small-domain"),
         manifest=lambda s: s["law"]["domains"].__setitem__(0, s["law"]["domains"][0][:1])),
    Kind(name="less noise than rho1 and rho2 allow", expected=only("subset-response", "uniform", "small-domain"),
         manifest=lambda s: s["law"].update(gammas=["50"] * len(s["law"]["gammas"]))),
    Kind(name="levels above the hierarchy", expected=only("l-diversity"),
         manifest=lambda s: s["law"]["columns"][0].update(level=99)),
    Kind(name="another target for the same blocks", expected=only("target-distribution"),
         manifest=lambda s: s["law"]["parts"][0]["weights"].reverse()),
    Kind(name="another number of groups", expected=only("anatomy"),
         manifest=put("law", "groups", to=lambda n: n + 1)),
    Kind(name="baselines of another column", expected=only("randomized-response"),
         manifest=put("parameters", "baseline", to={"age": 0.1})),
    Kind(name="all rows show one value", data=one_value, side=one_value,
         expected=where(tuple(n for n in REGISTRY if n != "distribution-draw"), ("distribution-draw",))),
    Kind(name="true values put back", expected=where(NOISY, ("splu", "distribution-draw")), data=true_values,
         after=true_sets),
    Kind(name="published values (or groups) exchanged between rows", data=swapped,
         expected=where(("target-distribution",), tuple(n for n in REGISTRY if n != "target-distribution"))),
    Kind(name="an untouched column exchanged between rows", expected=nowhere, data=renumbered),
    Kind(name="half of the rows", data=half,
         expected=where(PARTED, tuple(n for n in UNPARTED if n != "l-diversity"))),  # classes may lose their diversity
    Kind(name="every row three times", expected=where(PARTED, UNPARTED), data=thrice),
    Kind(name="rows sorted by the sensitive value or group", expected=everywhere,
         data=by("sub_table", "group_id", "disease_set", "disease")),
    Kind(name="rows sorted by the sensitive value or group, and mirrored", expected=everywhere,
         data=mirrored("sub_table", "group_id", "disease_set", "disease")),
    Kind(name="rows sorted by a quasi-identifier", expected=where(tuple(n for n in REGISTRY if n != "l-diversity")),
         data=by("sex")),
    Kind(name="rows in the order of an untouched column", expected=everywhere, data=by("number")),
    Kind(name="a column more", expected=everywhere, data=extra_column),
    Kind(name="a column less", expected=everywhere, data=lambda t: t.drop_columns(["number"])),
    Kind(name="a column of another type", expected=everywhere, data=number_as_text),
    Kind(name="a column twice", expected=everywhere, data=lambda t: t.append_column("sex", t["sex"])),
    Kind(name="a column twice, once in capitals", expected=everywhere,
         data=lambda t: t.append_column("SEX", t["sex"])),
    Kind(name="cells that are lists of a value", expected=everywhere, data=listed_numbers),
    Kind(name="a text that is none", expected=everywhere, data=no_text),
    Kind(name="a column twice beside the groups", expected=only("anatomy", "target-distribution"),
         side=lambda t: t.append_column("group_id", t["group_id"])),
    Kind(name="a column of another type beside the groups", expected=only("anatomy", "target-distribution"),
         side=last_as_bytes),
    Kind(name="a column of the weights twice", expected=about_sets,
         sets=lambda t: t.append_column("weight", t["weight"])),
    Kind(name="a value outside the domain", data=first_cell("foreign"), side=first_cell("foreign"),
         expected=where(tuple(n for n in REGISTRY if n != "l-diversity"), ("l-diversity",))),
    Kind(name="another value outside its domain", expected=only("l-diversity", "randomized-response"),
         data=label_cell),
    Kind(name="a missing value where none can be", data=first_cell(None), side=first_cell(None),
         expected=where(tuple(n for n in REGISTRY if n != "l-diversity"), ("l-diversity",))),
    Kind(name="rows moved to another group", expected=where(PARTED), data=moved),
    Kind(name="a row in a group that is not listed", expected=where(PARTED), data=unknown_group),
    Kind(name="groups of one repeated value", expected=only("anatomy"), side=group_one_value),
    Kind(name="a group that lacks a value", expected=only("anatomy", "target-distribution"), side=lambda t: t.slice(1)),
    Kind(name="values of groups in another order", expected=only("anatomy"), side=shuffled),
    Kind(name="a column more beside the groups", expected=only("anatomy", "target-distribution"), side=extra_column),
    Kind(name="a set that is said to hold another value", expected=about_sets, sets=other_member),
    Kind(name="values of a set exchanged", expected=about_sets, sets=exchanged_values),
    Kind(name="sets in another order", expected=about_sets, sets=turned_rows),
    Kind(name="a set that sets.parquet leaves out", expected=about_sets, sets=without_set),
    Kind(name="a set twice in sets.parquet", expected=about_sets, sets=set_twice),
    Kind(name="a set of another number in sets.parquet", expected=about_sets, sets=foreign_set),
    Kind(name="a missing number of a set", expected=about_sets, sets=first_cell(None)),
    Kind(name="a value of a set outside the domain", expected=about_sets, sets=foreign_value),
    Kind(name="a column more beside the sets", expected=about_sets, sets=extra_column),
    Kind(name="a set that is not listed", expected=about_sets, data=unlisted_set),
    Kind(name="other weights", expected=about_sets, sets=lambda t: weighed(t, "weight")),
    Kind(name="other weights of variances", expected=about_sets, sets=lambda t: weighed(t, "variance_weight")),
    Kind(name="weights left out", expected=about_sets, sets=lambda t: t.slice(1)),
    Kind(name="a listed set dropped", expected=about_sets, manifest=dropped_set),
    Kind(name="a set listed twice", expected=about_sets, manifest=doubled_set),
    Kind(name="a file more", expected=everywhere, after=lambda f: (f / "truth.csv").write_text("x") and None),
    Kind(name="a hidden file more", expected=everywhere, after=lambda f: (f / ".truth").write_text("x") and None),
    Kind(name="a table in release.sig", expected=everywhere,
         after=lambda f: (f / "release.sig").write_text("0,angina\n" * 1_000) and None),
    Kind(name="a folder more", expected=everywhere, after=lambda f: (f / "more").mkdir()),
    Kind(name="datapackage.json of other data", expected=everywhere,
         after=edited(put("description", to="exact counts"), "datapackage.json")),
    Kind(name="datapackage.json missing", expected=everywhere, after=lambda f: (f / "datapackage.json").unlink()),
    Kind(name="notes inside a Parquet file", expected=everywhere, after=noted),
    Kind(name="notes as the name of the writing library", expected=everywhere, after=telling_writer),
    Kind(name="false statistics, which change no answer", expected=nowhere, after=false_statistics),
    Kind(name="data changed, digests kept", expected=everywhere,
         after=lambda f: pq.write_table(half(pq.read_table(f / "data.parquet")), f / "data.parquet")),
    Kind(name="data cut short, digest made anew", expected=everywhere, after=cut_short),
    Kind(name="a page of every file damaged, digests made anew", expected=everywhere, after=damaged_page),
    Kind(name="release.json that states something twice", expected=everywhere, after=stated_twice("release.json")),
    Kind(name="datapackage.json that states something twice", expected=everywhere,
         after=stated_twice("datapackage.json")),
    Kind(name="data outside the folder", expected=everywhere, after=linked),
)  # fmt: skip
