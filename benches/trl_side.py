"""TRL's side of ``vs_trl.py``: the same job with Hugging Face TRL's GRPOTrainer, in TRL's own environment.

What decides the update is set as in Covey: sequence means over all responses (``loss_type="grpo"``), advantages over
the group's standard deviation, clipping, AdamW's settings, the learning rate of each step. Everything else is TRL's
default, but for gradient checkpointing, which is off because it costs time, and the micro-batch, which the job gives.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from side import REWARDS, Job, Watch, fingerprints, read_job
from torch.optim.lr_scheduler import LambdaLR
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer


class TimedTrainer(GRPOTrainer):
    """Notes how long sampling takes, and what was asked and answered. The learning rates are the job's."""

    def __init__(self, job: Job, **settings: Any) -> None:
        self.job = job
        self.now: dict[str, Any] = {}
        super().__init__(**settings)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        rates = self.job["lrs"]
        peak = self.args.learning_rate
        self.lr_scheduler = LambdaLR(
            optimizer or self.optimizer, lambda step: rates[min(step, len(rates) - 1)] / peak if peak else 1.0
        )
        return self.lr_scheduler

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        began = time.perf_counter()
        made = super()._generate_and_score_completions(inputs)
        self.now["collect_s"] = time.perf_counter() - began
        return made

    def _generate(self, prompts: list[Any]) -> Any:
        began = time.perf_counter()
        made = super()._generate(prompts)
        self.now["sample_s"] = time.perf_counter() - began
        self.now["tokens"] = sum(map(len, made[1]))
        self.now["prompts"] = fingerprints(made[0][:: self.num_generations])
        return made


class Watching(TrainerCallback):
    """Keeps the stopwatch, and shows the weights when it is time to."""

    def __init__(self, watch: Watch, folder: Path) -> None:
        self.watch, self.folder = watch, folder
        self.trainer: Any = None

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.watch.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        now = self.trainer.now
        collected = now.pop("collect_s")
        self.watch.lap(**now)
        self.watch.steps[-1]["train_s"] = self.watch.steps[-1]["step_s"] - collected
        if self.watch.due:
            folder = self.folder / f"step-{len(self.watch.steps):06d}"
            self.trainer.model.save_pretrained(folder)
            self.trainer.processing_class.save_pretrained(folder)
            if not self.watch.go_on(folder):
                control.should_training_stop = True


def make_config(job: Job, folder: Path) -> GRPOConfig:
    """GRPOConfig with the job's settings."""
    config = job["config"]
    sampling, optim = config["sampling"], config["optim"]
    responses = sampling["prompts_per_step"] * sampling["group_size"]
    return GRPOConfig(
        output_dir=str(folder), use_cpu=True, bf16=False, fp16=False, model_init_kwargs={"dtype": "float32"},
        seed=config["run"]["seed"], max_steps=config["run"]["steps"], shuffle_dataset=False,
        per_device_train_batch_size=job["micro"], gradient_accumulation_steps=responses // job["micro"],
        num_generations=sampling["group_size"], max_completion_length=sampling["max_new_tokens"],
        temperature=sampling["temperature"], beta=0.0, loss_type="grpo", scale_rewards="group",
        epsilon=config["loss"].get("clip_low", 0.2), epsilon_high=config["loss"].get("clip_high", 0.2),
        learning_rate=optim["lr"], adam_beta1=optim["betas"][0], adam_beta2=optim["betas"][1],
        adam_epsilon=optim["eps"], weight_decay=optim["weight_decay"], max_grad_norm=optim["max_grad_norm"],
        gradient_checkpointing=False, report_to=[], disable_tqdm=True, save_strategy="no", logging_strategy="no",
        dataloader_pin_memory=False,
    )  # fmt: skip


def make_reward(job: Job, trainer_now: Any) -> Any:
    """The job's reward; it also notes the mean, and how many groups have a signal."""
    score, size = REWARDS[job["reward"]], job["config"]["sampling"]["group_size"]

    def reward(completions: list[Any], answer: list[str], **_: Any) -> list[float]:
        values = score(completions, answer)
        groups = [values[i : i + size] for i in range(0, len(values), size)]
        now = trainer_now()
        now["signal"] = sum(len(set(group)) > 1 for group in groups) / len(groups)
        now["reward"] = sum(values) / len(values)
        return values

    return reward


def train(job: Job, watch: Watch, scratch: Path) -> None:
    """Train as the job says."""
    seen = Watching(watch, scratch / "shown")
    trainer = TimedTrainer(
        job,
        model=job["config"]["model"]["path"],
        reward_funcs=make_reward(job, lambda: seen.trainer.now),
        args=make_config(job, scratch / "out"),
        train_dataset=Dataset.from_list([job["rows"][i] for i in job["order"]]),
        callbacks=[seen],
    )
    seen.trainer = trainer
    for parameter in trainer.model.parameters():
        parameter.detach().sum()  # what is mapped from the file counts as resident once it was read
    watch.loaded()
    trainer.train()


def main() -> None:
    job = read_job()
    watch = Watch(job)
    with contextlib.suppress(OSError):  # if memory runs out, this process is the one to go
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="utf-8")
    torch.set_num_threads(job["config"]["model"]["threads"])
    with tempfile.TemporaryDirectory() as scratch:
        train(job, watch, Path(scratch))
    watch.finish()


if __name__ == "__main__":
    main()
