"""The page about scale has the table that its script prints, and the script counts as the page says."""

from dataclasses import replace
from pathlib import Path

import pytest

from docs.scale.table import Costs, Load, predict, table
from tests.integration.docs.markdown import ROOT

COSTS = Costs(sampling_tokens_per_s=100, training_tokens_per_s=100, turnover_s=1, service_ms=10, bytes=100)
LOAD = Load(
    groups=1,
    rollouts_per_group=10,
    calls=2,
    planner_sampled=10,
    planner_tokens=20,
    executor_sampled=10,
    executor_tokens=20,
)


def test_the_page_has_the_table_of_today():
    assert table(Costs()) in Path(ROOT / "docs/scale.md").read_text(), "put what docs/scale/table.py prints there"


def test_pools_that_overlap_take_as_long_as_the_slowest_and_else_as_both():
    step = predict(LOAD, COSTS)
    parts = {"planner sampler": 1, "executor sampler": 2, "planner trainer": 2, "executor trainer": 4}
    assert step.parts == pytest.approx(parts | {"sync service": 0.3})
    assert (step.step_s, step.first) == (pytest.approx(5), "executor trainer")
    assert predict(replace(LOAD, staleness=0), COSTS).step_s == pytest.approx(7)


def test_replicas_and_shards_take_their_share_until_the_sync_service_is_the_limit():
    assert predict(replace(LOAD, samplers=2, shards=4), COSTS).parts["executor trainer"] == pytest.approx(1)
    loaded = predict(replace(LOAD, samplers=1000, shards=1000), replace(COSTS, turnover_s=0))
    assert (loaded.first, loaded.step_s) == ("sync service", pytest.approx(0.3))
