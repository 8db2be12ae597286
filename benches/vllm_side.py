"""vLLM's side of ``rollout.py``: samples as often as asked for, in an environment of its own.

One argument, a JSON object: ``model``, ``prompts`` (token ids), ``size``, ``new``. Each line on standard input is a
seed; each is answered on standard output by a line of JSON with ``seconds`` and ``tokens``.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main() -> None:
    job = json.loads(sys.argv[1])
    out, sys.stdout = sys.stdout, sys.stderr
    cores = len(os.sched_getaffinity(0))
    os.environ |= {"VLLM_CPU_OMP_THREADS_BIND": f"0-{cores - 1}", "VLLM_CPU_KVCACHE_SPACE": "2", "KMP_BLOCKTIME": "0",
                   "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}  # fmt: skip
    from vllm import LLM, SamplingParams, TokensPrompt

    longest = max(len(prompt) for prompt in job["prompts"]) + job["new"]
    llm = LLM(job["model"], dtype="float32", enforce_eager=True, block_size=32, max_model_len=longest + 1)
    prompts = [TokensPrompt(prompt_token_ids=prompt) for prompt in job["prompts"]]
    print(json.dumps({"ready": True}), file=out, flush=True)
    for line in sys.stdin:
        knobs = SamplingParams(
            n=job["size"], temperature=1.0, top_p=1.0, top_k=0, max_tokens=job["new"], ignore_eos=True,
            seed=int(line), logprobs=0, detokenize=False,
        )  # fmt: skip
        began = time.perf_counter()
        answers = llm.generate(prompts, knobs, use_tqdm=False)
        seconds = time.perf_counter() - began
        tokens = sum(len(one.token_ids) for answer in answers for one in answer.outputs)
        print(json.dumps({"seconds": seconds, "tokens": tokens}), file=out, flush=True)


if __name__ == "__main__":
    main()
