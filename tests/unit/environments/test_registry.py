"""Loading an environment by name, and what is said where that fails."""

import pytest

from shared.environments.atlas import Atlas
from shared.environments.base import Environment, Task, Trace, reward
from shared.environments.registry import load_environment
from shared.errors import UserError


class Nameless(Environment):
    def task(self, split, seed, index):
        return Task("1", "?", "!")

    def correctness(self, task, answer):
        return 0.0

    def expert_score(self, trace):
        return 0.0


class Unjudged(Nameless):
    name = "unjudged"
    correctness = Environment.correctness


class Overweight(Nameless):
    name = "overweight"
    expert_score = Environment.expert_score

    @reward("expert", weight=0.7)
    def one(self, trace: Trace) -> float:
        return 1.0

    @reward("expert", weight=0.7)
    def two(self, trace: Trace) -> float:
        return 1.0


class Abstract(Environment):
    name = "abstract"


def test_by_its_entry_point():
    environment = load_environment("atlas", {"world_seed": 3})
    assert isinstance(environment, Atlas)


def test_by_module_and_class():
    assert load_environment("shared.environments.atlas:Atlas").name == "atlas"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("atlantis", {}, "unknown environment 'atlantis'; known: atlas"),
        ("no.such:Thing", {}, "environment no.such:Thing: there is no module no"),
        ("shared.environments.atlas:Nothing", {}, "shared.environments.atlas has no Nothing"),
        (".atlas:Atlas", {}, "it is written package.module:Class"),
        (":Atlas", {}, "it is written package.module:Class"),
        ("shared.errors:UserError", {}, "no subclass of shared.environments.base.Environment"),
        ("atlas", {"sped": 1}, "unexpected keyword argument 'sped'; its options: world_seed, describe_tools"),
        (f"{__name__}:Nameless", {}, "has no name"),
        (f"{__name__}:Abstract", {}, "lacks task"),
        (f"{__name__}:Unjudged", {}, "it has no correctness: mark methods with @reward('correctness'"),
        (f"{__name__}:Overweight", {}, "the weights of its expert rewards sum to 1.4, not 1"),
    ],
)
def test_a_mistake_is_named(name, options, message):
    with pytest.raises(UserError) as caught:
        load_environment(name, options)
    assert message in caught.value.detail
    assert "\n" not in caught.value.detail
