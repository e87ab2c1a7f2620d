"""A vLLM server as a policy's sampler. This is a client of it, over HTTP: nothing here imports vllm, or torch."""
