"""The pages in a real browser: what each shows, hostile text, a stream that drops, who cannot see or use a mouse."""

from collections.abc import Generator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from shared.http.keys import new_key
from shared.schemas.stream import Heartbeat
from sync_service import store
from sync_service.config import SyncConfig
from tests.conftest import empty_database
from tests.integration.dashboard.browsing import SIZES, log_in, tab
from tests.integration.dashboard.house import House, open_house
from tests.integration.dashboard.scene import Scene

HOSTILE = "<script>hacked = 1</script><img src=x onerror='hacked=1'> \u202eesrever\r\ndata: {{ 7 * 7 }} " + "x" * 300
DROPPED = ("net::ERR_", "[object Event]")
"""What the browser and the extension of htmx say of a connection that is gone, in the test that cuts it."""
SMALL = {"groups_per_step": 1, "rollouts_per_group": 3, "min_rollouts": 2}


@pytest.fixture(scope="module")
def house(postgres_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[House]:
    """The service with four runs: one that goes on, one whose trainer died, a new one, a long one."""
    empty_database(postgres_url)
    folder = tmp_path_factory.mktemp("house")
    config = SyncConfig(database_url=postgres_url, redis_url=redis_url, reaper_s=3600, poll_s=0.05, disk_folder=folder)
    with open_house(config) as house:
        house.do(make(house))
        yield house


async def make(house: House) -> None:
    going, stalled, long = (house.scene(name) for name in ("going", "stalled", "long"))
    await going.begin(steps=50, **SMALL)
    await going.steps(4)
    await going.fill(5)
    await going.build.open(6)
    await going.spread(70)
    for role in ("planner", "executor"):
        await going.beat(f"{role}-1", role, device="cpu", doing="trainer: waiting for a batch")
    await stalled.begin(steps=5, max_attempts=1, **SMALL)
    await stalled.fill(1)
    await stalled.trainers["planner"].delivery()
    await stalled.trainers["planner"].release("trainer-failed")
    await house.scene("new").build.declare(**SMALL)
    await long.begin(steps=24, staleness=2, **SMALL)
    await long.steps(24)
    await long.spread(3600)


@pytest.fixture
def page(browser: Browser, house: House) -> Generator[Page]:
    """A viewer's page; nothing that its scripts complain of may be left, nor anything that the policy refused."""
    complaints: list[str] = []
    with tab(browser) as page:
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        log_in(page, house.url, house.viewer)
        yield page
    assert [text for text in complaints if not any(word in text for word in DROPPED)] == []


def panel(page: Page, name: str):
    return page.locator(f"#{name}")


def test_a_run_that_goes_on_is_shown_and_kept_up_to_date(page: Page, house: House):
    page.goto(f"{house.url}/runs/going")
    expect(page.locator("#live")).to_be_visible()
    expect(panel(page, "figures")).to_contain_text("4 of 50")
    expect(panel(page, "sync").get_by_role("row", name="consumed")).to_contain_text("4")
    expect(panel(page, "policies")).to_contain_text("1.4")
    expect(panel(page, "workers")).to_contain_text("waiting for a batch")
    expect(panel(page, "happened")).to_contain_text("group-closed")

    async def go_on(scene: Scene) -> None:
        for role in scene.trainers:
            await scene.train(role)
        await scene.beat("executor-1", "executor", doing="trainer: updating")

    scene = house.scene("going")
    house.do(resumed(scene))
    house.do(go_on(scene))
    expect(panel(page, "figures")).to_contain_text("5 of 50")
    expect(panel(page, "workers")).to_contain_text("trainer: updating")
    expect(panel(page, "policies")).to_contain_text("2.5")


async def resumed(scene: Scene) -> None:
    """The scene's trainers, as they come back."""
    scene.build.spec = (await scene.build.client.run(scene.build.run)).spec
    for role in scene.build.spec.trained_roles:
        scene.trainers[role] = scene.build.trainer(role)
        await scene.trainers[role].resume(4)


def test_a_stalled_run_says_who_waits_and_an_operator_lets_it_go_on(browser: Browser, house: House):
    with tab(browser) as page:
        log_in(page, house.url, house.operator)
        page.get_by_role("link", name="stalled").click()
        expect(panel(page, "verdict")).to_contain_text("STALLED")
        expect(panel(page, "verdict")).to_contain_text("step 1 is dead after 1 attempts")
        questions: list[str] = []
        page.on("dialog", lambda dialog: (questions.append(dialog.message), dialog.dismiss()))
        page.get_by_role("button", name="Skip").click()
        assert questions == ["Skip step 1 of the planner? Nothing of it is trained on."]
        expect(panel(page, "attention")).to_contain_text("trainer-failed")
        page.get_by_role("button", name="Requeue").press("Enter")
        expect(panel(page, "verdict")).not_to_contain_text("is dead")
        expect(page.get_by_role("button", name="Requeue")).to_have_count(0)


def test_a_new_run_and_a_long_one(page: Page, house: House):
    page.goto(f"{house.url}/runs/new")
    expect(panel(page, "verdict")).to_contain_text("IDLE")
    expect(panel(page, "workers")).to_contain_text("No worker has sent a heartbeat.")
    page.goto(f"{house.url}/runs/long")
    expect(panel(page, "verdict")).to_contain_text("FINISHED")
    expect(panel(page, "figures")).to_contain_text("24 of 24")
    expect(panel(page, "figures").get_by_role("img")).to_have_count(2)
    page.get_by_role("link", name="Events", exact=True).click()
    page.get_by_label("Kind").select_option("run-moved")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("tbody tr")).to_have_count(4)
    expect(page.locator("tbody")).to_contain_text("finished")


