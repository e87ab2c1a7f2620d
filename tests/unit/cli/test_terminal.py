"""What a terminal would obey is never printed, and JSON is plain ASCII."""

import json
from io import StringIO

import pytest
from rich.console import Console

from shared.cli import terminal
from shared.cli.terminal import clean, one_line, span, table

HOSTILE = {
    "a\x1b[31mred\x1b[0m": "ared",
    "\x1b]0;title\x07text": "text",
    "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\": "link",
    "\x1bP+q\x1b\\after": "after",
    "\x9b2Jcleared": "cleared",
    "\x1b]52;c;ZXZpbA==\x9cclip": "clip",
    "cut off \x1b[": "cut off ",
    "bell\x07 back\x08space\x7f\x00": "bell backspace",
    "over\rwritten": "overwritten",
    "right\u202eleft\u2066mark\u200b": "rightleftmark",
    "half \ud800 pair": "half  pair",
    "kept:\n\ttab, é, 漢, 🙂": "kept:\n\ttab, é, 漢, 🙂",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_only_text_is_left(text: str):
    assert clean(text) == HOSTILE[text]


def test_a_line_stays_one():
    assert one_line(" a\n\nb\x1b[2J\tc ") == "a b c"


def test_markup_is_text():
    out = StringIO()
    shown = Console(file=out, markup=False, emoji=False, highlight=False, width=80)
    shown.print(table(("[bold]column[/]",), [("[red]cell[/red] :smile:",), (None,)]))
    assert [line.rstrip() for line in out.getvalue().splitlines()[:2]] == ["[bold]column[/]", "[red]cell[/red] :smile:"]


def test_json_is_ascii(capsys: pytest.CaptureFixture[str]):
    value = {"text": "\x1b[31m\x9b\u202e\ud800"}
    terminal.print_json(value)
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert "\x1b" not in printed
    assert json.loads(printed) == value


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (150, "2 min"), (7200, "2.0 h"), (200_000, "2.3 days")]
)
def test_a_span_has_the_unit_that_suits_it(seconds: float, text: str):
    assert span(seconds) == text
