"""For each alert two of a kind, one that is bad and one that is good: it must fire for the first, and for it alone."""

from dataclasses import dataclass
from typing import Any

BAD, GOOD = "bad", "good"
HOUR = 60


@dataclass(frozen=True)
class Case:
    """`series`: values by labels, where `*` stands for bad and good in turn; `bad` and `good` fill `{}` in a value.

    `labels` and `summary` are what the firing one has; `minutes` is when it is looked at.
    """

    alert: str
    minutes: int
    series: dict[str, str]
    bad: Any
    good: Any
    labels: dict[str, str]
    summary: str

    def inputs(self) -> list[dict[str, str]]:
        """As promtool takes them, once a minute."""
        filled = ((BAD, self.bad), (GOOD, self.good))
        return [
            {"series": series.replace("*", who), "values": values.replace("{}", str(value))}
            for who, value in filled
            for series, values in self.series.items()
        ]


SYNC = '{job="tandem-sync",instance="*"}'
ON_SYNC = {"job": "tandem-sync", "instance": BAD}
ROLE = '{run="*",role="planner"}'
OF_ROLE = {"run": BAD, "role": "planner"}
STILL = "{}+0x200"
GROWS = "0+{}x200"

CASES = [
    Case("TandemSyncDown", 2, {f"up{SYNC}": STILL}, 0, 1, ON_SYNC, "The sync service at bad does not answer."),
    Case(
        "TandemRoleServerDown",
        3,
        {'up{job="tandem-planner",instance="*"}': STILL},
        0,
        1,
        {"job": "tandem-planner", "instance": BAD},
        "tandem-planner at bad does not answer.",
    ),
    Case(
        "TandemDatabaseDown",
        2,
        {f"tandem_sync_database_up{SYNC}": STILL},
        0,
        1,
        ON_SYNC,
        "The sync service at bad cannot reach its database.",
    ),
    Case(
        "TandemDoorbellDown",
        6,
        {f"tandem_sync_doorbell_configured{SYNC}": STILL, f"tandem_sync_doorbell_connected{SYNC}": "0+0x200"},
        1,
        0,  # none was configured, so none is missed
        ON_SYNC,
        "The sync service at bad has lost Redis, and polls instead.",
    ),
    Case(
        "TandemReaperStopped",
        10,
        {'tandem_sync_reaper_rounds_total{job="*",outcome="done"}': GROWS},
        0,
        60,
        {"job": BAD},
        "No process of bad sweeps deadlines.",
    ),
    Case(
        "TandemHighErrorRate",
        12,
        {
            'tandem_http_requests_total{job="*",status="500"}': GROWS,
            'tandem_http_requests_total{job="*",status="200"}': "0+90x200",
        },
        10,
        1,
        {"job": BAD},
        "10% of the requests to bad are answered 5xx.",
    ),
    Case(
        "TandemEventLag",
        12,
        {
            'tandem_sync_event_lag_seconds_bucket{job="*",le="10"}': GROWS,
            'tandem_sync_event_lag_seconds_bucket{job="*",le="60"}': "0+100x200",
            'tandem_sync_event_lag_seconds_bucket{job="*",le="+Inf"}': "0+100x200",
        },
        0,
        100,
        {"job": BAD},
        "Events of bad are told late: p99 is 59.5s.",
    ),
    Case(
        "TandemDiskLow",
        6,
        {f"tandem_disk_free_bytes{SYNC}": STILL, f"tandem_disk_size_bytes{SYNC}": "1000+0x200"},
        50,
        100,
        ON_SYNC,
        "5% of the disk of tandem-sync at bad is free.",
    ),
    Case(
        "TandemClockSkew",
        6,
        {f"tandem_clock_seconds{SYNC}": "{}+60x200"},  # promtool's own clock begins at 0
        -30,
        1,
        ON_SYNC,
        "The clock of tandem-sync at bad is 30s off.",
    ),
    Case(
        "TandemRunStalled",
        2,
        {'tandem_sync_stalls{run="*",code="scores"}': STILL},
        1,
        0,
        {"run": BAD, "code": "scores"},
        "Run bad stands still: scores.",
    ),
    Case(
        "TandemWorkerLost",
        2,
        {'tandem_sync_stalls{run="*",code="worker-lost"}': STILL},
        2,
        0,
        {"run": BAD},
        "2 workers of run bad are lost.",
    ),
    Case(
        "TandemNoLease",
        3,
        {f"tandem_sync_lease_held{ROLE}": STILL, 'tandem_sync_run_state{run="*",state="running"}': "1+0x200"},
        0,
        1,
        OF_ROLE,
        "No trainer holds the planner's stream of run bad.",
    ),
    Case(
        "TandemDeadDelivery",
        2,
        {'tandem_sync_deliveries{run="*",role="planner",state="dead"}': STILL},
        1,
        0,
        OF_ROLE,
        "A delivery to the planner of run bad is dead, and waits for an operator.",
    ),
    Case(
        "TandemGroupOverdue",
        2,
        {'tandem_sync_group_overdue_seconds{run="*"}': STILL},
        90,
        30,
        {"run": BAD},
        "A group of run bad is 1m 30s past its deadline, and not sealed.",
    ),
    Case(
        "TandemReportsPiledUp",
        11,
        {f"tandem_reports_pending{ROLE}": STILL},
        20000,
        200,
        OF_ROLE,
        "20000 reports of the planner of run bad wait in its spool.",
    ),
    Case(
        "TandemReportsRefused",
        5,
        {f"tandem_reports_refused_total{ROLE}": GROWS},
        1,
        0,
        OF_ROLE,
        "The sync service refuses reports of the planner of run bad for good.",
    ),
    Case(
        "TandemNotLearning",
        2 * HOUR,
        {f"tandem_trained_dead_groups_total{ROLE}": GROWS, f"tandem_trained_groups_total{ROLE}": "0+100x200"},
        95,
        80,
        OF_ROLE,
        "95% of the planner's groups in run bad are dead.",
    ),
    Case(
        "TandemLogprobGapHigh",
        11,
        {f"tandem_step_logprob_gap_mean{ROLE}": STILL},
        0.25,
        0.02,
        OF_ROLE,
        "The planner's sampler and trainer of run bad are 0.25 nats apart.",
    ),
    Case(
        "TandemStalenessAtBound",
        31,
        {f"tandem_step_staleness_mean{ROLE}": STILL, 'tandem_sync_run_staleness_bound{run="*"}': "2+0x200"},
        2,
        1.5,
        OF_ROLE,
        "All rows of the planner of run bad are as stale as the run allows.",
    ),
]
