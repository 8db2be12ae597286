"""The loop: sample, score, credit, batch, update, record; one stage after the other."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from covey.advantages.base import Remembering, check_credited, uncredited
from covey.checkpoint.adapter import load_trained, save_final, save_trained
from covey.checkpoint.state import (
    capture_rng,
    load_optimizer,
    load_state,
    load_tensors,
    restore_rng,
    save_optimizer,
    save_state,
    save_tensors,
)
from covey.checkpoint.store import CheckpointStore
from covey.config import RunConfig
from covey.engines.base import Progress, Telling
from covey.errors import RunFolderError
from covey.kernels.memory import give_back_freed_memory
from covey.loop.build import Workshop
from covey.loop.components import make_update_plan
from covey.loop.evaluate import Evaluation, evaluate
from covey.loop.record import Recorder
from covey.loop.strategies.base import Collected, Desk, verdicts
from covey.loop.update import Trained, train_on
from covey.metrics.memory import peak_memory
from covey.metrics.sampling import sampling_metrics, version_lag
from covey.metrics.step import group_metrics
from covey.observe.view import View, percent
from covey.rewards.base import ScoreContext
from covey.rewards.score import check_failures
from covey.types import CreditedGroup, RunState, Sampling, ScoredGroup, StepRecord


class Run:
    """One training run: the stages of a workshop, its run folder and its counters."""

    def __init__(self, workshop: Workshop, recorder: Recorder, view: View) -> None:
        self.workshop = workshop
        self.recorder = recorder
        self.view = view
        self.step = 0
        self.tokens = 0
        self.noted: set[str] = set()
        self.earlier_seconds = 0.0
        self.started = time.perf_counter()
        self.store = CheckpointStore(recorder.folder.checkpoints, workshop.config.run.keep)

    @property
    def config(self) -> RunConfig:
        return self.workshop.config

    @property
    def seconds(self) -> float:
        """Wall time of this run, of earlier sittings too."""
        return self.earlier_seconds + time.perf_counter() - self.started

    async def train(self) -> dict[str, Any]:
        """Run to the last step and return the summary, which also lies in ``summary.json``."""
        config = self.config
        self.view.start(f"covey · {self.recorder.folder.path}", config.run.steps, self.step)
        if isinstance(self.workshop.engine, Telling):
            self.workshop.engine.listener = self.show_sampling
        for note in self.workshop.notes:
            self.view.note(note)
        try:
            if self.step == 0:
                await self.evaluate()
            while self.step < config.run.steps:
                await self.one_step()
                if self.step < config.run.steps:  # what is due at the end follows below
                    if config.eval.every and self.step % config.eval.every == 0:
                        await self.evaluate()
                    if config.run.save_every and self.step % config.run.save_every == 0:
                        self.save()
            await self.evaluate()
            self.view.stage("saving")
            self.save()
            summary = self.summarise()
            self.recorder.final(
                lambda folder: save_final(folder, self.workshop.policy.model, self.workshop.policy.tokenizer)
            )
            self.recorder.summary(summary)
            return summary
        except asyncio.CancelledError:  # Ctrl-C arrives as this
            done = self.store.steps()
            path = self.recorder.folder.path
            if done:
                self.view.note(f"stopped after step {self.step}; covey resume {path} goes on from step {done[-1]}")
            else:
                self.view.note(f"stopped after step {self.step}, before the first checkpoint (see run.save_every)")
            raise
        finally:
            self.view.stop()
            await self.workshop.engine.close()

    def show_sampling(self, progress: Progress) -> None:
        """Show a person how far sampling is."""
        done = f"sampling {progress.ended}/{progress.asked}, {progress.drawn} tokens"
        self.view.sampled(done, self.workshop.chat.decode(progress.newest))

    async def one_step(self) -> None:
        """Prompts to metrics, once through."""
        w, config = self.workshop, self.config
        w.learner.objective = w.controls.objective(w.learner.objective, self.step)
        desk = self.desk()
        collected = await w.strategy(desk)
        check_failures(collected.everything, config.reward.max_failed)
        if not collected.groups:
            self.note_once(
                f"step {self.step + 1}: none of {len(collected.rejected)} groups is mixed: nothing "
                "is trained. Where no reward knows right from wrong, reward.pass_threshold decides."
            )
        logged = w.scorer.drain()
        clock = Clock(desk.seconds)
        give_back_freed_memory()
        clock.lap("sample")
        shaped = w.shaping(collected.groups, **self.penalty(collected.groups))
        credited = w.advantage(shaped)
        check_credited(shaped, credited, type(w.advantage).__name__)
        clock.lap("score")
        self.view.stage("training")
        plan = make_update_plan(config, collected.equal_prompts, w.controls.measuring)
        trained = train_on(w.learner, credited, plan, self.step, (config.run.seed, self.step))
        await w.engine.load_weights(w.policy.model, w.learner.version)
        give_back_freed_memory()
        clock.lap("train")
        watched = await w.watch(collected.everything, desk.context) if w.watch.due(self.step) else {}
        record = self.record(collected, credited, trained, clock, desk.sampling.temperature, logged | watched)
        self.recorder.step(record, credited)
        self.view.step(record, credited)
        self.note_failures(collected.everything)
        self.learn(collected, shaped, record)
        self.step += 1

    def desk(self) -> Desk:
        """What this step's strategy works with."""
        w, config = self.workshop, self.config
        return Desk(
            cursor=w.cursor,
            engine=w.engine,
            chat=w.chat,
            scorer=w.scorer,
            sampling=w.controls.sampling(train_sampling(config), self.step),
            prompts_per_step=config.sampling.prompts_per_step,
            group_size=config.sampling.group_size,
            seed=(config.run.seed, self.step),
            context=ScoreContext(step=self.step, steps=config.run.steps),
            rates=w.rates,
            plan=w.plan,
            shaping=w.shaping,
            stage=self.view.stage,
        )

    def penalty(self, groups: Sequence[ScoredGroup]) -> dict[str, Any]:
        """The KL penalty of every sampled token, where KL is part of the reward."""
        learner = self.workshop.learner
        objective = learner.objective
        if objective.kl.where != "reward" or objective.kl_coef == 0:
            return {}
        return {
            "ref_logps": learner.reference_logps(groups, self.config.optim.tokens_per_microbatch),
            "kl_coef": objective.kl_coef,
            "divergence": objective.kl.of_array,
        }

    def learn(self, collected: Collected, shaped: Sequence[ScoredGroup], record: StepRecord) -> None:
        """Let all that remembers earlier steps take in this one, now that it is over."""
        w = self.workshop
        for group in collected.everything:
            right, wrong = verdicts(group, collected.unconditional)
            if right + wrong:
                w.rates.observe(group.group.prompt.uid, right, wrong)
        if isinstance(w.advantage, Remembering):
            drift = record.metrics.get("kl/old", 0.0)
            everything = [*shaped, *w.shaping(collected.rejected)]
            w.advantage.observe(everything, 0.0 if math.isnan(drift) else drift)
        w.controls.observe(record.metrics, self.step)
        every = self.config.kl.refresh
        if every and w.learner.reference is not None and (self.step + 1) % every == 0:
            w.learner.reference.refresh()

    def note_failures(self, scored: Sequence[ScoredGroup]) -> None:
        """Say once for every kind of failure that rewards fail; how often stands in ``reward/failed``."""
        errors = Counter(score.error for group in scored for score in group.scores if score.error)
        for error, count in errors.items():
            self.note_once(f"step {self.step + 1}: {count} responses could not be scored: {error}", key=error)

    def note_once(self, text: str, key: str = "no group") -> None:
        """Say something the first time that it happens."""
        if key not in self.noted:
            self.noted.add(key)
            self.view.note(text)

    def record(
        self,
        collected: Collected,
        credited: Sequence[CreditedGroup],
        trained: Trained,
        clock: Clock,
        temperature: float,
        others: Mapping[str, float],
    ) -> StepRecord:
        """One line of metrics; ``others`` are known already: what rewards logged, and the look for hacks."""
        w, updates = self.workshop, trained.updates
        metrics = group_metrics(credited, [uncredited(group) for group in collected.rejected])
        self.tokens += int(metrics["tokens/sampled"])
        metrics |= trained.metrics
        metrics |= others
        metrics |= sampling_metrics(
            collected.everything, len(collected.groups), collected.rounds, temperature, collected.unconditional
        )
        metrics |= {
            "lr": updates[-1].lr,
            "update/count": float(len(updates)),
            "update/skipped": float(sum(update.skipped for update in updates)),
            "update/left_out": float(trained.left_out),
            "update/recomputed": float(trained.old == "recompute"),
            "kl/coef": w.learner.objective.kl_coef,
            "entropy/coef": w.learner.objective.entropy_coef,
            "tokens/trained": float(trained.tokens),
            "sequences/trained": float(trained.sequences),
            "tokens/total": float(self.tokens),
            "speed/sampled": metrics["tokens/sampled"] / clock.laps["sample"],
            "memory/peak": peak_memory(),
            "epoch": float(w.cursor.epoch),
            "seconds/step": sum(clock.laps.values()),
            **version_lag(credited, trained.version),
            **{f"seconds/{name}": value for name, value in clock.laps.items()},
        }
        return StepRecord(step=self.step, metrics=metrics)

    async def evaluate(self) -> Evaluation | None:
        """Ask the held-out prompts: all of them before and after, ``prompts_during`` in between."""
        w, config = self.workshop, self.config
        during = 0 < self.step < config.run.steps
        asked = w.eval_prompts[: config.eval.prompts_during or None] if during else w.eval_prompts
        if not asked:
            return None
        self.view.stage("evaluating")
        evaluation = await evaluate(
            asked, w.engine, w.chat, w.scorer, config.eval, train_sampling(config),
            seed=config.run.seed, step=self.step, max_failed=config.reward.max_failed,
        )  # fmt: skip
        self.recorder.evaluation(evaluation)
        self.view.note(describe_evaluation(evaluation))
        return evaluation

    def summarise(self) -> dict[str, Any]:
        """Before and after, and what it cost."""
        evaluations = self.recorder.folder.read_evaluations()
        full = [e for e in evaluations if e["step"] in (0, self.step)]
        return {
            "dir": str(self.recorder.folder.path),
            "model": str(self.recorder.folder.final),
            "steps": self.step,
            "seconds": round(self.seconds, 3),
            "tokens": self.tokens,
            "before": full[0] if full else None,
            "after": full[-1] if len(full) > 1 else None,
        }

    def save(self) -> Path:
        """Write a checkpoint of the present step."""
        w = self.workshop
        names = {parameter: name for name, parameter in w.learner.parameters()}
        state = RunState(
            step=self.step,
            version=w.learner.version,
            cursor=w.cursor.state(),
            rng=capture_rng(),
            seconds=self.seconds,
            tokens=self.tokens,
            parts={"controls": w.controls.state(), "rates": w.rates.state(), **self.remembered()},
        )
        reference = w.learner.reference.state_dict() if w.learner.reference is not None else None

        def fill(folder: Path) -> None:
            save_trained(folder, w.policy.model, w.policy.tokenizer)
            save_optimizer(folder / "optimizer.safetensors", w.learner.optimizer, names)
            for name, tensors in (("reference", reference), ("masters", w.learner.masters.state_dict())):
                if tensors:
                    save_tensors(folder / f"{name}.safetensors", tensors)
            save_state(folder / "state.json", state)

        return self.store.save(self.step, fill)

    def remembered(self) -> dict[str, Any]:
        """What the advantage knows from earlier steps, if it is of that kind."""
        advantage = self.workshop.advantage
        return {"advantage": advantage.state()} if isinstance(advantage, Remembering) else {}

    def restore(self) -> None:
        """Continue from the newest checkpoint. Raises RunFolderError if there is none."""
        steps = self.store.steps()
        if not steps:
            raise RunFolderError(f"{self.recorder.folder.path} has no checkpoint to resume from (see run.save_every)")
        w, folder = self.workshop, self.store.path(steps[-1])
        state = load_state(folder / "state.json")
        load_trained(folder, w.policy.model)
        load_optimizer(
            folder / "optimizer.safetensors", w.learner.optimizer, {p: name for name, p in w.learner.parameters()}
        )
        if (folder / "reference.safetensors").is_file() and w.learner.reference is not None:
            w.learner.reference.load_state_dict(load_tensors(folder / "reference.safetensors"))
        if w.learner.masters.state_dict():
            w.learner.masters.load_state_dict(load_tensors(folder / "masters.safetensors"))
        restore_rng(state.rng)
        w.controls.load_state(state.parts["controls"])
        w.rates.load_state(state.parts["rates"])
        if isinstance(w.advantage, Remembering):
            w.advantage.load_state(state.parts["advantage"])
        w.cursor.load_state(state.cursor)
        w.learner.version = w.engine.version = state.version
        self.step, self.tokens, self.earlier_seconds = state.step, state.tokens, state.seconds


