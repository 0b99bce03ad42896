"""Which format a model writes calls in, by its name.

A name is a hint and no more: what a server calls its model is its owner's choice, and finetunes keep the name of what
they were made from. The chat template, where it can be seen, has the last word (`template.py`). The facts are those of
the formats themselves (`extproc.toolcalls`), put the way that model names are spelled.
"""

from __future__ import annotations

import re

_SEPARATORS = re.compile(r"[\s_]+")

_FAMILIES: tuple[tuple[str, str | None], ...] = (
    # A finetune or a distillate writes what it was tuned to write, whatever the model below it: these come first.
    (r"deepseek-r1-(distill|0528-qwen)", None),
    (r"hermes-?[2-4]", "hermes"),
    (r"firefunction-?v2", "phi4_mini_json"),
    (r"cogito.*671b", "deepseek_v3"),
    (r"xlam", "xlam"),
    (r"toolace", "pythonic"),
    (r"nemotron-?3|nemotron-(nano|super|ultra)-?v?3", "qwen3_coder"),
    (r"nemotron-nano-(\d+b-)?v2|nemotron-super-(\d+b-)?v1[.-]5", "nemotron_json"),
    (r"nemotron-(nano|super|ultra)", None),
    (r"functionary.*v?3[.-]1", "functionary_v31"),
    (r"functionary.*v?3[.-]2", "functionary_v32"),
    (r"nanbeige", "qwen3_coder"),
    (r"trinity", "hermes"),
    # Families of several generations: the particular before the general.
    (r"qwen-?3-?coder|qwen-?3\.[5-8]", "qwen3_coder"),
    (r"qwen-?2\.5|qwen-?3(?![.\d])|qwq", "hermes"),
    (r"llama-?4", "llama4_pythonic"),
    (r"llama-?3[.-]2-(1b|3b)(?!\d)", "pythonic"),
    (r"llama-?3[.-][1-3](?!\d)", "llama3_json"),
    (r"(mistral|mixtral|magistral|devstral|ministral|codestral)", "mistral"),
    (r"deepseek-?v4[.-]1", "deepseek_v41"),
    (r"deepseek-?v4", "deepseek_v4"),
    (r"deepseek-?v3[.-]2-exp|deepseek-?v3[.-]1", "deepseek_v31"),
    (r"deepseek-?v3[.-]2", "deepseek_v32"),
    (r"deepseek-?v3|deepseek-r1-0528", "deepseek_v3"),
    (r"glm-?(4[.-]7|5)", "glm47"),
    (r"glm-?4[.-][56]|spark-?2[.-]5", "glm45"),
    (r"kimi-?k3", "kimi_k3"),
    (r"kimi-?k2", "kimi_k2"),
    (r"k2-horizon", "k2_horizon"),
    (r"minimax-?m3", "minimax_m3"),
    (r"minimax-?m2", "minimax_m2"),
    (r"gpt-?oss", "openai"),
    (r"functiongemma", "functiongemma"),
    (r"gemma-?4", "gemma4"),
    (r"gemma-?3(?!n)", "pythonic"),
    (r"granite-20b-f", "granite-20b-fc"),
    (r"granite-?4[.-]2.*thinking", "qwen3_coder"),
    (r"granite-?4", "granite4"),
    (r"granite-?3", "granite"),
    (r"hunyuan-a13b", "hunyuan_a13b"),
    (r"(hunyuan|hy)-?3(?![.\d]|b)", "hy_v3"),
    (r"(hunyuan|hy)-?4(?![.\d]|b)", "hy_v4"),
    (r"step-?(3[.-][57]|5)", "step3p5"),
    (r"step-?3(?![.\d])", "step3"),
    (r"command-r7b", "cohere_command3"),
    (r"command-r(?![a-z])|aya-expanse", "command_r"),
    (r"command-a-(plus|\+)|command-a\+", "cohere_command4"),
    (r"command-a-reasoning", "cohere_command3"),
    (r"gigachat-?3[.-]5", "gigachat35"),
    (r"gigachat-?3", "gigachat3"),
    (r"ernie-?(4[.-]5|x1)", "ernie45"),
    (r"internlm-?2[.-]5|intern-s1", "internlm"),
    (r"muse-glimmer", "muse_glimmer"),
    (r"muse-spark", "muse"),
    # Families with one format.
    (r"apertus", "apertus"),
    (r"apriel", "apriel"),
    (r"(?<![a-z])beam(?![a-z])", "beam"),
    (r"(?<![a-z])dots[.-]", "dots"),
    (r"inkling", "inkling"),
    (r"iquest", "iquest_q1"),
    (r"jamba", "jamba"),
    (r"lfm-?2", "lfm2"),
    (r"(?<![a-z])ling-?3", "ling3"),
    (r"longcat", "longcat"),
    (r"mimo-?v2", "mimo"),
    (r"mimo-?vl", "hermes"),
    (r"minicpm-?5", "minicpm5"),
    (r"olmo-?3", "olmo3"),
    (r"phi-?4-mini", "phi4_mini_json"),
    (r"plamo-?3", "plamo3"),
    (r"poolside|laguna", "poolside_v1"),
    (r"reka-edge", "hermes"),
    (r"sarashina-?2[.-]2", "sarashina"),
    (r"seed-oss", "seed_oss"),
    (r"solar-open", "solar_open"),
)
"""Patterns of names, tried in this order, and the format; None for families whose format isn't known here."""

_COMPILED = tuple((re.compile(pattern), format_) for pattern, format_ in _FAMILIES)


def format_by_name(*names: str) -> str | None:
    """The format of the first name that belongs to a known family. Paths may be given: their last part counts most."""
    for name in names:
        parts = [part for part in re.split(r"[/\\]", name.lower()) if part]
        for part in reversed(parts):
            spelled = _SEPARATORS.sub("-", part)
            for pattern, format_ in _COMPILED:
                if pattern.search(spelled):
                    return format_
    return None
