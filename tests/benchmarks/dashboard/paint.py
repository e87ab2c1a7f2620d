"""How soon a person who has logged in sees a page: a real Chromium, up to its first contentful paint."""

import statistics

from playwright.sync_api import Page

from tests.integration.dashboard.browsing import chromium, log_in, tab

PAGES = {
    "runs": "/",
    "overview": "/runs/{run}",
    "learning": "/runs/{run}/learning",
    "alignment": "/runs/{run}/alignment",
    "steps": "/runs/{run}/steps",
    "events": "/runs/{run}/events",
}
FIRST_PAINT = """new Promise(tell => new PerformanceObserver(seen => {
    for (const entry of seen.getEntries()) if (entry.name === 'first-contentful-paint') tell(entry.startTime)
}).observe({type: 'paint', buffered: true}))"""


def painted(url: str, key: str, run: str, samples: int) -> dict[str, float]:
    """Milliseconds from the start of a navigation to its first contentful paint, medians by page."""
    with chromium() as browser, tab(browser) as page:
        log_in(page, url, key)
        return {
            name: statistics.median(_paint(page, url + path.format(run=run)) for _ in range(samples))
            for name, path in PAGES.items()
        }


def _paint(page: Page, address: str) -> float:
    page.goto(address, wait_until="commit")
    return page.evaluate(FIRST_PAINT)
