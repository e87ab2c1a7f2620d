"""Small drawings in a page: coordinates for SVG, as numbers only. A style attribute would need another policy."""

from collections.abc import Sequence

FILTERS = ("spark", "share")
WIDTH, HEIGHT, EDGE = 100.0, 24.0, 2.0


def spark(values: Sequence[float]) -> str:
    """The points of a polyline in a field of WIDTH x HEIGHT; values that do not differ are a line in its middle."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    across = WIDTH / max(1, len(values) - 1)
    inner = HEIGHT - 2 * EDGE

    def down(value: float) -> float:
        return EDGE + inner * (1 - (value - low) / (high - low) if high > low else 0.5)

    return " ".join(f"{place * across:.1f},{down(value):.1f}" for place, value in enumerate(values))


def share(value: float, whole: float) -> str:
    """The length of a bar in a field of WIDTH; what is not nothing can be seen."""
    if value <= 0 or whole <= 0:
        return "0"
    return f"{max(1.0, WIDTH * min(1.0, value / whole)):.2f}"
