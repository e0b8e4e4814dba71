"""A real Chromium for tests: pages that may talk to one server alone, pictures for the docs, axe-core."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSER = next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 120  # seconds until a page that does not do what it should is given up
AXE = Path(__file__).parent / "browser" / "axe" / "axe.min.js"
FIGURES = Path(__file__).parents[1] / "docs" / "figures"


@contextmanager
def chromium() -> Iterator[Any]:
    """The system's Chromium, with a profile of its own."""
    from playwright import sync_api

    with sync_api.sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
        started = playwright.chromium.launch(
            executable_path=shutil.which(str(BROWSER)), args=[*FLAGS, f"--crash-dumps-dir={profile}"]
        )
        yield started
        started.close()


@contextmanager
def watched_page(browser: Any, url: str, *, statuses: tuple[str, ...] = ("400", "404")) -> Iterator[Any]:
    """A page that may talk to the server alone; whatever goes wrong in it fails the test, but refusals do not."""
    context = browser.new_context(base_url=url, viewport={"width": 1200, "height": 860})
    context.set_default_timeout(PATIENCE * 1000)
    strangers: list[str] = []
    context.route(lambda asked: not asked.startswith((url, "data:")), lambda route: _turn_away(route, strangers))
    opened, faults = context.new_page(), []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda message: faults.append(message.text) if _is_fault(message, statuses) else None)
    yield opened
    context.close()
    assert faults == [], faults
    assert strangers == [], strangers


def _turn_away(route: Any, strangers: list[str]) -> None:
    strangers.append(route.request.url)
    route.abort()


def _is_fault(message: Any, statuses: tuple[str, ...]) -> bool:
    refused = message.text.startswith("Failed to load resource") and any(s in message.text for s in statuses)
    answered = message.text.startswith("Response Status Error Code") and any(s in message.text for s in statuses)
    replaced = message.text.startswith(("htmx:afterRequest", "htmx:sendAbort"))  # a newer choice overtook this one
    return message.type in {"error", "warning"} and not (refused or answered or replaced)


def until(page: Any, condition: str, *, seconds: float = PATIENCE) -> None:
    """Wait until a condition holds; asked from outside, as the policy of our pages forbids `eval` inside them."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"did not come true in {seconds:g} s: {condition}"
        page.wait_for_timeout(50)


def picture(page: Any, name: str, update: bool, *, whole: bool = True) -> None:
    """Renew a picture of the docs, if asked."""
    if update:
        page.mouse.move(0, 0)
        page.screenshot(path=FIGURES / f"{name}.png", full_page=whole)


def accessible(page: Any) -> None:
    """No violation of WCAG 2 A and AA that axe-core finds."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})")
    broken = [(v["id"], [n["html"][:160] for n in v["nodes"][:3]]) for v in found["violations"]]
    assert broken == [], broken
    assert len(found["passes"]) > 10  # it did look
