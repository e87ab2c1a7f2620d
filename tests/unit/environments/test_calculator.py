import pytest

from shared.environments.atlas.calculator import calculate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1+2)*3", 9),
        ("-4 // 3", -2),
        ("7 % 4", 3),
        ("2 ** 10", 1024),
        ("1.5 / 2", 0.75),
        ("+-+3", -3),
    ],
)
def test_arithmetic(expression, value):
    assert calculate(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('true')",
        "(1).__class__",
        "[1][0]",
        "a + 1",
        "True + 1",
        "'a' * 3",
        "1 if 1 else 2",
        "lambda: 1",
        "1 < 2",
        "3j",
        "",
        "1 +",
        "1; 2",
    ],
)
def test_what_is_no_arithmetic_is_refused(expression):
    with pytest.raises(ValueError, match=r"arithmetic|only numbers"):
        calculate(expression)


@pytest.mark.parametrize("expression", ["9 ** 9 ** 9", "10 ** 65", "1e308 * 10", "(-8) ** 0.5", "2 ** -100", "9" * 150])
def test_what_is_too_large_is_refused(expression):
    with pytest.raises(ValueError, match="too large"):
        calculate(expression)


def test_division_by_zero_is_said():
    with pytest.raises(ValueError, match="division by zero"):
        calculate("1 / 0")


@pytest.mark.parametrize("expression", ["(" * 5000, "-" * 150 + "1" * 100, "1+" * 101])
def test_a_long_expression_is_refused(expression):
    with pytest.raises(ValueError, match="characters"):
        calculate(expression)


def test_deep_nesting_within_the_length_is_harmless():
    assert calculate("(" * 90 + "1" + ")" * 90) == 1
