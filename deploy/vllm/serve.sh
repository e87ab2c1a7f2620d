#!/usr/bin/env bash
# Starts vLLM's server for one role, as docs/vllm.md says; further arguments are vLLM's own. Its key is in a file.
set -euo pipefail
VLLM_API_KEY=$(cat /run/secrets/vllm_key)
export VLLM_API_KEY
exec python3 -m vllm.entrypoints.openai.api_server --model /weights/initial --served-model-name policy \
  --host 0.0.0.0 --port 8000 --logprobs-mode processed_logprobs --generation-config vllm --enable-scale-out "$@"
