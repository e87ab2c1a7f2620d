"""`python -m tests.benchmarks.train.drive_trl NAME MODEL BATCH THREADS`, in TRL's environment: its `GRPOTrainer`.

It runs its own training loop. Its rollout function returns our rows, and waits there until a step is asked for, so
nothing is generated; the seconds of a step count from the padded batch on. Padding, micro-batches (8 rows, its
default), forward, backward, clipping and AdamW are its own. Given to it are the advantages, times the multiplicities,
as it has none, and the log-probs of sampling as the old ones: so its loss and its gradient are ours.

NAME `trl`: gradient checkpointing as it comes, which is on; `trl-unchecked`: off.
"""

import os
import sys
from pathlib import Path

from tests.benchmarks.train import memory
from tests.benchmarks.train.lines import Clock, Lines
from tests.benchmarks.train.rows import Row, read, warm_up

LINES = Lines()

import torch  # noqa: E402
from datasets import Dataset  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

MOST_ROWS = 8
STEPS = 1000


class Given(GRPOTrainer):
    """Takes its steps on given rows: those of the warm-up first."""

    def __init__(self, rows: list[Row], **arguments) -> None:
        super().__init__(rollout_func=self._roll_out, callbacks=[Report(self)], **arguments)
        self._all, self.loss = rows, 0.0
        self.rows, self.clock = warm_up(rows), Clock()

    def _roll_out(self, prompts: list, _: GRPOTrainer) -> dict:
        if not LINES.wait():
            os._exit(0)  # its loop has no other end before its last step
        if self.state.global_step:
            self.rows = self._all
        memory.reset_peak()
        cut = [(row, row.mask.index(1)) for row in self.rows]
        return {
            "prompt_ids": [row.token_ids[:prompt] for row, prompt in cut],
            "completion_ids": [row.token_ids[prompt:] for row, prompt in cut],
            "logprobs": [row.logprobs[prompt:] for row, prompt in cut],
            "env_mask": [row.mask[prompt:] for row, prompt in cut],
        }

    def _generate_and_score_completions(self, inputs: list) -> dict:
        output = super()._generate_and_score_completions(inputs)
        mean = sum(row.multiplicity for row in self.rows) / len(self.rows)
        output["advantages"] = torch.tensor([row.advantage * row.multiplicity / mean for row in self.rows])
        output["old_per_token_logps"] = output["sampling_per_token_logps"]
        self.loss, self.clock = 0.0, Clock()
        return output

    def compute_loss(self, *arguments, **named) -> torch.Tensor:
        loss = super().compute_loss(*arguments, **named)
        self.loss += loss.item()
        return loss


class Report(TrainerCallback):
    """Answers at the log of a step, which has the norm of its gradient: the optimiser has stepped."""

    def __init__(self, trainer: Given) -> None:
        self._trainer = trainer

    def on_log(self, args, state, control, logs, **_) -> None:
        if "grad_norm" not in logs:
            return
        trainer = self._trainer
        taken = trainer.clock.read()
        if state.global_step == 1:
            parameters = trainer.model.parameters()
            LINES.answer(floor=memory.floor(sum(p.numel() * p.element_size() for p in parameters)))
        else:
            LINES.answer(**taken, loss=trainer.loss, gradient_norm=logs["grad_norm"], peak=memory.peak())


def main() -> None:
    """Train until nobody asks for another step."""
    name, folder, rows, threads = sys.argv[1], Path(sys.argv[2]), read(Path(sys.argv[3])), int(sys.argv[4])
    torch.set_num_threads(threads)
    per_device = max(n for n in range(1, MOST_ROWS + 1) if len(rows) % n == 0)
    config = GRPOConfig(
        output_dir=str(Path(sys.argv[3]).parent),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=name == "trl",
        per_device_train_batch_size=per_device,
        gradient_accumulation_steps=len(rows) // per_device,
        num_generations=2,
        loss_type="grpo",
        epsilon=0.2,
        epsilon_high=0.28,
        learning_rate=1e-6,
        lr_scheduler_type="constant",
        max_steps=STEPS,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        max_completion_length=1024,
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    trainer = Given(
        rows,
        model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=config,
        train_dataset=Dataset.from_dict({"prompt": ["-"] * len(rows)}),
        processing_class=tokenizer,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()


if __name__ == "__main__":
    main()
