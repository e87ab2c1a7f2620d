"""`make screenshots`: the pages of a service that is started for it, at both widths and in both themes, as PNG files.

Its runs are those of a scene, with figures as a run of an hour has them. Needs Chromium.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, expect

from shared.schemas import PolicyVersion
from sync_service import migrate
from sync_service.config import SyncConfig
from sync_service.embedded import Services, embedded
from tests.integration.dashboard.browsing import chromium, log_in, tab
from tests.integration.dashboard.house import House, open_house

FOLDER = Path(__file__).parents[3] / "docs" / "images"
SHOTS = {
    "overview": ("/runs/museum-12", "#live"),
    "stalled": ("/runs/atlas-7", "#live"),
    "learning": ("/runs/museum-12/learning", "canvas"),
    "steps": ("/runs/museum-12/steps", "table"),
}
"""By name: the page, and what must be seen on it before its picture is taken."""
KINDS = ((1280, "light"), (1280, "dark"), (390, "light"), (390, "dark"))
OF_ALL_KINDS = ("overview",)
LONGEST = 1500
"""Pixels of height: what is below is left out."""


def main() -> int:
    """Write the files; their names and sizes on stdout."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tandem-screenshots-") as home, asyncio.Runner() as runner:
        Path(home).chmod(0o755)
        running = embedded(Path(home))
        services = runner.run(running.__aenter__())
        try:
            _take(services, Path(home))
        finally:
            runner.run(running.__aexit__(None, None, None))
    return 0


def _take(services: Services, home: Path) -> None:
    migrate.upgrade(services.database_url)
    config = SyncConfig(database_url=services.database_url, redis_url=services.redis_url, disk_folder=home, stall_s=240)
    with open_house(config) as house:
        house.do(_museum(house))
        house.do(_atlas(house))
        with chromium() as browser:
            for name, (path, seen) in SHOTS.items():
                for width, theme in KINDS if name in OF_ALL_KINDS else KINDS[::3]:
                    house.do(_alive(house))
                    file = FOLDER / f"dashboard-{name}-{width}-{theme}.png"
                    _shoot(browser, house, path, seen, file, width, theme)
                    print(f"{file.name}: {file.stat().st_size // 1024} KB")


def _shoot(browser: Browser, house: House, path: str, seen: str, file: Path, width: int, theme: str) -> None:
    with tab(browser, width, theme, 1 if width > 1000 else 1.5) as page:
        log_in(page, house.url, house.operator)
        page.goto(house.url + path)
        expect(page.locator(seen).first).to_be_visible()
        page.wait_for_load_state("load")
        page.screenshot(path=file, full_page=True)
    with Image.open(file) as picture:
        cut = picture.convert("RGB").crop((0, 0, picture.width, min(picture.height, LONGEST)))
        cut.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(file, optimize=True)


async def _museum(house: House) -> None:
    """A run that goes on: step 61 is trained, step 62 is rolled out."""
    scene = house.scene("museum-12")
    await scene.begin(steps=200, groups_per_step=8, rollouts_per_group=8, min_rollouts=6, d_max=6, lease_ttl_s=900.0)
    await scene.steps(60)
    await scene.fill(61)
    await scene.train("planner")
    await scene.trainers["executor"].lease()
    await scene.spread(74)
    groups = [await scene.build.open(62, index) for index in range(6)]
    slots = [(group, slot) for place, group in enumerate(groups) for slot in range(8 - 2 * place if place < 4 else 0)]
    await scene.build.report(*(scene.build.rollout(group, slot) for group, slot in slots))


async def _atlas(house: House) -> None:
    """A run whose executor died six minutes ago."""
    scene = house.scene("atlas-7", seed=9)
    await scene.begin(steps=40, groups_per_step=4, rollouts_per_group=4)
    await scene.steps(16)
    await scene.fill(17)
    await scene.train("planner")
    await scene.fill(18)
    await scene.spread(360)
    await scene.build.sql(
        "UPDATE deliveries SET ready_at = now() - interval '6 min' WHERE run = 'atlas-7' AND state = 'ready'"
    )
    await scene.build.expire_lease("executor")
    await scene.beat("executor-1", "executor", device="cuda:0", doing="trainer: updating on step 17")
    await scene.build.sql("UPDATE workers SET seen_at = now() - interval '6 min' WHERE run = 'atlas-7'")


async def _alive(house: House) -> None:
    """The workers that live say so."""
    museum, atlas = house.scene("museum-12"), house.scene("atlas-7")
    doing = {
        "planner-1": "rollouts of step 62, 21 of 64; trainer waits for a batch",
        "executor-1": "trainer: step 61, backward; 34 invocations",
    }
    for worker, does in doing.items():
        step = 61 if worker == "planner-1" else 60
        version = PolicyVersion(epoch=1, step=step, updates=step)
        await museum.beat(worker, worker[:-2], device="8 x H200", doing=does, version=version)
    version = PolicyVersion(epoch=1, step=17, updates=17)
    await atlas.beat("planner-1", "planner", device="cuda:0", doing="trainer: waiting for a batch", version=version)


if __name__ == "__main__":
    sys.exit(main())
