"""Turns a GGUF model into a directory that vLLM loads: python convert.py MODEL.gguf DIRECTORY

Runs in vLLM's own environment, which has torch and transformers; the project's has neither, so it isn't imported.
"""

from __future__ import annotations

import sys
from pathlib import Path

# In the project's own environment, where types are checked, these are missing.
import torch  # type: ignore[import-not-found]
from transformers import (  # type: ignore[import-not-found]
    AutoModelForCausalLM,
    AutoTokenizer,
    GgufConfig,
)


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


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
