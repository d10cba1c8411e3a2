"""A random 2.2 M-parameter Llama, made here: a model folder as vLLM reads it and its GGUF twin for llama.cpp.

No hub and no torch. The greedy text of both forms is identical, so each engine is the other's oracle.
Needs numpy, tokenizers, safetensors and gguf (the ``test`` extra). By hand:

    python tests/targets/tiny_model.py FOLDER        # FOLDER/hf and FOLDER/tiny.gguf
"""

from __future__ import annotations

import json
import pydoc_data.topics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

Array = NDArray[np.float32]

PAD, TURN, END = SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCAB, HIDDEN, LAYERS, HEADS, KV_HEADS, FFN, CONTEXT = 2048, 256, 2, 4, 2, 512, 8192
HEAD_DIM = HIDDEN // HEADS
_BAN = -60.0
"""Logit of a token that is never sampled."""


@dataclass(frozen=True, slots=True)
class TinyModel:
    """The two forms of one model."""

    folder: Path
    """config.json, tokenizer.json, model.safetensors …"""
    gguf: Path


def make_tiny_model(into: Path, seed: int = 0) -> TinyModel:
    """Write the model below ``into``. The same seed gives the same weights.

    Every token it samples is one non-empty piece of text and generation ends only at ``max_tokens``: the
    last dimension of the residual stream is a constant that no layer writes to, so the last column of
    ``lm_head`` is a bias on the logits, and it bans special tokens and tokens that are no whole text.
    """
    model = TinyModel(into / "hf", into / "tiny.gguf")
    model.folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _train_tokenizer()
    tensors = _weights(tokenizer, seed)
    _write_folder(model.folder, tokenizer, tensors)
    _write_gguf(model.gguf, tokenizer, tensors)
    return model


def _train_tokenizer() -> Tokenizer:
    """Byte-level BPE of the standard library's own help text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    topics = pydoc_data.topics.topics
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=list(SPECIAL),
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator((topics[name] for name in sorted(topics)), trainer)
    return tokenizer


def _weights(tokenizer: Tokenizer, seed: int) -> dict[str, Array]:
    """All tensors under their names in a model folder."""
    rng = np.random.default_rng(seed)

    def normal(rows: int, columns: int, std: float) -> Array:
        return (rng.standard_normal((rows, columns)) * std).astype(np.float32)

    vocab = tokenizer.get_vocab_size()
    tensors = {"model.embed_tokens.weight": normal(vocab, HIDDEN, 1.0)}
    tensors["model.embed_tokens.weight"][:, -1] = 4.0
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        shapes = {
            "self_attn.q_proj": (HEADS * HEAD_DIM, HIDDEN),
            "self_attn.k_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
            "self_attn.v_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
            "self_attn.o_proj": (HIDDEN, HEADS * HEAD_DIM),
            "mlp.gate_proj": (FFN, HIDDEN),
            "mlp.up_proj": (FFN, HIDDEN),
            "mlp.down_proj": (HIDDEN, FFN),
        }
        for name, (rows, columns) in shapes.items():
            tensors[f"{prefix}{name}.weight"] = normal(rows, columns, columns**-0.5)
        for name in ("self_attn.o_proj", "mlp.down_proj"):
            tensors[f"{prefix}{name}.weight"][-1] = 0  # no layer writes to the last dimension
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{name}.weight"] = np.ones(HIDDEN, np.float32)
    tensors["model.norm.weight"] = np.ones(HIDDEN, np.float32)
    head = normal(vocab, HIDDEN, 2.0 * HIDDEN**-0.5)
    head[:, -1] = 0
    head[list(_banned(tokenizer)), -1] = _BAN
    tensors["lm_head.weight"] = head
    return tensors


def _banned(tokenizer: Tokenizer) -> Iterator[int]:
    """Ids of special tokens, of parts of UTF-8 characters, of control characters and of blank tokens."""
    byte_of = {letter: byte for byte, letter in _letters_of_bytes()}
    for token, index in tokenizer.get_vocab().items():
        if token in SPECIAL:
            yield index
            continue
        try:
            text = bytes(byte_of[letter] for letter in token).decode("utf-8")
        except UnicodeDecodeError:
            yield index
            continue
        blank = not text.strip() and text != " "
        if blank or any(ord(letter) < 32 and letter != "\n" for letter in text):
            yield index


def _letters_of_bytes() -> Iterator[tuple[int, str]]:
    """The letter that byte-level BPE writes for each byte (GPT-2's table: printable ones are themselves)."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = 0
    for byte in range(256):
        if byte in printable:
            yield byte, chr(byte)
        else:
            yield byte, chr(256 + others)
            others += 1


def _write_folder(folder: Path, tokenizer: Tokenizer, tensors: dict[str, Array]) -> None:
    end, pad = tokenizer.token_to_id(END), tokenizer.token_to_id(PAD)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "intermediate_size": FFN,
        "vocab_size": tokenizer.get_vocab_size(),
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "eos_token_id": end,
        "pad_token_id": pad,
        "bos_token_id": None,
        "use_cache": True,
    }
    special = {"eos_token": END, "pad_token": PAD}
    files = {
        "config.json": config,
        "generation_config.json": {"eos_token_id": end, "pad_token_id": pad, "do_sample": True},
        "special_tokens_map.json": special,
        "tokenizer_config.json": {
            **special,
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": None,
            "model_max_length": CONTEXT,
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _write_gguf(path: Path, tokenizer: Tokenizer, tensors: dict[str, Array]) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny-random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_vocab_size(tokenizer.get_vocab_size())
    writer.add_file_type(0)  # float32
    _add_tokenizer(writer, tokenizer)
    for name, tensor in tensors.items():
        writer.add_tensor(_gguf_name(name), _as_llamacpp_wants(name, tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: gguf.GGUFWriter, tokenizer: Tokenizer) -> None:
    tokens = [token for token, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])]
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([control if token in SPECIAL else normal for token in tokens])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
    writer.add_eos_token_id(tokens.index(END))
    writer.add_pad_token_id(tokens.index(PAD))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


_GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def _gguf_name(name: str) -> str:
    """``model.layers.1.mlp.up_proj.weight`` -> ``blk.1.ffn_up.weight``."""
    stem = name.removesuffix(".weight")
    if not stem.startswith("model.layers."):
        return f"{_GGUF_NAMES[stem]}.weight"
    layer, inner = stem.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{_GGUF_NAMES[inner]}.weight"


def _as_llamacpp_wants(name: str, tensor: Array) -> Array:
    """Queries and keys with the two halves of each head interleaved, as llama.cpp rotates them."""
    heads = HEADS if "q_proj" in name else KV_HEADS if "k_proj" in name else 0
    if not heads:
        return tensor
    halves = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, -1)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(tensor.shape))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: tiny_model.py FOLDER")
    made = make_tiny_model(Path(sys.argv[1]))
    sys.stdout.write(f"{made.folder}\n{made.gguf}\n")
