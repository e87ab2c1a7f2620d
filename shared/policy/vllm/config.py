"""Where the vLLM server is that samples, and how far its log-probs may be from the trainer's."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from shared.config import Config, Url

OURS = (
    *("--model", "--uds", "--host", "--port", "--served-model-name", "--dtype", "--seed", "--max-num-seqs"),
    *("--logprobs-mode", "--generation-config", "--kv-cache-memory-bytes", "--enable-scale-out", "--api-key"),
)
"""Arguments of the server that follow from the rest of the configuration."""
REMOTE = {"folder", "key_file", "mirror_url", "mirror_key_file"}
Seconds = Annotated[float, Field(gt=0)]


class VllmConfig(Config):
    """Either `python` starts the server here, as a child, or it runs already, at `url`."""

    python: Path | None = None
    """The interpreter of an environment that holds vLLM: not ours, as its pins conflict with ours."""
    arguments: tuple[str, ...] = ()
    """Further arguments of the server that is started here, such as "--tensor-parallel-size=2"."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Further environment variables of it, such as CUDA_VISIBLE_DEVICES."""
    url: Url | None = None
    """Of a server on another host, started as docs/vllm.md says."""
    key_file: Path | None = None
    """Its --api-key is in this file; else in $TANDEM_VLLM_KEY, or the file that $TANDEM_VLLM_KEY_FILE names."""
    folder: Path | None = None
    """A folder that both hosts see under this path: weights go through it."""
    mirror_url: Url | None = None
    """Or, where there is none: a `python -m shared.policy.vllm.mirror` on the server's host, which they are sent to."""
    mirror_key_file: Path | None = None
    """Its key is in this file; else in $TANDEM_MIRROR_KEY, or the file that $TANDEM_MIRROR_KEY_FILE names."""
    start_s: Seconds = 900.0
    """How long the server may take to start, or to answer first."""
    sync_s: Seconds = 900.0
    """How long new weights may take: the turns that run end first, then the weights are read."""
    max_probe_gap: Annotated[float, Field(gt=0)] | None = None
    """What its log-probs may differ from the trainer's after new weights, on average over the probe's tokens, in nats;
    unset: 0.001 for float32, 0.1 for bfloat16."""

    @model_validator(mode="after")
    def _one_server(self) -> "VllmConfig":
        if (self.python is None) == (self.url is None):
            raise ValueError("either python starts the server here, or url names one that runs: set one of the two")
        if self.url and (self.arguments or self.environment):
            raise ValueError(
                "arguments and environment are those of a server that python starts: url has no use for them"
            )
        if self.url and (self.folder is None) == (self.mirror_url is None):
            raise ValueError("with url, set one of folder, which both hosts see, and mirror_url: weights go through it")
        if self.python and (named := self.model_fields_set & REMOTE):
            raise ValueError(f"{', '.join(sorted(named))}: for a server at url, python has no use for them")
        if self.mirror_key_file and not self.mirror_url:
            raise ValueError("mirror_key_file has no use without mirror_url")
        for argument in self.arguments:
            if argument.partition("=")[0].replace("_", "-") in OURS:  # vLLM takes either
                raise ValueError(f"arguments: {argument} follows from the rest of the configuration")
        return self
