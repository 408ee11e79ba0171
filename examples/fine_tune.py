"""Fine-tune a Hugging Face model with its Trainer: the transformers library, unmodified, without PyTorch.

    pip install transformers accelerate
    python -m mindtorch_v2 examples/fine_tune.py

A tiny GPT-2 first learns sums of two digits, is saved, loaded again with `from_pretrained`, and is then fine-tuned on
differences. It prints what the model answers before and after; the data are generated, nothing is downloaded.
"""

import argparse
import importlib.util
import sys
import tempfile

MISSING = [name for name in ("transformers", "accelerate") if importlib.util.find_spec(name) is None]
if MISSING:
    sys.exit(f"This example needs {' and '.join(MISSING)}: pip install {' '.join(MISSING)}")
if "torch" not in sys.modules and importlib.util.find_spec("torch") is None:
    sys.exit("Run it as: python -m mindtorch_v2 examples/fine_tune.py")

import torch  # noqa: E402
from torch.utils.data import Dataset  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed  # noqa: E402

CHARACTERS = "_0123456789+-="  # the first pads
LENGTH = 7  # "9+9=18_"


def encoded(text: str) -> list[int]:
    return [CHARACTERS.index(character) for character in text]


class Sums(Dataset):
    """All questions of two digits and a sign; the model is asked for what follows the "="."""

    def __init__(self, sign: str) -> None:
        answers = {"+": lambda a, b: a + b, "-": lambda a, b: a - b}[sign]
        self.questions = [f"{a}{sign}{b}=" for a in range(10) for b in range(10)]
        self.answers = [str(answers(a, b)) for a in range(10) for b in range(10)]

    def __len__(self) -> int:
        return len(self.questions)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        question, answer = self.questions[i], self.answers[i].ljust(LENGTH - 4, CHARACTERS[0])
        labels = [-100] * len(question) + encoded(answer)  # only the answer counts
        return {"input_ids": torch.tensor(encoded(question + answer)), "labels": torch.tensor(labels)}


def train(model: GPT2LMHeadModel, data: Dataset, epochs: int, folder: str) -> None:
    arguments = TrainingArguments(output_dir=folder, num_train_epochs=epochs, per_device_train_batch_size=25,
                                  learning_rate=4e-3, lr_scheduler_type="cosine", logging_strategy="no",
                                  save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True)
    trainer = Trainer(model=model, args=arguments, train_dataset=data)
    loss = trainer.train().training_loss
    print(f"   {epochs} epochs, mean loss {loss:.3f}")


def right(model: GPT2LMHeadModel, data: Sums) -> float:
    """The share of questions that the model answers right."""
    model.eval()
    questions = torch.tensor([encoded(question) for question in data.questions])
    made = model.generate(questions, attention_mask=torch.ones_like(questions), max_new_tokens=LENGTH - 4,
                          do_sample=False, pad_token_id=0)
    given = ["".join(CHARACTERS[i] for i in row[4:]).rstrip(CHARACTERS[0]) for row in made.tolist()]
    shown = [f"{question}{answer}" for question, answer in zip(data.questions, given)]
    print("  ", ", ".join(shown[7::23]))
    return sum(a == b for a, b in zip(given, data.answers)) / len(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--epochs", type=int, default=60)
    epochs = parser.parse_args().epochs
    set_seed(0)
    sums, differences = Sums("+"), Sums("-")
    with tempfile.TemporaryDirectory() as folder:
        model = GPT2LMHeadModel(GPT2Config(
            vocab_size=len(CHARACTERS), n_positions=LENGTH, n_embd=64, n_layer=2, n_head=4, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0))
        print(f"Pre-training {sum(p.numel() for p in model.parameters()):,} parameters on sums")
        train(model, sums, epochs, folder)
        print(f"   right: {right(model, sums):.0%}")
        model.save_pretrained(folder)
        model = GPT2LMHeadModel.from_pretrained(folder)
        print("Loaded again; differences before fine-tuning")
        print(f"   right: {right(model, differences):.0%}")
        train(model, differences, epochs, folder)
        print(f"   right: {right(model, differences):.0%}")


if __name__ == "__main__":
    main()
