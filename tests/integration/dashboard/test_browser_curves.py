"""Curves and rollouts in a real browser: charts are drawn, runs compared, texts come in, hostile ones stay texts."""

from collections.abc import Generator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from shared.schemas.stream import Heartbeat
from sync_service.config import SyncConfig
from sync_service.owner import Owners
from tests.conftest import empty_database
from tests.integration.dashboard.browsing import SIZES, log_in, tab
from tests.integration.dashboard.house import House, open_house
from tests.integration.dashboard.role_servers import RoleServers

SMALL = {"groups_per_step": 1, "rollouts_per_group": 2, "steps": 9, "d_max": 3}


@pytest.fixture(scope="module")
def house(postgres_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[House]:
    """The service with two runs of four steps; the texts of the last step's rollouts can be had."""
    empty_database(postgres_url)
    folder = tmp_path_factory.mktemp("house")
    config = SyncConfig(database_url=postgres_url, redis_url=redis_url, reaper_s=3600, poll_s=0.05, disk_folder=folder)
    with open_house(config) as house:
        house.do(make(house))
        yield house


async def make(house: House) -> None:
    servers = RoleServers()
    house.app.state.service.owners = Owners(None, servers.transport())
    for seed, name in enumerate(("one", "two")):
        scene = house.scene(name, seed)
        await scene.begin(**SMALL)
        await scene.steps(4)
    build = scene.build
    rollouts = await build.fill(5, calls=2)
    for role in scene.trainers:
        await scene.train(role)
        await house.client.heartbeat("two", f"{role}-1", Heartbeat(role=role, url=f"http://{role}:8701"))
    for rollout in rollouts:
        servers.tell(rollout, "two")


@pytest.fixture
def page(browser: Browser, house: House) -> Generator[Page]:
    """A viewer's page, of which no script may complain."""
    complaints: list[str] = []
    with tab(browser) as page:
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        log_in(page, house.url, house.viewer)
        yield page
    assert complaints == []


def test_both_roles_are_drawn_and_smoothed(page: Page, house: House):
    page.goto(f"{house.url}/runs/one/learning")
    expect(page.locator("#reward .plot canvas")).to_be_visible()
    label = page.locator("#reward .plot").get_attribute("aria-label") or ""
    assert ("planner from" in label, "executor from" in label) == (True, True)
    page.get_by_label("Smoothing").fill("0.9")
    expect(page.locator("#reward .plot canvas")).to_be_visible()
    page.locator("#reward summary").click()
    expect(page.locator("#reward tbody tr")).to_have_count(4)


def test_runs_are_compared(page: Page, house: House):
    page.goto(f"{house.url}/runs/one/learning")
    page.get_by_label("Compare with").fill("two")
    page.get_by_role("button", name="Show").click()
    for name in ("one, planner", "one, executor", "two, planner", "two, executor"):
        expect(page.locator("#reward")).to_contain_text(name)


def test_alignment_is_drawn(page: Page, house: House):
    page.goto(f"{house.url}/runs/one/alignment")
    for chart in ("rows", "calls", "coverage"):
        expect(page.locator(f"#{chart} .plot canvas")).to_be_visible()


@pytest.mark.parametrize("width", SIZES)
def test_from_a_step_to_the_texts_of_a_rollout(browser: Browser, house: House, width: int):
    with tab(browser, width) as page:
        log_in(page, house.url, house.viewer)
        page.goto(f"{house.url}/runs/two/steps")
        page.locator("tbody a").first.click()
        page.locator("tbody a").first.click()
        turns = page.locator(".turns > li")
        expect(turns).to_have_count(4)
        expect(turns.nth(1)).to_contain_text("<script>hacked = 1</script>")
        expect(turns.nth(1).locator(".invocation")).to_have_count(2)
        call = turns.nth(1).locator(".invocation").first
        expect(call.get_by_text("I looked for 0")).to_be_hidden()
        call.locator("summary").press("Enter")
        expect(call.get_by_text("I looked for 0")).to_be_visible()
        expect(call).to_contain_text("trained ×1")
        assert page.evaluate("typeof hacked") == "undefined"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_no_serious_finding_of_axe(browser: Browser, house: House, width: int, theme: str):
    axe = Axe()
    with tab(browser, width, theme) as page:
        log_in(page, house.url, house.viewer)
        for path in ("learning", "learning?runs=one", "alignment", "steps", "steps/5"):
            page.goto(f"{house.url}/runs/two/{path}")
            check(page, axe, path)
        page.locator("tbody a").first.click()
        expect(page.locator(".turns > li")).to_have_count(4)
        check(page, axe, "rollout")


def check(page: Page, axe: Axe, path: str) -> None:
    found = axe.run(page).response["violations"]
    serious = [f for f in found if f["impact"] in ("serious", "critical")]
    assert [(f["id"], [node["html"] for node in f["nodes"]]) for f in serious] == [], path
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
