"""Continuous batching over one model: requests join and leave between tokens.

A step feeds every row in flight: its last sampled token or, where it joins, what is new of its prompt. What a finished
row leaves behind serves the next prompt that begins with it: the next turn of its conversation.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Generator, Tensor
from transformers import PreTrainedModel

from shared.policy.draw import pick
from shared.policy.kv_rows import KeyValueRows, cache_shape
from shared.policy.prefixes import PrefixStore, common
from shared.policy.rows_attention import Fed, Pass, use_rows_attention
from shared.policy.turns import Prompt, Row, Turn

JOINING_TOKENS = 8192
"""New prompt tokens in one step, but for one longer prompt: the decoding rows wait no longer than for these."""
WORTH = 64
"""Tokens worth a step's delay, where a prompt can go on from what another has just been fed; and worth being kept."""


@dataclass(slots=True)
class Counts:
    """Since the start: forward passes, the most rows in one, prompt tokens fed and reused, tokens sampled."""

    steps: int = 0
    largest_batch: int = 0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    tokens: int = 0


class Engine:
    """The rows of one model. `version` is whatever the caller calls its present weights.

    At most `max_rows` run at once, within `cache_bytes` of keys and values, though one always does; what the rows in
    flight leave of that is for those of finished ones. The model attends through the engine from now on.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        max_rows: int,
        cache_bytes: int,
        generator: Generator | None = None,
        version: Any = None,
        counts: Counts | None = None,
    ) -> None:
        self.version, self.counts = version, counts or Counts()
        self._model, self._max_rows, self._cache_bytes, self._generator = model, max_rows, cache_bytes, generator
        self._block = KeyValueRows(cache_shape(model))
        self._kept = PrefixStore()
        self._waiting: dict[Hashable, Row] = {}
        self._rows: list[Row] = []
        use_rows_attention(model)

    @property
    def unanswered(self) -> int:
        """Requests that wait or run."""
        return len(self._waiting) + len(self._rows)

    def add(self, key: Hashable, prompt: Prompt) -> None:
        """Sample a turn, from the next step on."""
        self._waiting[key] = Row.of(key, prompt)

    @torch.inference_mode()
    def cancel(self, key: Hashable) -> None:
        """Forget a request; its place is free at once."""
        self._waiting.pop(key, None)
        for place in [place for place, row in enumerate(self._rows) if row.key == key]:
            self._leave(place)

    def renew(self, version: Any) -> None:
        """The weights have changed: rows in flight are fed again, and nothing that the old ones made is kept."""
        for row in self._rows:
            row.turn.close_span(self.version)
        self._waiting = {row.key: row for row in self._rows} | self._waiting
        self._empty()
        self.version = version

    def give_up(self) -> list[Hashable]:
        """After a step that failed: forget all requests, and what was kept; returns whose they were."""
        keys = [row.key for row in self._rows] + list(self._waiting)
        self._waiting.clear()
        self._empty()
        return keys

    @torch.inference_mode()
    def step(self) -> list[tuple[Hashable, Turn]]:
        """Sample one token for each row; returns the turns that have ended. After an error, `give_up`."""
        self._join()
        if not self._rows:
            return []
        fed = [Fed(row.past, len(row.ids) - row.past) for row in self._rows]
        logits = self._forward(fed)
        tokens, logprobs = pick(logits, [row.prompt.temperature for row in self._rows], self._generator)
        for place, (row, new) in enumerate(zip(self._rows, fed, strict=True)):
            row.past += new.count
            if new.count > WORTH:
                self._keep(place)
            row.append(tokens[place], logprobs[place])
        self.counts.steps += 1
        self.counts.largest_batch = max(self.counts.largest_batch, len(fed))
        self.counts.tokens += len(fed)
        return list(self._ended())

    def _empty(self) -> None:
        self._rows = []
        self._block = KeyValueRows(self._block.shape)
        self._kept.clear()

    def _join(self) -> None:
        """Give waiting requests a place, oldest first, as long as there is room."""
        wave: list[Row] = []
        left = JOINING_TOKENS
        for row in list(self._waiting.values()):
            if not self._room(wave, row):
                break
            row.past, row.source = self._kept.match(tuple(row.ids))
            new = len(row.ids) - row.past
            if wave and new > left:
                break
            if new > WORTH and self._keeps(row) and any(common(row.ids, o.ids) >= row.past + WORTH for o in wave):
                continue  # in the next step it can begin with what the other is fed in this one
            left -= new
            wave.append(row)
        if wave:
            self._place(sorted(wave, key=lambda row: len(row.ids) - row.past))

    def _room(self, wave: list[Row], row: Row) -> bool:
        rows = [*self._rows, *wave, row]
        longest = max(row.end for row in rows)
        fits = len(rows) * self._block.width(longest) <= self._cache_bytes
        return len(rows) == 1 or (len(rows) <= self._max_rows and fits)

    def _keeps(self, row: Row) -> bool:
        return self._block.width(len(row.ids)) <= self._cache_bytes - self._block.bytes

    def _place(self, wave: list[Row]) -> None:
        states = [self._kept.get(row.source) if row.source else None for row in wave]
        count = len(self._rows)
        longest = max(row.end for row in [*self._rows, *wave])
        self._reserve(count + len(wave), longest)
        self._kept.shrink(self._cache_bytes - self._block.bytes)
        for place, (row, kept) in enumerate(zip(wave, states, strict=True), start=count):
            if kept is not None:
                self._block.put(place, kept, row.past)
            self.counts.reused_tokens += row.past
            self.counts.prompt_tokens += len(row.ids) - row.past
            del self._waiting[row.key]
        self._rows += wave

    def _reserve(self, rows: int, longest: int) -> None:
        """Twice the rows where there are too few, so that they seldom are; but half of the room stays for the kept."""
        ample = min(self._max_rows, max(rows, 2 * self._block.rows)) if rows > self._block.rows else rows
        fits = ample * self._block.width(longest) <= self._cache_bytes // 2
        self._block.reserve(rows, longest, used=len(self._rows), ample=ample if fits else rows)

    def _forward(self, fed: list[Fed]) -> Tensor:
        """Logits [rows, vocabulary] after each row's last token."""
        layout = Pass(self._block, fed)
        new = [token for row in self._rows for token in row.ids[row.past :]]
        last: int | Tensor = 0  # all of them
        if len(new) > len(fed):
            last = torch.tensor(list(accumulate(f.count for f in fed)), device=self._model.device) - 1
        output = self._model(
            input_ids=torch.tensor([new], device=self._model.device),
            position_ids=layout.positions,
            use_cache=False,
            logits_to_keep=last,
            rows=layout,
        )
        return output.logits[0]

    def _ended(self) -> Iterator[tuple[Hashable, Turn]]:
        for place in range(len(self._rows) - 1, -1, -1):
            row = self._rows[place]
            if row.turn.finish:
                row.turn.close_span(self.version)
                self._keep(place)
                self._leave(place)
                yield row.key, row.turn

    def _keep(self, place: int) -> None:
        row = self._rows[place]
        ids = tuple(row.ids[: row.past])
        self._kept.keep(ids, self._block.take(place, row.past), row.source)
        if self._kept.bytes > self._cache_bytes - self._block.bytes and 4 * len(self._rows) <= self._block.rows:
            self._block.shrink(2 * len(self._rows))  # of a burst that is over: what is kept needs the room
        self._kept.shrink(self._cache_bytes - self._block.bytes)
        row.source = ids

    def _leave(self, place: int) -> None:
        """The last row moves into the place of the one that leaves."""
        last = self._rows.pop()
        if place < len(self._rows):
            self._block.move(len(self._rows), place, last.past)
            self._rows[place] = last
