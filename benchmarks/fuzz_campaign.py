"""Mutated CSV, Parquet, bundles, SQL and options: every input ends in an answer or in an error of ours.

Cells carry a mark; a message that quotes it is a leak.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow.csv as pc
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.fault_campaign import METHODS, ROLES, table
from sfumato.errors import SfumatoError
from sfumato.methods import REGISTRY
from sfumato.methods.registry import build, fields_of
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret
from sfumato.query import open_release
from sfumato.release.verify import verify

MARK = "zqxjmark"
WORDS = tuple(
    word
    for line in (
        "SELECT COUNT(*) SUM( AVG( MIN( MAX( FROM release WHERE GROUP BY HAVING ORDER LIMIT OFFSET AND OR NOT IN",
        "LIKE IS NULL CASE WHEN THEN ELSE END CAST AS age sex disease 'a' 'f' 1 0 -1 1e308 1e-999999999 BETWEEN",
        "'inf'::DOUBLE ( ) , = <> < > + - * / % || :: FILTER DISTINCT UNION WITH read_csv('x') pg_sleep(9) ; --",
        "/* */ \" ' $1 ? NaN TRUE FALSE DATE '2020-01-01' INTERVAL EXISTS ALL ANY OVER PARTITION 10 PERCENT n_se",
        "x.y release.age *",
    )
    for word in line.split(" ")
)
ODD = (
    *("", "0", "-1", "1/0", "1e400", "nan", "inf", "1/3", "0.5", "5", "x", "=", ",", "a=1,b", "1e-999999999"),
    *("9" * 400, "interval:5", "age", "disease=0.5", "sex=1/2", "\x00", "é" * 50, "true", "None", "3", "2", "both"),
)


def tried(found: Counter[str], kind: str, work: Callable[[], object]) -> None:
    """Count the trial; an error that is not ours, or that quotes a cell, is a fault."""
    found[kind] += 1
    try:
        work()
    except SfumatoError as error:
        if MARK in str(error):
            found[f"! {kind}: a message quotes a cell"] += 1
    except RecursionError:
        found[f"! {kind}: RecursionError"] += 1
    except Exception as error:
        found[f"! {kind}: {type(error).__name__}: {str(error)[:80]}"] += 1


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, cut, doubled or exchanged."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        if not out:
            break
        at, kind = rng.randrange(len(out)), rng.randrange(5)
        if kind == 0:
            out[at] = rng.randrange(256)
        elif kind == 1:
            del out[at : at + rng.randint(1, 40)]
        elif kind == 2:
            out[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 8)))
        elif kind == 3:
            out[at:at] = out[at : at + rng.randint(1, 60)]
        else:
            out[at] ^= 1 << rng.randrange(8)
    return bytes(out)


def sql(count: int, rng: random.Random, found: Counter[str] | None = None) -> Counter[str]:
    """Random words, and questions with words changed, asked of small releases of every method in turn."""
    found = Counter() if found is None else found
    releases = [sf.publish(table(), roles=ROLES, method=build(name, given), seed=1) for name, given in METHODS.items()]
    seeds = (
        "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'a' GROUP BY sex ORDER BY n",
        "SELECT AVG(age) FROM release WHERE disease IN ('a', 'b') AND sex = 'f'",
        "SELECT disease, SUM(age) FROM release GROUP BY disease HAVING COUNT(*) > 3 LIMIT 2",
    )
    for number in range(count):
        if rng.random() < 0.3:
            text = " ".join(rng.choices(WORDS, k=rng.randint(1, 14)))
        else:
            words = rng.choice(seeds).split(" ")
            for _ in range(rng.randint(1, 3)):
                words[rng.randrange(len(words))] = rng.choice(WORDS)
            text = " ".join(words)
        tried(found, "SQL", partial(releases[number % len(releases)].sql, text))
    return found


def options(count: int, rng: random.Random, found: Counter[str] | None = None) -> Counter[str]:
    """Random values for the options of every method."""
    found = Counter() if found is None else found
    names = {method: [field.name for field in fields_of(REGISTRY[method].spec)] for method in REGISTRY}
    for _ in range(count):
        method = rng.choice(list(names))
        chosen = rng.sample(names[method], k=rng.randint(0, len(names[method])))
        given = {name: rng.choice(ODD) for name in chosen}
        tried(found, "options", partial(build, method, given))
    return found


def tables(count: int, rng: random.Random, found: Counter[str] | None = None) -> Counter[str]:
    """Mutated CSV and Parquet files, read, counted and planned with every method in turn."""
    found = Counter() if found is None else found
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        marked = table(60).append_column("name", [[f"{MARK}{i}" for i in range(60)]])
        pc.write_csv(marked, here / "t.csv")
        pq.write_table(marked, here / "t.parquet")
        roles = sf.Roles(sensitive="disease", quasi=["age", "sex"], identifying=["name"])
        specs = [build(name, given) for name, given in METHODS.items()]
        for kind in ("csv", "parquet"):
            data = (here / f"t.{kind}").read_bytes()
            for i in range(count):
                file = here / f"m{i % 7}.{kind}"
                file.write_bytes(mutated(data, rng))
                spec = specs[i % len(specs)]
                tried(found, kind, partial(prepare, file, roles=roles, method=spec, secret=Secret.from_seed(1)))
    return found


def bundles(count: int, rng: random.Random, found: Counter[str] | None = None) -> Counter[str]:
    """Releases of every method with mutated files or mutated JSON, opened and verified."""
    found = Counter() if found is None else found
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        for method, given in METHODS.items():
            sf.publish(table(), here / method, roles=ROLES, method=build(method, given), seed=1)
        for _ in range(count):
            target = here / "mutated"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(here / rng.choice(list(METHODS)), target)
            file = rng.choice(sorted(target.iterdir()))
            if file.name == "release.json" and rng.random() < 0.7:
                stated = json.loads(file.read_text(encoding="utf-8"))
                bend(stated, rng)
                file.write_text(json.dumps(stated), encoding="utf-8")
            else:
                file.write_bytes(mutated(file.read_bytes(), rng))
                if file.suffix == ".parquet" and rng.random() < 0.7:  # whoever changes a file can make its digest anew
                    stated = json.loads((target / "release.json").read_text(encoding="utf-8"))
                    stated["files"][file.name]["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
                    (target / "release.json").write_text(json.dumps(stated), encoding="utf-8")
            tried(found, "bundle", partial(checked, target))
    return found


def checked(folder: Path) -> list[str]:
    """The lines of `verify` and an answer, digests not looked at on opening."""
    release = open_release(folder, check=False)
    try:
        return list(verify(release.opened, test=True))
    finally:
        release.sql("SELECT sex, COUNT(*) AS n FROM release WHERE disease IN ('a', 'b') GROUP BY sex")


def bend(document: object, rng: random.Random) -> None:
    """One value somewhere in the document becomes another."""
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place))) if isinstance(place, list) else []
        if not keys:
            return
        key = rng.choice(keys)
        inner = place[key]  # type: ignore[index]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.8:
            place = inner
            continue
        place[key] = rng.choice([None, -1, 0, 10**30, 1.5, "x", "", [], {}, True, [[]], "1/0", "9" * 300])  # type: ignore[index]
        return
