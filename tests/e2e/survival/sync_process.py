"""The real sync service as a process, without keys.

python -m tests.e2e.survival.sync_process DATABASE_URL PORT FOLDER
"""

import sys
from pathlib import Path

from shared.http.serve import configure_logs, serve
from sync_service.app import create_app
from sync_service.config import SyncConfig


def main() -> int:
    url, port, folder = sys.argv[1:]
    configure_logs()
    serve(create_app(SyncConfig(auth="loopback", database_url=url, disk_folder=Path(folder))), "127.0.0.1", int(port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
