"""The error tree crosses the wire and comes back as the same class."""

import pytest

from shared import errors


def all_classes(cls: type[errors.TandemError] = errors.TandemError) -> list[type[errors.TandemError]]:
    return [cls, *(c for sub in cls.__subclasses__() if sub.__module__ == errors.__name__ for c in all_classes(sub))]


@pytest.mark.parametrize("cls", all_classes())
def test_a_problem_becomes_the_same_class_again(cls: type[errors.TandemError]):
    problem = cls("what happened", state="open").problem()
    back = errors.from_problem(problem, problem["status"])
    assert type(back) is cls
    assert (back.detail, back.extra) == ("what happened", {"state": "open"})


def test_types_are_unique():
    types = [cls.type for cls in all_classes()]
    assert len(set(types)) == len(types)


def test_without_a_detail_the_docstring_is_the_message():
    assert errors.LeaseLost().problem()["detail"] == "The lease on this stream is held under a newer epoch."


def test_a_subclass_without_a_type_of_its_own_travels_as_its_parent():
    class NoDisk(errors.UserError):
        """There is no disk."""

    assert type(errors.from_problem(NoDisk().problem(), 400)) is errors.UserError


def test_an_unknown_type_is_still_an_error():
    error = errors.from_problem({"type": "urn:tandem:from-the-future", "detail": "x"}, 418)
    assert type(error) is errors.TandemError
