"""The source uses no private name of another package, patches none and walks no frames; what would is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.check_foreign_names import breaches, main

ROOT = Path(__file__).parents[2]


def test_the_source_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(ROOT / "src") == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "from dataclasses import _create_fn",
        "from importlib._bootstrap import spec_from_loader",
        "import scipy.special._ufuncs",
        "import numpy._core as core",
        "import numpy as np\nnp._core.multiarray",
        "import scipy.special\nscipy.special._ufuncs.erf(1)",
        "from pyarrow import Table\nTable._import",
        "import threading\nthreading._start_new_thread(print, ())",
        "import numpy\nnumpy.ma = None",
        "import pyarrow.compute as pc\nsetattr(pc, 'function_registry', None)",
        "import sys\nsys.modules['numpy.ma'] = None",
        "import sys\ndel sys.modules['numpy']",
        "from sys import modules\nmodules['numpy.ma'] = None",
        "import sys\nsys.modules.setdefault('numpy.ma', None)",
        "import sys\nsys.meta_path.insert(0, None)",
        "import ctypes",
        "from ctypes import CDLL",
        "import ctypes.util",
        "def load():\n    import ctypes as c",
        "import sys\nsys._getframe(1)",
        "import inspect\ninspect.currentframe()",
        "from inspect import stack\nstack()",
        "def handler(number, frame):\n    return frame.f_back",
        "def of(error):\n    return error.__traceback__.tb_frame",
    ],
)
def test_a_breach_is_found(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [line for line, _ in breaches(text)]
    (tmp_path / "wrong.py").write_text(text)
    assert main(tmp_path) == 1
    assert "wrong.py:" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "from __future__ import annotations",
        "from .scratch import _guard",
        "from sfumato.engines import scratch\nscratch._guard",
        "import os\nos._exit(1)",
        "import sys\nsys.stdout = sys.stdout or open('out', 'w')",
        "import sys\nknown = 'numpy' in sys.modules",
        "import numpy as np\nnp.__version__",
        "class A:\n    def f(self):\n        self._x = self._y()",
    ],
)
def test_what_is_documented_or_ours_is_not(text: str) -> None:
    assert list(breaches(text)) == []
