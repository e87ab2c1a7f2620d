"""Training curves as TensorBoard's event files, by tensorboardX: it needs neither TensorFlow nor TensorBoard."""

from collections.abc import Mapping
from pathlib import Path

from shared.errors import UserError, from_os_error
from shared.schemas import Role

MISSING = "metrics.tensorboard needs tensorboardX: pip install 'tandem-cotrain[tensorboard]'"


class TensorBoardSink:
    """One role's curves, in a folder of their own; a thread of the library writes them."""

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboardX import SummaryWriter  # an extra, and slow to import: it brings torch along
        except ImportError:
            raise UserError(MISSING) from None
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise from_os_error(error) from None
        self._open = lambda step, file: SummaryWriter(str(folder), purge_step=step, filename_suffix=f".{file}")
        self._writer = None
        self._files = self._last = 0

    def record(self, role: Role, step: int, values: Mapping[str, float]) -> None:
        """One point a statistic. A step that is trained again begins a new file, which takes back the later points."""
        if self._writer is None or step <= self._last:
            self.close()
            self._files += 1  # a file is named by the second in which it begins: two must not have one name
            self._writer = self._open(step, self._files)
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._last = step

    def close(self) -> None:
        """Write what is not written yet."""
        if self._writer is not None:
            self._writer.close()
