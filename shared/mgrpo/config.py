"""Which of the published variants of the objective a trainer takes (M-GRPO, arXiv 2511.13288, Eqs 14-19). No torch."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from shared.config import Config

PRESETS = {"paper": {"eps_low": 0.2, "eps_high": 0.2}}
Positive = Annotated[float, Field(gt=0)]


class ObjectiveConfig(Config):
    """Which of the published variants. What a variant has no use for is refused by name, never ignored.

    `preset`: `paper` is the paper's symmetric clip; a key that is also given wins over it.
    `old`: `sampled` (rho from the log-probs recorded at sampling) or `recomputed` (the trainer's own, with TIS).
    `ratio`: `token`, or `sequence`, the paper as written: rho from the summed difference, no length normalisation.
    `loss_norm`: `sequence` (GRPO; what unset means), `token` (DAPO) or `constant` (Dr. GRPO, over `constant_length`).
    """

    preset: Literal["paper"] | None = None
    old: Literal["sampled", "recomputed"] = "sampled"
    ratio: Literal["token", "sequence"] = "token"
    loss_norm: Literal["sequence", "token", "constant"] | None = None
    eps_low: Annotated[float, Field(ge=0, lt=1)] = 0.2
    eps_high: Annotated[float, Field(ge=0)] = 0.28
    kl_coef: Annotated[float, Field(ge=0)] = 0.0
    tis_cap: Positive | None = None
    constant_length: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, values: Any) -> Any:
        name = values.get("preset") if isinstance(values, dict) else None
        return PRESETS.get(name, {}) | values if isinstance(name, str) else values

    @model_validator(mode="after")
    def _nothing_is_ignored(self) -> "ObjectiveConfig":
        if self.ratio == "sequence":
            given = {"tis_cap": self.tis_cap, "kl_coef": self.kl_coef or None, "loss_norm": self.loss_norm}
            refused = [name for name, value in given.items() if value is not None]
            if refused:
                raise ValueError(f"ratio 'sequence' has no {', '.join(refused)}: leave it unset")
            if self.old == "recomputed":
                raise ValueError("ratio 'sequence' has no old 'recomputed', which weighs tokens by TIS")
        if self.old == "sampled" and self.tis_cap is not None:
            raise ValueError("tis_cap goes with old 'recomputed': old 'sampled' corrects for the sampler by its ratio")
        if self.old == "recomputed" and self.tis_cap is None:
            raise ValueError("old 'recomputed' needs tis_cap, for example 2.0")
        if (self.loss_norm == "constant") != (self.constant_length is not None):
            raise ValueError("loss_norm 'constant' needs constant_length, and no other loss_norm has it")
        return self
