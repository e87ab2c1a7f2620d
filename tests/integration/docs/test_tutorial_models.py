"""docs/tutorial-models.md: its configuration is one that a server accepts, and is whole."""

import tomllib

from shared.config import Config, parse
from shared.policy.config import LoraConfig, PolicyConfig
from tests.integration.docs.markdown import ROOT, blocks

(BLOCK,) = blocks(ROOT / "docs" / "tutorial-models.md", "toml")
UNSHOWN = {
    "policy": {"seed", "cache_mib", "sampler", "vllm", "pool"},
    "trainer": {"betas", "eps", "max_gap"},
    "objective": {"preset", "tis_cap", "constant_length"},
}
"""Keys that the page leaves to the code, and to other pages."""


def test_the_section_is_accepted_and_whole():
    table = tomllib.loads(BLOCK.text)["policy"]
    policy = parse(PolicyConfig, table)
    sections: dict[str, Config] = {
        "policy": policy,
        "trainer": policy.trainer,
        "objective": policy.trainer.objective,
        "lora": policy.trainer.lora or LoraConfig(),
        "checkpoints": policy.checkpoints,
        "store": policy.store,
    }
    for name, section in sections.items():
        assert section.model_fields_set | UNSHOWN.get(name, set()) == set(type(section).model_fields)
