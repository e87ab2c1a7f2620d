"""`python -m shared.policy.vllm.mirror --folder DIR`: takes weights over HTTP, on the host of a vLLM server.

For where the two hosts share no folder. Each file comes with its sha256, and is there once its bytes have it. A new
folder takes the place of the one before: what is reloaded is read once. Folders of other names are left alone.
"""

import asyncio
import hashlib
import re
import secrets
import shutil
import sys
from argparse import ArgumentParser
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Header, Request

from shared.errors import InvalidInput, StorageFull, TandemError, Unauthorized, UserError, from_os_error
from shared.http.problems import install_problems
from shared.http.serve import configure_logs, serve
from shared.serving.secrets import secret

FOLDER = re.compile(r"\d{1,20}\.\d{1,20}\.\d{1,20}", re.ASCII)
"""A version of the weights, as `loader.version_name` writes it: no other folder is written, or removed."""
FILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


def create_app(root: Path, key: str) -> FastAPI:
    """The app that writes below `root` for those who know `key`."""
    app = FastAPI(title="Tandem's mirror of weights", docs_url=None, redoc_url=None, openapi_url=None)
    install_problems(app)

    @app.put("/v1/folders/{folder}/{file}")
    async def put(
        folder: str,
        file: str,
        request: Request,
        x_checksum: Annotated[str, Header(pattern=r"^[0-9a-f]{64}$")],
        authorization: Annotated[str, Header()] = "",
    ) -> dict[str, str]:
        """Store one file; answers where its folder is on this host."""
        if not secrets.compare_digest(authorization.encode(), f"Bearer {key}".encode()):
            raise Unauthorized
        if not (FOLDER.fullmatch(folder) and FILE.fullmatch(file)):
            raise InvalidInput("a folder is named by a version, such as 1.2.2, and a file has a plain name")
        place = root / folder
        if not place.is_dir():
            await asyncio.to_thread(_replace_all, root, place)
        await _store(place / file, request.stream(), x_checksum)
        return {"folder": str(place)}

    return app


async def _store(target: Path, data: AsyncIterator[bytes], checksum: str) -> None:
    partial, digest = target.with_name(f".partial-{target.name}"), hashlib.sha256()
    try:
        with partial.open("wb") as write:
            async for chunk in data:
                digest.update(chunk)
                await asyncio.to_thread(write.write, chunk)
        if digest.hexdigest() != checksum:
            raise InvalidInput(f"{target.name} came with another checksum than it was sent with")
        await asyncio.to_thread(partial.rename, target)
    except OSError as error:
        raise StorageFull(f"{target.name} cannot be stored: {error.strerror}") from None
    finally:
        await asyncio.to_thread(partial.unlink, missing_ok=True)


def _replace_all(root: Path, place: Path) -> None:
    for old in root.iterdir():
        if FOLDER.fullmatch(old.name) and old.is_dir():
            shutil.rmtree(old)
    place.mkdir(exist_ok=True)


def main() -> int:
    """Serve until a signal; a user's mistake is one line and exit code 2."""
    parser = ArgumentParser("mirror", description="Takes weights over HTTP, on the host of a vLLM server.")
    parser.add_argument("--folder", type=Path, required=True, help="where they go; vLLM reads them there")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8790)
    parser.add_argument("--key-file", type=Path, help="the key that callers must know; else $TANDEM_MIRROR_KEY")
    arguments = parser.parse_args()
    try:
        key = secret("MIRROR_KEY", arguments.key_file)
        if key is None:
            raise UserError("a key is needed: --key-file, $TANDEM_MIRROR_KEY or $TANDEM_MIRROR_KEY_FILE")
        arguments.folder.mkdir(parents=True, exist_ok=True)
        configure_logs()
        serve(create_app(arguments.folder.absolute(), key), arguments.host, arguments.port)
    except (TandemError, OSError) as error:
        fault = from_os_error(error) if isinstance(error, OSError) else error
        print(f"mirror: {fault.detail}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
