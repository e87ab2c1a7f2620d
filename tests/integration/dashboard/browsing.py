"""A real Chromium, without a window: Debian's own, driven by Playwright."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE, NARROW = ViewportSize(width=1280, height=900), ViewportSize(width=390, height=844)
SIZES = {1280: WIDE, 390: NARROW}
WAIT_MS = 20_000


@contextmanager
def chromium() -> Generator[Browser]:
    """The browser. RuntimeError says what to install."""
    path = os.environ.get("TANDEM_CHROMIUM") or shutil.which("chromium")
    if path is None:
        raise RuntimeError("there is no Chromium: apt-get install chromium, or name its binary in $TANDEM_CHROMIUM")
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def tab(browser: Browser, width: int = 1280, theme: str = "light", scale: float = 1) -> Generator[Page]:
    """A page of a browser that knows nothing; what its scripts complain of is in `complaints`."""
    context = browser.new_context(
        viewport=SIZES[width],
        color_scheme=theme,  # ty: ignore[invalid-argument-type]
        device_scale_factor=scale,
        reduced_motion="reduce",
    )
    context.set_default_timeout(WAIT_MS)
    try:
        yield context.new_page()
    finally:
        context.close()


def log_in(page: Page, url: str, key: str) -> None:
    """Through the form, as a person does."""
    page.goto(f"{url}/login")
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{url}/")
