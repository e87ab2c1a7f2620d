"""A real Prometheus scrapes the three real services, and runs every expression of the alerts and of the dashboard.

One run is recorded, and each test looks at one thing. A second run stands still, so that what is scraped of it is
there however fast the first one is.
"""

import asyncio
import re
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgi_lifespan import LifespanManager
from fastapi import FastAPI

from shared.http.keys import new_key
from shared.schemas.stream import Heartbeat
from sync_service import reaper, store
from sync_service.app import create_app
from sync_service.config import SyncConfig
from tests.conftest import empty_database
from tests.event_files import points
from tests.integration.docs.markdown import ROOT
from tests.integration.observability.expressions import expressions, named
from tests.integration.observability.prometheus import Api, promtool, running, write_configuration
from tests.integration.servers.trio import Trio, answers, calls, trio
from tests.integration.sync.builder import Builder
from tests.listening import listening
from tests.waiting import until

EXPRESSIONS = expressions()
NEEDED = {name for expression in EXPRESSIONS.values() for name in named(expression)}


@dataclass
class Record:
    """What was seen of Prometheus and of the services behind it."""

    up: dict[str, str]
    names: set[str]
    errors: dict[str, str | None]
    rules: list[dict[str, Any]]
    texts: dict[str, str]
    curves: Path

    def types(self) -> dict[str, str]:
        """The type of every metric of ours that is exposed."""
        pattern = re.compile(r"^# TYPE (tandem_\w+) (\w+)$", re.MULTILINE)
        return {name: kind for text in self.texts.values() for name, kind in pattern.findall(text)}


async def standing_still(servers: Trio) -> None:
    """A run with an open group, ready deliveries, a leased stream, a confirmed version, and a worker that is lost."""
    build = await Builder(servers.sync, servers.client, run="still").declare()
    await build.fill(1)
    await build.open(2)
    trainer = build.trainer("planner")
    await trainer.resume()
    await trainer.confirm(0)
    await servers.client.heartbeat("still", "gone", Heartbeat(role="executor", url="http://gone"))
    await build.sql("UPDATE workers SET seen_at = now() - interval '1 hour' WHERE worker = 'gone'")
    await reaper.detect(servers.sync.state.service)


async def record_run(database: str, redis_url: str, folder: Path) -> Record:
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(trio(database, redis_url, folder))
        curves = {"tensorboard": folder / "curves"}
        executor = await servers.start_executor({**answers(), **calls("executor")}, metrics=curves)
        planner = await servers.start_planner({**answers(), **calls("planner")}, metrics=curves)
        apps = {"tandem-sync": servers.sync, "tandem-planner": planner, "tandem-executor": executor}
        urls = {job: await stack.enter_async_context(listening(app)) for job, app in apps.items()}
        configuration = write_configuration(folder / "prometheus", urls, key="not looked at: loopback")
        promtool("check", "config", str(configuration))
        api = await stack.enter_async_context(running(configuration))
        await standing_still(servers)
        await servers.declare(steps=2, groups_per_step=4, rollouts_per_group=8)
        await servers.finished()
        await patiently(lambda: whole(api))
        samples, _ = await api.query("up")
        http = await stack.enter_async_context(httpx.AsyncClient())
        return Record(
            up={sample["metric"]["job"]: sample["value"][1] for sample in samples},
            names=await api.names(),
            errors={name: (await api.query(expression))[1] for name, expression in EXPRESSIONS.items()},
            rules=await api.rules(),
            texts={job: (await http.get(f"{url}/metrics")).text for job, url in urls.items()},
            curves=folder / "curves" / servers.run,
        )


async def whole(api: Api) -> bool:
    """Whether everything that an expression names was scraped, and every rule has had its turn."""
    return await api.names() >= NEEDED and all(rule["health"] != "unknown" for rule in await api.rules())


async def patiently(condition: Callable[[], Any]) -> None:
    """Wait for it; what is missing in the end, the tests name."""
    try:
        await until(condition)
    except TimeoutError:
        return


@pytest.fixture(scope="module")
def record(postgres_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Record:
    empty_database(postgres_url)
    return asyncio.run(record_run(postgres_url, redis_url, tmp_path_factory.mktemp("observed")))


def test_all_three_services_are_scraped(record: Record) -> None:
    assert record.up == {"tandem-sync": "1", "tandem-planner": "1", "tandem-executor": "1"}


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_an_expression_runs_and_names_series_that_are_there(record: Record, where: str) -> None:
    assert record.errors[where] is None
    assert named(EXPRESSIONS[where]), "it names no series"
    assert named(EXPRESSIONS[where]) - record.names == set()


def test_every_rule_was_evaluated(record: Record) -> None:
    assert record.rules
    assert {rule["name"]: rule.get("lastError") for rule in record.rules if rule["health"] != "ok"} == {}


def test_names_and_help_texts_follow_the_conventions(record: Record) -> None:
    for text in record.texts.values():
        assert promtool("check", "metrics", text=text) == ""
    for name, kind in record.types().items():
        assert name.endswith("_total") == (kind == "counter"), name


def test_the_table_of_the_page_names_every_metric_and_no_other(record: Record) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    rows = re.findall(r"^\| (`tandem_[^|]*) \|", page, flags=re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(tandem_\w+)`", row)]
    assert sorted(listed) == sorted(record.types())


def test_a_run_that_is_over_has_no_series_in_the_sync_service(record: Record) -> None:
    runs = set(re.findall(r'run="([^"]+)"', record.texts["tandem-sync"]))
    assert runs == {"still"}


@pytest.mark.parametrize("role", ["planner", "executor"])
def test_each_role_wrote_its_curves(record: Record, role: str) -> None:
    steps = [step for step, name, _ in points(record.curves / role) if name == "reward_mean"]
    assert steps == [1, 2]


@pytest.fixture
def guarded_app(sync_config: SyncConfig) -> FastAPI:
    return create_app(sync_config.model_copy(update={"auth": "keys"}))


async def test_a_key_of_role_metrics_is_what_prometheus_needs(guarded_app: FastAPI, tmp_path: Path) -> None:
    async with LifespanManager(guarded_app), listening(guarded_app) as url:
        text, key = new_key("metrics")
        await guarded_app.state.service.database.transaction(lambda connection: store.keys.insert(connection, [key]))
        async with running(write_configuration(tmp_path / "right", {"tandem-sync": url}, text)) as api:
            await until(lambda: is_up(api, "1"))
        wrong = write_configuration(tmp_path / "wrong", {"tandem-sync": url}, text[:-1])
        async with running(wrong) as api:
            await until(lambda: is_up(api, "0"))


async def is_up(api: Api, value: str) -> bool:
    samples, _ = await api.query("up")
    return [sample["value"][1] for sample in samples] == [value]
