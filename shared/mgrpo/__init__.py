"""The M-GRPO algorithm (arXiv 2511.13288 v2): rewards, advantages, objective, staleness, pilot. Pure; no I/O."""
