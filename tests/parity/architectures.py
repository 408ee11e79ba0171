"""Tiny models of transformers' architectures, run on whichever library `import torch` gives; results go to a file.

    python architectures.py FOLDER torch.npz                              # PyTorch: makes the weights, saves the models
    python -m mindtorch_v2 architectures.py FOLDER ours.npz torch.npz     # this library: reads both

With COMPILED=1 in the environment, models run under `torch.compile`, several times and in both modes without gradients,
and so do whole training steps.
"""

import copy
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

BATCH, LENGTH, VOCABULARY, WIDTH = 2, 7, 99, 32
TEXT = dict(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37,
            max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
GROUPED = TEXT | dict(num_key_value_heads=2, head_dim=8)
SEQ2SEQ = dict(vocab_size=VOCABULARY, d_model=WIDTH, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
               decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37, max_position_embeddings=64,
               pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
IMAGE = dict(image_size=32, num_channels=3, num_labels=5)
VISION = IMAGE | dict(patch_size=8, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37)
AUDIO = dict(hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, conv_dim=(16, 16),
             conv_kernel=(8, 4), conv_stride=(4, 4), num_feat_extract_layers=2, num_conv_pos_embeddings=8,
             num_conv_pos_embedding_groups=2, vocab_size=VOCABULARY, mask_time_prob=0.0, layerdrop=0.0, num_labels=5)


def text(kind: str) -> Callable[[np.random.Generator], dict[str, Any]]:
    """Token ids with padding in the second row; labels as the kind of head wants them."""

    def make(numbers: np.random.Generator) -> dict[str, Any]:
        ids = numbers.integers(3, VOCABULARY, (BATCH, LENGTH))
        mask = np.ones_like(ids)
        mask[1, -2:] = 0
        labels = {"classes": numbers.integers(0, 2, BATCH), "tokens": np.where(mask, ids, -100), "none": None}[kind]
        return {"input_ids": ids, "attention_mask": mask} | ({} if labels is None else {"labels": labels})

    return make


def sequences(numbers: np.random.Generator) -> dict[str, Any]:
    return text("none")(numbers) | {"labels": numbers.integers(3, VOCABULARY, (BATCH, 5))}


def images(numbers: np.random.Generator) -> dict[str, Any]:
    return {"pixel_values": numbers.normal(size=(BATCH, 3, 32, 32)).astype("float32"),
            "labels": numbers.integers(0, 5, BATCH)}


def sounds(numbers: np.random.Generator) -> dict[str, Any]:
    return {"input_values": numbers.normal(size=(BATCH, 400)).astype("float32"),
            "labels": numbers.integers(1, VOCABULARY, (BATCH, 4))}


def spectra(numbers: np.random.Generator) -> dict[str, Any]:
    return {"input_features": numbers.normal(size=(BATCH, 16, 60)).astype("float32"),
            "labels": numbers.integers(3, VOCABULARY, (BATCH, 5))}


def pairs(numbers: np.random.Generator) -> dict[str, Any]:
    return text("none")(numbers) | {"pixel_values": images(numbers)["pixel_values"], "return_loss": True}


def boxes(numbers: np.random.Generator) -> dict[str, Any]:
    targets = [{"class_labels": numbers.integers(0, 5, 2), "boxes": numbers.uniform(0.2, 0.6, (2, 4)).astype("float32")}
               for _ in range(BATCH)]
    return {"pixel_values": images(numbers)["pixel_values"], "labels": targets}


# name: (model class, the options of its configuration, inputs, whether it generates)
ARCHITECTURES: dict[str, tuple[str, dict[str, Any], Callable, bool]] = {
    "bert": ("BertForSequenceClassification", TEXT, text("classes"), False),
    "distilbert": ("DistilBertForMaskedLM", dict(vocab_size=VOCABULARY, dim=WIDTH, n_layers=2, n_heads=4, hidden_dim=37,
                                                 max_position_embeddings=64), text("tokens"), False),
    "roberta": ("RobertaForMaskedLM", TEXT, text("tokens"), False),
    "albert": ("AlbertForMaskedLM", TEXT | dict(embedding_size=16), text("tokens"), False),
    "electra": ("ElectraForSequenceClassification", TEXT | dict(embedding_size=16), text("classes"), False),
    "deberta_v2": ("DebertaV2ForMaskedLM", TEXT | dict(relative_attention=True, position_buckets=8, share_att_key=True,
                                                       pos_att_type=["p2c", "c2p"]), text("tokens"), False),
    "longformer": ("LongformerForMaskedLM", TEXT | dict(attention_window=4), text("tokens"), False),
    "xlnet": ("XLNetForSequenceClassification", dict(vocab_size=VOCABULARY, d_model=WIDTH, n_layer=2, n_head=4,
                                                     d_inner=37), text("classes"), False),
    "gpt2": ("GPT2LMHeadModel", dict(vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=2, n_head=4, n_positions=64,
                                     bos_token_id=1, eos_token_id=2, pad_token_id=0), text("tokens"), True),
    "gpt_neox": ("GPTNeoXForCausalLM", TEXT, text("tokens"), True),
    "opt": ("OPTForCausalLM", dict(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2, ffn_dim=37,
                                   num_attention_heads=4, max_position_embeddings=64, word_embed_proj_dim=WIDTH,
                                   bos_token_id=1, eos_token_id=2, pad_token_id=0), text("tokens"), True),
    "bloom": ("BloomForCausalLM", dict(vocab_size=VOCABULARY, hidden_size=WIDTH, n_layer=2, n_head=4, bos_token_id=1,
                                       eos_token_id=2, pad_token_id=0), text("tokens"), True),
    "falcon": ("FalconForCausalLM", TEXT | dict(multi_query=True), text("tokens"), True),
    "llama": ("LlamaForCausalLM", GROUPED, text("tokens"), True),
    "mistral": ("MistralForCausalLM", GROUPED | dict(sliding_window=4), text("tokens"), True),
    "mixtral": ("MixtralForCausalLM", GROUPED | dict(intermediate_size=40, num_local_experts=4, num_experts_per_tok=2,
                                                     output_router_logits=True), text("tokens"), True),
    "qwen2": ("Qwen2ForCausalLM", GROUPED, text("tokens"), True),
    "qwen3": ("Qwen3ForCausalLM", GROUPED, text("tokens"), True),
    "gemma": ("GemmaForCausalLM", GROUPED, text("tokens"), True),
    "phi": ("PhiForCausalLM", TEXT, text("tokens"), True),
    "mamba": ("MambaForCausalLM", dict(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2, state_size=8,
                                       bos_token_id=1, eos_token_id=2, pad_token_id=0), text("tokens"), True),
    "t5": ("T5ForConditionalGeneration", dict(vocab_size=VOCABULARY, d_model=WIDTH, d_kv=8, d_ff=37, num_layers=2,
                                              num_heads=4, decoder_start_token_id=0), sequences, True),
    "bart": ("BartForConditionalGeneration", SEQ2SEQ, sequences, True),
    "whisper": ("WhisperForConditionalGeneration", SEQ2SEQ | dict(
        num_mel_bins=16, max_source_positions=30, max_target_positions=40, suppress_tokens=None,
        begin_suppress_tokens=None), spectra, True),
    "vit": ("ViTForImageClassification", VISION, images, False),
    "deit": ("DeiTForImageClassification", VISION, images, False),
    "swin": ("SwinForImageClassification", IMAGE | dict(patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4],
                                                        window_size=4), images, False),
    "convnext": ("ConvNextForImageClassification", IMAGE | dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1]),
                 images, False),
    "resnet": ("ResNetForImageClassification", IMAGE | dict(embedding_size=8, hidden_sizes=[8, 16, 16, 32],
                                                            depths=[1, 1, 1, 1]), images, False),
    "segformer": ("SegformerForImageClassification", IMAGE | dict(
        hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4],
        decoder_hidden_size=16), images, False),
    "clip": ("CLIPModel", dict(text_config=TEXT, vision_config=VISION, projection_dim=16), pairs, False),
    "siglip": ("SiglipModel", dict(text_config=TEXT, vision_config=VISION), pairs, False),
    "wav2vec2": ("Wav2Vec2ForCTC", AUDIO, sounds, False),
    "hubert": ("HubertForCTC", AUDIO, sounds, False),
}
SEED = 7


