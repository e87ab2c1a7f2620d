"""This machine: Python, the packages that matter, room on the disk."""

import re
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from shared.cli.doctor.finding import Finding, fail, ok, warn

DISTRIBUTION = "tandem-cotrain"
PACKAGES = ("torch", "transformers", "peft", "ray", "vllm", "sqlalchemy", "psycopg", "redis", "fastapi", "pydantic")
OLDEST_PYTHON = (3, 11)
GIB = 2**30
LITTLE, TOO_LITTLE = 10 * GIB, 1 * GIB
REQUIREMENT = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?>=([0-9.]+)")


def machine(constraints: Path, folder: Path) -> Iterator[Finding]:
    """Everything about this machine; `folder` is where runs are kept."""
    yield _python()
    yield from packages(_minimums(), _pins(constraints))
    yield disk(folder)


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= OLDEST_PYTHON:
        return ok("python", found)
    return fail("python", found, f"install Python {'.'.join(map(str, OLDEST_PYTHON))} or newer")


def packages(minimums: dict[str, str], pins: dict[str, str]) -> Iterator[Finding]:
    """Each of PACKAGES, beside the least version that is needed and the one that was tested."""
    for name in PACKAGES:
        try:
            found = version(name)
        except PackageNotFoundError:
            yield ok(name, "not installed: fine where nothing here needs it")
            continue
        least, pin = minimums.get(name), pins.get(name)
        if least and _numbers(found) < _numbers(least):
            yield fail(name, f"{found}, but at least {least} is needed", f"pip install '{name}>={least}'")
        elif pin and _numbers(found) != _numbers(pin):
            yield warn(name, f"{found}; {pin} is tested", f"pip install '{name}=={pin}', or test yours")
        else:
            yield ok(name, found)


def disk(folder: Path) -> Finding:
    """The room where runs are kept; the nearest folder that exists is looked at."""
    place = next(p for p in (folder.resolve(), *folder.resolve().parents) if p.is_dir())
    free = shutil.disk_usage(place).free
    told = f"{free / GIB:.1f} GiB are free at {place}"
    todo = "make room: checkpoints and trajectories need it, and a full disk stops both servers"
    if free < TOO_LITTLE:
        return fail("disk", told, todo)
    return warn("disk", told, todo) if free < LITTLE else ok("disk", told)


def _minimums() -> dict[str, str]:
    found = (REQUIREMENT.match(line) for line in requires(DISTRIBUTION) or ())
    return {match[1].lower(): match[2] for match in found if match}


def _pins(constraints: Path) -> dict[str, str]:
    lines = constraints.read_text().splitlines() if constraints.is_file() else []
    pairs = (line.partition("#")[0].strip().split("==") for line in lines if "==" in line)
    return {pair[0].strip().lower(): pair[1].strip() for pair in pairs if len(pair) == 2}


def _numbers(text: str) -> tuple[int, ...]:
    """`2.13.0+cpu` -> (2, 13): the numbers before anything else, without zeros at the end."""
    numbers = [int(part) for part in re.match(r"[0-9.]*", text)[0].split(".") if part]  # ty: ignore[not-subscriptable]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
