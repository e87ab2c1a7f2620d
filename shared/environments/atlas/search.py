"""Full-text search by BM25 (SQLite FTS5) over the articles of one split; the best three titles, in a drawn order."""

import random
import re
import sqlite3
from collections.abc import Mapping

BEST = 3
TITLE_WEIGHT = 10.0


class SearchIndex:
    """An in-memory index of `articles` (title to body); queries are words, any of which may match."""

    def __init__(self, articles: Mapping[str, str]) -> None:
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute("CREATE VIRTUAL TABLE articles USING fts5(title, body)")
        self._database.executemany("INSERT INTO articles VALUES (?, ?)", articles.items())

    def best(self, query: str) -> list[str]:
        """At most three titles by falling score."""
        words = re.findall(r"[^\W_]+", query)
        if not words:
            return []
        match = " OR ".join(f'"{word}"' for word in words)
        statement = "SELECT title FROM articles WHERE articles MATCH ? ORDER BY bm25(articles, ?, 1.0), rowid LIMIT ?"
        return [title for (title,) in self._database.execute(statement, (match, TITLE_WEIGHT, BEST))]

    def shown(self, query: str, task_id: str) -> list[str]:
        """The best titles in an order drawn from task and query: the first is no better than the others."""
        titles = self.best(query)
        random.Random(f"{task_id}/{query}").shuffle(titles)
        return titles
