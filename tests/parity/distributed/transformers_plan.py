"""A tiny Llama that transformers cuts over all processes by its own plan: logits, losses of three steps, parameters and
generated tokens, written to a file of each rank."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM


def numbers(values):
    return [round(value, 3) + 0.0 for value in values.flatten()[:8].tolist()]


def lines(saved):
    model = AutoModelForCausalLM.from_pretrained(saved, tp_plan="auto")
    x = torch.arange(10)[None]
    with torch.no_grad():
        yield "logits", numbers(model.eval()(x).logits[0, -1])
    step = torch.optim.SGD(model.train().parameters(), lr=0.1)
    for _ in range(3):
        loss = model(x, labels=x).loss
        loss.backward()
        step.step()
        step.zero_grad()
        yield "loss", round(float(loss), 3)
    for name, value in model.named_parameters():
        cut = isinstance(value, DTensor)
        yield name, value.placements if cut else None, numbers(value.full_tensor() if cut else value)
    yield "generated", model.eval().generate(x, max_new_tokens=5, do_sample=False).tolist()


def main(folder):
    rank, saved = os.environ["RANK"], Path(folder) / "model"
    dist.init_process_group("gloo")
    if rank == "0":
        torch.manual_seed(0)
        LlamaForCausalLM(LlamaConfig(
            vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64)).save_pretrained(saved)
    dist.barrier()
    with open(Path(folder) / f"rank {rank}", "w") as file:
        for line in lines(saved):
            print(*line, file=file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