@pytest.mark.parametrize("width", SIZES)
def test_hostile_text_is_shown_as_text(browser: Browser, house: House, width: int):
    beat = Heartbeat(role="planner", url=HOSTILE, device=HOSTILE, doing=HOSTILE)
    house.do(house.client.heartbeat("new", "planner-1", beat))
    with tab(browser, width) as page:
        log_in(page, house.url, house.viewer)
        page.goto(f"{house.url}/runs/new")
        expect(page.locator("#live")).to_be_visible()
        expect(panel(page, "workers").locator("bdi").nth(1)).to_contain_text("<script>hacked = 1</script><img src=x")
        house.do(house.client.heartbeat("new", "planner-1", beat.model_copy(update={"doing": f"later {HOSTILE}"})))
        expect(panel(page, "workers")).to_contain_text("later <script>")
        expect(panel(page, "workers")).to_contain_text("data: {{ 7 * 7 }}")
        assert page.evaluate("typeof hacked") == "undefined"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_stream_that_drops_is_told_and_comes_back(page: Page, house: House):
    page.goto(f"{house.url}/runs/new")
    expect(page.locator("#live")).to_be_visible()
    house.do(house.hang_up())
    expect(page.get_by_role("alert")).to_contain_text("Not live.")
    expect(page.get_by_role("alert")).to_contain_text("2 s old")
    expect(page.locator("#live")).to_be_hidden()
    house.do(house.pick_up())
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(page.locator("#live")).to_be_visible()


PAGES = ("/login", "/", "/runs/going", "/runs/stalled", "/runs/new", "/runs/going/events", "/runs/nobody")


@pytest.mark.parametrize(("width", "theme"), [(1280, "dark"), (390, "light")])  # the other two: test_browser_curves.py
def test_no_serious_finding_of_axe(browser: Browser, house: House, width: int, theme: str):
    axe = Axe()
    with tab(browser, width, theme) as page:
        log_in(page, house.url, house.operator)
        for path in PAGES:
            page.goto(house.url + path)
            found = axe.run(page).response["violations"]
            serious = [f for f in found if f["impact"] in ("serious", "critical")]
            assert [(f["id"], [node["html"] for node in f["nodes"]]) for f in serious] == [], path
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_a_page_whose_key_is_revoked_goes_to_the_login(browser: Browser, house: House):
    text, key = new_key("viewer")
    database, ring = house.app.state.service.database, house.app.state.browser_ring
    house.do(database.transaction(lambda connection: store.keys.insert(connection, [key])))
    house.do(ring.refresh())
    with tab(browser) as page:
        log_in(page, house.url, text)
        page.goto(f"{house.url}/runs/new")
        expect(page.locator("#live")).to_be_visible()
        house.do(database.transaction(lambda connection: store.keys.revoke(connection, key.key)))
        house.do(ring.refresh())
        page.wait_for_url(f"{house.url}/login?next=/runs/new")


def test_the_keyboard_reaches_the_content(page: Page, house: House):
    page.goto(f"{house.url}/runs/going")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    expect(page.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    assert page.url.endswith("#content")