def tensors(value: Any) -> Any:
    """The inputs, with arrays as tensors."""
    import torch

    if isinstance(value, dict):
        return {name: tensors(v) for name, v in value.items()}
    if isinstance(value, list):
        return [tensors(v) for v in value]
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def floats(outputs: Any) -> dict[str, np.ndarray]:
    import torch

    return {key: value.detach().numpy() for key, value in outputs.items() if isinstance(value, torch.Tensor)}


def training(model: Any) -> Callable[[dict[str, Any]], Any]:
    """A step of training, with the loss as its result."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-3)

    def step(batch: dict[str, Any]) -> Any:
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return step


def check_compiled_steps(model: Any, batch: dict[str, Any]) -> None:
    """Whole training steps leave the same parameters, compiled and not."""
    import torch

    models = [copy.deepcopy(model).train() for _ in range(2)]
    if any(isinstance(module, torch.nn.BatchNorm2d) for module in model.modules()):  # which blow up roundings
        batch = {key: value.double() if value.is_floating_point() else value for key, value in batch.items()}
        models = [one.double() for one in models]
    plain, compiled = training(models[0]), torch.compile(training(models[1]))
    for number in range(6):
        losses = []
        for step in (plain, compiled):
            torch.manual_seed(number)
            losses.append(step(batch).item())
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4, err_msg=f"loss of step {number}")
    for (name, expected), found in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
        np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-3, atol=1e-4, err_msg=name)


def run(name: str, folder: Path, weights: dict[str, np.ndarray] | None) -> dict[str, np.ndarray]:
    """Everything that is compared: outputs, loss, gradients, the parameters after a step, generated tokens."""
    import torch
    import transformers

    model_class, options, inputs, generates = ARCHITECTURES[name]
    kind = getattr(transformers, model_class)
    torch.manual_seed(SEED)
    model = kind(kind.config_class(**options))
    results = {f"initial/{key}": value.numpy() for key, value in model.state_dict().items()}
    results = {key: value.copy() for key, value in results.items()}
    if weights is not None:
        model.load_state_dict({key: torch.from_numpy(weights[f"initial/{key}"]) for key in model.state_dict()})
    batch = tensors(inputs(np.random.default_rng(SEED)))
    model.eval()
    if os.environ.get("COMPILED") == "1":
        with torch.no_grad():
            eager = floats(model(**batch))
            for mode in ("default", "reduce-overhead"):
                compiled = torch.compile(model, mode=mode)
                for _ in range(5):
                    made = floats(compiled(**batch))
                    for key, value in eager.items():
                        np.testing.assert_allclose(made[key], value, rtol=1e-4, atol=1e-5, err_msg=f"{mode} {key}")
        check_compiled_steps(model, batch)
        model.compile()
    outputs = model(**batch)
    results |= {f"output/{key}": value for key, value in floats(outputs).items()}
    if weights is None:
        moved = copy.deepcopy(model)
        with torch.no_grad():
            for parameter in moved.parameters():
                parameter += 1 / 64  # nothing that is saved is what a module would initialise it to
        moved.save_pretrained(folder / name)
    saved = kind.from_pretrained(folder / name).eval()
    results |= {f"saved/{key}": value for key, value in floats(saved(**batch)).items()}
    results |= {f"loaded/{key}": value.numpy() for key, value in saved.state_dict().items()}
    outputs.loss.backward()
    for key, parameter in model.named_parameters():
        if parameter.grad is not None:
            results[f"gradient/{key}"] = parameter.grad.numpy().copy()
    # With a small eps, a gradient that is 0 but for rounding would make a step as long as any other.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-3, weight_decay=0.1)
    optimizer.step()
    results |= {f"step/{key}": value.detach().numpy().copy() for key, value in model.named_parameters()}
    torch.manual_seed(SEED)
    model.train()
    results["training loss"] = model(**batch).loss.detach().numpy()
    if generates:
        model.eval()
        start = {key: value for key, value in batch.items() if key != "labels"}
        if "attention_mask" in start and not model.config.is_encoder_decoder:
            start = {"input_ids": start["input_ids"][:, :-2], "attention_mask": start["attention_mask"][:, :-2]}
        length: dict[str, Any] = dict(max_new_tokens=6, min_new_tokens=6)
        results["greedy"] = model.generate(**start, **length, do_sample=False).numpy()
        torch.manual_seed(SEED)
        results["sampled"] = model.generate(**start, **length, do_sample=True, top_k=20, top_p=0.9).numpy()
        results["beams"] = model.generate(**start, **length, do_sample=False, num_beams=3).numpy()
    return results


def main(folder: str, file: str, weights: str | None = None, *names: str) -> None:
    """Writes the results of all architectures, or of those named; what fails is written as its error."""
    import time
    import traceback
    from concurrent.futures import ThreadPoolExecutor

    import transformers

    transformers.logging.set_verbosity_error()
    given = np.load(Path(folder) / weights) if weights is not None else {}
    made: dict[str, np.ndarray] = {}
    for name in names or ARCHITECTURES:
        prefix, began = f"{name}/", time.perf_counter()
        own = {key[len(prefix):]: given[key] for key in given if key.startswith(prefix)}
        with ThreadPoolExecutor(1) as thread:  # where an error of one model does not end the others
            done = thread.submit(run, name, Path(folder), own or None)
        error = done.exception()
        results = done.result() if error is None else {"error": np.array("".join(traceback.format_exception(error)))}
        made |= {prefix + key: value for key, value in results.items()}
        print(f"{name} {time.perf_counter() - began:.2f} s", flush=True)
    np.savez(Path(folder) / file, **made)


if __name__ == "__main__":
    main(*sys.argv[1:])