class Clock:
    """Wall seconds by name: what was measured before, and the time between laps added to it."""

    def __init__(self, before: Mapping[str, float]) -> None:
        self.laps: dict[str, float] = dict(before)
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = self.laps.get(name, 0.0) + now - self._last
        self._last = now


def train_sampling(config: RunConfig) -> Sampling:
    """How training responses are drawn: the whole distribution at the temperature, so that ratios start at 1."""
    return Sampling(temperature=config.sampling.temperature, max_new_tokens=config.sampling.max_new_tokens)


def describe_evaluation(evaluation: Evaluation) -> str:
    """One line: ``step 0: greedy 61.0 % [...], pass@1 33.2 % [...] on 500 held-out problems``."""
    rates = {"greedy": evaluation.greedy} if evaluation.greedy else {}
    rates |= {f"pass@{k}": estimate for k, estimate in evaluation.pass_at.items()}
    judged = max((estimate.problems for estimate in rates.values()), default=0)
    missing = f" ({evaluation.unjudged} responses unjudged)" if evaluation.unjudged else ""
    shown = ", ".join(
        f"{name} {percent(asdict(estimate))}" + (f" of {estimate.problems}" if estimate.problems < judged else "")
        for name, estimate in rates.items()
    )
    return f"evaluation at step {evaluation.step}: {shown or 'nothing'} on {judged} held-out problems{missing}"
