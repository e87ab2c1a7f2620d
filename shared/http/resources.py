"""What a server shows of the machine below it: its clock, and the disk that its data is on."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class Resources(Collector):
    """Read when asked. `folder` is that of the data; while it is not there, nothing is said of the disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        """The clock, then the disk."""
        yield GaugeMetricFamily("tandem_clock_seconds", "The machine's clock, in seconds since 1970.", time.time())
        try:
            disk = shutil.disk_usage(self._folder)
        except OSError:
            return
        yield GaugeMetricFamily("tandem_disk_free_bytes", "Room that is left on the disk of the data.", disk.free)
        yield GaugeMetricFamily("tandem_disk_size_bytes", "Size of the disk that the data is on.", disk.total)
