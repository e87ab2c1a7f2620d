"""Answers to whether a trainer may take its optimiser step."""


async def always() -> bool:
    """It may."""
    return True


async def never() -> bool:
    """It may not."""
    return False
