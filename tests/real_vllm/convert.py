"""Turns a GGUF model into a directory that vLLM loads: python convert.py MODEL.gguf DIRECTORY [int8]

With `int8` the weights of all projections are whole numbers of 8 bits, one scale for each output, and vLLM rounds what
goes into them in the same way (W8A8, dynamic). A processor multiplies those faster than anything else.

Runs in vLLM's own environment, which has torch and transformers; the project's has neither, so it isn't imported.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

# In the project's own environment, where types are checked, these are missing.
import torch  # type: ignore[import-not-found]
from safetensors.torch import load_file, save_file  # type: ignore[import-not-found]
from transformers import (  # type: ignore[import-not-found]
    AutoModelForCausalLM,
    AutoTokenizer,
    GgufConfig,
)

_LARGEST = 127
_INT8 = {"num_bits": 8, "type": "int", "symmetric": True}


def convert(gguf: Path, directory: Path) -> None:
    """Write the model, its tokenizer and its chat template as vLLM expects them."""
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    model = AutoModelForCausalLM.from_pretrained(
        **source, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    # The weights are plain numbers now; saving must not take them for quantized ones.
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(directory)
    AutoTokenizer.from_pretrained(**source).save_pretrained(directory)


def round_to_int8(directory: Path) -> None:
    """Round a model that `convert` wrote, and tell vLLM so, as compressed-tensors describes it."""
    file, configuration = directory / "model.safetensors", directory / "config.json"
    rounded = {}
    for name, weight in load_file(file).items():
        if name.endswith("_proj.weight"):
            scale = (weight.float().abs().amax(1, keepdim=True) / _LARGEST).clamp(min=1e-10)
            rounded[name] = (weight.float() / scale).round().to(torch.int8)
            rounded[f"{name}_scale"] = scale
        else:
            rounded[name] = weight
    save_file(rounded, file, metadata={"format": "pt"})
    group = {
        "targets": ["Linear"],
        "weights": {**_INT8, "strategy": "channel", "dynamic": False},
        "input_activations": {**_INT8, "strategy": "token", "dynamic": True},
    }
    described = json.loads(configuration.read_text(encoding="utf-8"))
    described["quantization_config"] = {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "quantization_status": "compressed",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
    }
    configuration.write_text(json.dumps(described, indent=2), encoding="utf-8")


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
    if sys.argv[3:] == ["int8"]:
        round_to_int8(Path(sys.argv[2]))
