"""pandas is loaded by commands that use it, not because it happens to be installed."""

from __future__ import annotations

import sys

from .late_modules import masks_late


class _Hidden:
    """Finds no pandas. (The class that finders may inherit from comes with half of importlib.)"""

    @staticmethod
    def find_spec(fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("looked for too early", name=fullname)


def without_pandas() -> None:
    """Nothing; pyarrow has looked for pandas and found none.

    It looks once, at the first numpy array it is given, and loads pandas, which takes a third of a second. Whoever
    asks for a data frame later still gets one: pyarrow then looks again.
    """
    if "pandas" in sys.modules:
        return
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        import numpy as np
        import pyarrow as pa

        masks_late(np)
        pa.array(np.zeros(1))
        pa.array([1.0, None]).to_numpy(zero_copy_only=False)
    finally:
        sys.meta_path.remove(hidden)
