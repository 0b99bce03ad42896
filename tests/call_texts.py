"""Calls as models write them, for tests that need the text of one and vary what stands in it."""

from __future__ import annotations


def hermes(city: str) -> str:
    """A call of get_weather."""
    return f'<tool_call>\n{{"name": "get_weather", "arguments": {{"city": "{city}"}}}}\n</tool_call>'


def gemma(*cities: str) -> str:
    """A call of get_weather for each."""
    return "".join(f'<|tool_call>call:get_weather{{city:<|"|>{city}<|"|>}}<tool_call|>' for city in cities)


def qwen3(name: str, *parameters: tuple[str, str]) -> str:
    inside = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters)
    return f"<tool_call>\n<function={name}>\n{inside}</function>\n</tool_call>"


def glm(name: str, inside: str) -> str:
    """`inside` are its keys and values."""
    return f"<tool_call>{name}\n{inside}</tool_call>"


def deepseek_v3(*calls: tuple[str, str]) -> str:
    """Names with their arguments as JSON."""
    inside = "".join(
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>"
        for name, arguments in calls
    )
    return f"<｜tool▁calls▁begin｜>{inside}<｜tool▁calls▁end｜>"


def deepseek_v31(*calls: tuple[str, str]) -> str:
    """Names with their arguments as JSON."""
    inside = "".join(
        f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>" for name, arguments in calls
    )
    return f"<｜tool▁calls▁begin｜>{inside}<｜tool▁calls▁end｜>"


def dsml(section: str, name: str, *parameters: tuple[str, str, str]) -> str:
    """DeepSeek V3.2 and V4; parameters are keys, `string` attributes and values."""
    inside = "".join(
        f'<｜DSML｜parameter name="{key}" string="{string}">{value}</｜DSML｜parameter>\n'
        for key, string, value in parameters
    )
    return f'<｜DSML｜{section}>\n<｜DSML｜invoke name="{name}">\n{inside}</｜DSML｜invoke>\n</｜DSML｜{section}>'


def kimi(*calls: tuple[str, str]) -> str:
    """Ids with their arguments as JSON."""
    inside = "".join(
        f"<|tool_call_begin|>{identifier}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"
        for identifier, arguments in calls
    )
    return f"<|tool_calls_section_begin|>{inside}<|tool_calls_section_end|>"


def minimax(*calls: tuple[str, dict[str, str]]) -> str:
    """Names with their parameters."""
    inside = ""
    for name, parameters in calls:
        tags = "".join(f'<parameter name="{key}">{value}</parameter>\n' for key, value in parameters.items())
        inside += f'<invoke name="{name}">\n{tags}</invoke>\n'
    return f"<minimax:tool_call>\n{inside}</minimax:tool_call>"


def step3(*calls: tuple[str, dict[str, str]]) -> str:
    """Names with their parameters."""
    inside = ""
    for name, parameters in calls:
        tags = "".join(
            f'<steptml:parameter name="{key}">{value}</steptml:parameter>' for key, value in parameters.items()
        )
        inside += (
            f'<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">{tags}</steptml:invoke>'
            "<｜tool_call_end｜>"
        )
    return f"<｜tool_calls_begin｜>{inside}<｜tool_calls_end｜>"
