"""Publish and ask through Spark Connect: SOURCE OUT. Run by test_spark_connect.py; prints what a test compares.

A process of its own: one process has sessions of its own driver or of a server, not both.
"""

from __future__ import annotations

import json
import sys

import sfumato as sf
from sfumato.engines.spark.session import is_connect
from sfumato.engines.spark.table import SparkEngine
from tables import MARK

ROLES = sf.Roles(sensitive="disease", quasi=["age", "sex"], insensitive=["number"], identifying=[f"{MARK}_name"])
METHODS = {"anatomy": sf.Anatomy(l=3), "uniform": sf.UniformPerturbation(rho1="1/5", rho2="1/3")}
QUESTION = "SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM release WHERE disease <> 'flu' GROUP BY sex ORDER BY sex"


def main(source: str, out: str) -> None:
    """Releases by two methods, of a file and of a frame of the server; a line of JSON."""
    engine = SparkEngine(remote="local[2]", rows_a_part=400)
    found: dict[str, object] = {"connect": is_connect(engine.session)}
    sf.publish(source, f"{out}/anatomy", roles=ROLES, method=METHODS["anatomy"], engine=engine, seed=5)
    frame = engine.session.read.parquet(source).where("age >= 40")
    sf.publish(frame, f"{out}/uniform", roles=ROLES, method=METHODS["uniform"], seed=5)
    for name in METHODS:
        found[name] = sf.open_release(f"{out}/{name}", engine=engine).sql(QUESTION).to_json()
    engine.session.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
