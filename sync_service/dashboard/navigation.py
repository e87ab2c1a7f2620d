"""The pages of a run, in the order of their tabs."""

from dataclasses import dataclass

TABS = (
    ("Overview", ""),
    ("Learning", "/learning"),
    ("Alignment", "/alignment"),
    ("Steps", "/steps"),
    ("Events", "/events"),
)


@dataclass(frozen=True, slots=True)
class Tab:
    """One of them; `current`: the page is this one, or lies below it."""

    name: str
    path: str
    current: bool


def tabs(run: str, here: str) -> tuple[Tab, ...]:
    """The tabs of a run's page whose path is `here`."""
    root = f"/runs/{run}"
    return tuple(
        Tab(name, root + end, here == root + end or (end != "" and here.startswith(f"{root}{end}/")))
        for name, end in TABS
    )
