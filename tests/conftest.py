"""Options and fixtures that all tests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run; HYPOTHESIS_PROFILE=explore looks for others.
settings.register_profile(
    "same", deadline=None, max_examples=50, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the files of tests/golden")


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A temporary folder of the session's own: what earlier runs left behind is not this one's business."""
    folder = str(tmp_path_factory.mktemp("temporary"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr("tempfile.tempdir", folder)
        yield


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten instead of compared."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of the larger tables; the test is skipped where there is none."""
    folder = os.environ.get("SFUMATO_DATA")
    if not folder:
        pytest.skip("SFUMATO_DATA is not set")
    return Path(folder)


@pytest.fixture(scope="session")
def honest_releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A release of every method, to be read and copied, never changed; the table beside them is t.parquet."""
    from forgeries import honest

    return honest(tmp_path_factory.mktemp("honest"))


@pytest.fixture
def golden(update_golden: bool) -> Callable[[Path, str], None]:
    """A function (file, text) that compares the text with the file, or rewrites the file under --update-golden."""

    def compare(file: Path, text: str) -> None:
        if update_golden:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.exists(), f"{file.name} is missing; make golden writes it"
        assert text == file.read_text(encoding="utf-8")

    return compare
