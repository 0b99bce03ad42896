"""Where each format is defined by those who made the model: a chat template, a model card, or a specification.

Generated rows are written after these; none is taken from a parser or from a parser's tests.
"""

from __future__ import annotations

from typing import NamedTuple


class Source(NamedTuple):
    family: str
    kind: str
    where: str


def _template(family: str, model: str) -> Source:
    return Source(family, "chat_template", f"{model}: chat template")


SOURCES: dict[str, Source] = {
    "apertus": _template("Apertus", "swiss-ai/Apertus-8B-Instruct-2509"),
    "apriel": _template("Apriel", "ServiceNow-AI/Apriel-1.6-15b-Thinker"),
    "beam": _template("Beam", "Beam"),
    "cohere_command3": _template("Cohere Command", "CohereLabs/command-a-reasoning-08-2025"),
    "cohere_command4": _template("Cohere Command", "Command A+"),
    "command_r": Source("Cohere Command", "model_card", "CohereForAI/c4ai-command-r-plus: prompting for tool use"),
    "deepseek_v3": _template("DeepSeek", "deepseek-ai/DeepSeek-V3-0324"),
    "deepseek_v31": _template("DeepSeek", "deepseek-ai/DeepSeek-V3.1"),
    "deepseek_v32": Source("DeepSeek", "specification", "deepseek-ai/DeepSeek-V3.2: encoding/encoding_dsv32.py"),
    "deepseek_v4": Source("DeepSeek", "specification", "DeepSeek-V4: its encoding in Python, beside the weights"),
    "deepseek_v41": Source("DeepSeek", "specification", "DeepSeek-V4.1: its encoding in Python, beside the weights"),
    "dots": _template("dots.llm", "dots.llm"),
    "ernie45": _template("ERNIE", "baidu/ERNIE-4.5-21B-A3B-Thinking"),
    "functionary_v31": _template("Functionary", "meetkai/functionary-medium-v3.1"),
    "functionary_v32": _template("Functionary", "meetkai/functionary-medium-v3.2"),
    "functiongemma": Source("Gemma", "model_card", "google/functiongemma-270m-it: formatting and best practices"),
    "gemma4": _template("Gemma", "Gemma 4"),
    "gigachat3": _template("GigaChat", "ai-sage/GigaChat3-10B-A1.8B"),
    "gigachat35": _template("GigaChat", "GigaChat 3.5"),
    "glm45": _template("GLM", "zai-org/GLM-4.5"),
    "glm47": _template("GLM", "zai-org/GLM-4.7"),
    "granite": _template("Granite", "ibm-granite/granite-3.0-8b-instruct, granite-3.1-8b-instruct"),
    "granite-20b-fc": Source("Granite", "model_card", "ibm-granite/granite-20b-functioncalling: usage"),
    "granite4": _template("Granite", "ibm-granite/granite-4.0-h-small"),
    "hermes": _template("Qwen", "Qwen/Qwen3-8B"),
    "hunyuan_a13b": _template("Hunyuan", "tencent/Hunyuan-A13B-Instruct"),
    "hy_v3": _template("Hunyuan", "Hy3"),
    "hy_v4": _template("Hunyuan", "Hy4"),
    "inkling": _template("Inkling", "Inkling"),
    "internlm": Source("InternLM", "specification", "InternLM/InternLM: chat/chat_format.md"),
    "iquest_q1": _template("IQuest", "IQuest"),
    "jamba": _template("Jamba", "ai21labs/AI21-Jamba-1.5-Mini"),
    "json": Source("any", "specification", "RFC 8259, in the shape of OpenAI's function calls"),
    "k2_horizon": _template("K2 Horizon", "K2 Horizon"),
    "kimi_k2": Source("Kimi", "specification", "moonshotai/Kimi-K2-Instruct: docs/tool_call_guidance.md"),
    "kimi_k3": _template("Kimi", "Kimi K3"),
    "lfm2": Source("LFM", "model_card", "LiquidAI/LFM2-1.2B: tool use"),
    "ling3": _template("Ling", "Ling 3"),
    "llama3_json": Source("Llama", "specification", "Meta's prompt formats for Llama 3.1: JSON based tool calling"),
    "llama4_pythonic": Source("Llama", "specification", "Meta's prompt formats for Llama 4: pythonic tool calling"),
    "longcat": _template("LongCat", "meituan-longcat/LongCat-Flash-Chat"),
    "mimo": _template("MiMo", "XiaomiMiMo/MiMo-V2-Flash"),
    "minicpm5": _template("MiniCPM", "MiniCPM 5"),
    "minimax_m2": Source("MiniMax", "model_card", "MiniMaxAI/MiniMax-M2: docs/tool_calling_guide.md"),
    "minimax_m3": _template("MiniMax", "MiniMax M3"),
    "mistral": Source("Mistral", "specification", "mistral-common: instruct tokenizers v3 to v13"),
    "muse": _template("Muse", "Muse Spark"),
    "muse_glimmer": _template("Muse", "Muse Glimmer"),
    "nemotron_json": _template("Nemotron", "nvidia/NVIDIA-Nemotron-Nano-9B-v2"),
    "olmo3": _template("Olmo", "allenai/Olmo-3-7B-Instruct"),
    "openai": Source("gpt-oss", "specification", "OpenAI's harmony response format"),
    "phi4_mini_json": Source(
        "Phi", "model_card", "microsoft/Phi-4-mini-instruct: tool-enabled function-calling format"
    ),
    "plamo3": _template("PLaMo", "PLaMo 3"),
    "poolside_v1": _template("Laguna", "Poolside Laguna"),
    "pythonic": Source("Llama", "specification", "Meta's prompt formats for Llama 3.2: zero shot function calling"),
    "qwen3_coder": _template("Qwen", "Qwen/Qwen3-Coder-30B-A3B-Instruct"),
    "sarashina": _template("Sarashina", "sbintuitions/sarashina2.2-3b-instruct"),
    "seed_oss": _template("Seed", "ByteDance-Seed/Seed-OSS-36B-Instruct"),
    "solar_open": _template("Solar", "upstage/Solar-Open-100B"),
    "step3": _template("Step", "stepfun-ai/step3"),
    "step3p5": _template("Step", "stepfun-ai/Step-3.5-Flash"),
    "xlam": Source("xLAM", "model_card", "Salesforce/Llama-xLAM-2-8b-fc-r: usage"),
}
