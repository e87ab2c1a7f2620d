"""What every role's server is configured with."""

from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from shared.agents.limits import Limits
from shared.config import Config, Url
from shared.http.admission import AdmissionConfig
from shared.http.loopback import Auth, check_host
from shared.ids import Name
from shared.policy.config import PolicyConfig
from shared.policy.types import SamplingParams
from shared.serving.sinks import MetricsConfig


class ServerConfig(Config):
    """The part that the planner's and the executor's server share."""

    run: Name
    """The run it works for. It serves before the run is declared, and trains once it is and its role trains."""
    worker: Name
    """A name that is stable over restarts: a restarted trainer takes its own stream back at once."""
    host: str = "127.0.0.1"
    port: int = Field(ge=1, le=65535)
    public_url: Url | None = None
    """Where others reach this server, if not at http://host:port."""
    auth: Auth = "keys"
    """`keys`: those of `keys_file`; `loopback`: none, and nobody but this machine can call."""
    keys_file: Path | None = None
    """The hashes of the keys that may call this server; read again when it changes."""
    sync_url: Url
    sync_key_file: Path | None = None
    """Where this server's key for the sync service is; else $TANDEM_SYNC_KEY or $TANDEM_SYNC_KEY_FILE."""
    folder: Path
    """Its own data: trajectories, checkpoints, the resolved configuration."""
    environment: str
    """A registered name, or `package.module:Class`."""
    environment_options: dict[str, Any] = Field(default_factory=dict)
    trains: bool = True
    """False: no trainer is started, and a run that trains this role is refused."""
    policy: PolicyConfig
    limits: Limits = Limits()
    admission: AdmissionConfig = AdmissionConfig()
    metrics: MetricsConfig = MetricsConfig()

    @model_validator(mode="after")
    def _guarded(self) -> "ServerConfig":
        if self.auth == "keys" and self.keys_file is None:
            raise ValueError('auth = "keys" needs keys_file; without keys, for this machine only: auth = "loopback"')
        if self.auth == "loopback" and self.keys_file is not None:
            raise ValueError('keys_file has no use with auth = "loopback"')
        check_host(self.auth, self.host)
        return self

    @property
    def url(self) -> str:
        """Where others reach this server."""
        return self.public_url or f"http://{self.host}:{self.port}"

    def sampling(self, temperature: float | None = None) -> SamplingParams:
        """How to sample a turn: for training, or at an evaluation's temperature."""
        chosen = self.policy.temperature if temperature is None else temperature
        return SamplingParams(max_new_tokens=self.limits.max_new_tokens, temperature=chosen)
