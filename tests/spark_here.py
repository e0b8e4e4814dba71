"""What tests on Spark need to know of this machine."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

# Java that lives for seconds: compiled once, quickly; half of the processor's time that it takes by default
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def why_no_spark() -> str | None:
    """What Spark tests lack on this machine."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed (sfumato[spark])"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "no Java is found; Spark needs 17 or 21"
    return None
