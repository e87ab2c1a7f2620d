"""docs/tutorial-models.md: its configuration is one that a server accepts, and is whole."""

import tomllib

from shared.config import parse
from shared.policy.config import PolicyConfig
from tests.integration.docs.markdown import ROOT, blocks

(BLOCK,) = blocks(ROOT / "docs" / "tutorial-models.md", "toml")
UNSHOWN = {
    "policy": {"seed"},
    "trainer": {"betas", "eps"},
    "objective": {"preset", "tis_cap", "constant_length"},
}
"""Keys that the page leaves to the code."""


def test_the_section_is_accepted_and_whole():
    table = tomllib.loads(BLOCK.text)["policy"]
    policy = parse(PolicyConfig, table)
    sections = {"policy": policy, "trainer": policy.trainer, "objective": policy.trainer.objective}
    sections |= {"checkpoints": policy.checkpoints, "store": policy.store}
    shown = {name: section.model_fields_set for name, section in sections.items()}
    for name, section in sections.items():
        assert shown[name] | UNSHOWN.get(name, set()) == set(type(section).model_fields)
