"""The request's parameters, one row each: what a value must be, and whether the backend gets it.

Everything but `model`, `messages` and the tool parameters, which have modules of their own. A row goes to the backend
when vLLM's chat endpoint uses the field; what only OpenAI has is checked, so that a mistake shows, and then dropped.
A parameter without a row is never an error, and dropped too: vLLM would ignore it, but other servers refuse what they
don't know, and a header tells the client what didn't count. `null` counts as not given.

Sources: OpenAI's API reference for its own parameters; for the others the fields of `ChatCompletionRequest` in vLLM
0.32.0, with the bounds that it and `SamplingParams` set. docs/parameters.md is made from this table.
What clients aren't trusted with has a row here as well; `extproc.contract.withheld` is what holds it back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from extproc.contract.checks import ArrayOf, Boolean, Check, Either, Integer, MapOf, Number, Object, OneOf, Text, Typed
from extproc.contract.errors import ApiError, invalid_value
from extproc.contract.json_body import encode
from extproc.contract.schema_graph import dialect_of
from extproc.contract.servers import SERVERS, Server

MOST_SCHEMA_BYTES = 1024 * 1024
"""Of all tools together. A schema costs up to 1 us per byte to check, and one request must not hold up the others."""

TOOL_PARAMETERS = frozenset({"tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"})
"""The gateway's own business: a backend gets them only in the form that its model's mode needs."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One row of the table."""

    name: str
    check: Check
    forwarded: bool = True
    needs: str | None = None
    """Another parameter, which has to be true for this one to be given."""
    remark: str = ""
    """For the documentation."""


_JSON_SCHEMA = Object(
    {
        "name": Text(
            longest=64,
            form=re.compile(r"[a-zA-Z0-9_-]{1,64}"),
            form_words="a string of 1 to 64 letters, digits, '_' or '-'",
        ),
        "description": Text(),
        "schema": Object(),
        "strict": Boolean(),
    },
    required=("name",),
)
_RESPONSE_FORMAT = Typed(
    {
        "text": Object(),
        "json_object": Object(),
        "json_schema": Object({"json_schema": _JSON_SCHEMA}, required=("json_schema",)),
        "structural_tag": Object(),
    }
)
_STRUCTURED_OUTPUTS = Object(
    {
        "json": Either(Text(), Object()),
        "regex": Text(),
        "choice": ArrayOf(Text(), "strings"),
        "grammar": Text(),
        "json_object": Boolean(),
        "structural_tag": Text(),
        "disable_any_whitespace": Boolean(),
        "disable_additional_properties": Boolean(),
        "whitespace_pattern": Text(),
    }
)
_REPETITION = Object(dict.fromkeys(("max_pattern_size", "min_pattern_size", "min_count"), Integer(0)))
_TOKEN_ID = Text(form=re.compile(r"[0-9]{1,19}"), form_words="a token's id in decimal digits")
_TOKEN_IDS = ArrayOf(Integer(0), "token ids")
_SALT = Text(
    longest=128,
    form=re.compile(r"[^@/\\\0]{1,128}"),
    form_words="a string of 1 to 128 characters without '@', '/', '\\' and NUL",
)

PARAMETERS: tuple[Parameter, ...] = (
    Parameter("stream", Boolean()),
    Parameter(
        "stream_options",
        Object(dict.fromkeys(("include_usage", "include_obfuscation", "continuous_usage_stats"), Boolean())),
        needs="stream",
        remark="`include_obfuscation` has no effect, `continuous_usage_stats` is vLLM's",
    ),
    # OpenAI's, as its reference lists them.
    Parameter("max_tokens", Integer(1), remark="the older name of `max_completion_tokens`"),
    Parameter("max_completion_tokens", Integer(1)),
    Parameter("temperature", Number(0, 2), remark="the backend gets 0.01 for 0 if `n` is more than 1"),
    Parameter("top_p", Number(0, 1), remark="the backend gets 0.000001 for 0: vLLM wants more than 0"),
    Parameter("n", Integer(1, 128)),
    Parameter(
        "stop",
        Either(Text(), ArrayOf(Text(), "strings", most=4)),
        remark="empty strings are left out: vLLM refuses them",
    ),
    Parameter("seed", Integer()),
    Parameter("frequency_penalty", Number(-2, 2)),
    Parameter("presence_penalty", Number(-2, 2)),
    Parameter("logprobs", Boolean(), remark="the gateway asks for them itself where the model has `min_confidence`"),
    Parameter("top_logprobs", Integer(0, 20), needs="logprobs"),
    Parameter("logit_bias", MapOf(Number(-100, 100), name=_TOKEN_ID)),
    Parameter(
        "response_format",
        _RESPONSE_FORMAT,
        remark="`json_schema` without a `schema` becomes `json_object`; `structural_tag` is vLLM's; "
        "a required call takes precedence",
    ),
    Parameter("user", Text(), remark="vLLM accepts and ignores it"),
    Parameter("metadata", MapOf(Text(longest=512), name=Text(longest=64), most=16), forwarded=False),
    Parameter("reasoning_effort", OneOf(("none", "minimal", "low", "medium", "high", "xhigh", "max"))),
    Parameter("service_tier", Text(), forwarded=False),
    Parameter("prompt_cache_key", Text(), forwarded=False, remark="for vLLM's prefix cache see `cache_salt`"),
    Parameter("safety_identifier", Text(), forwarded=False),
    Parameter("verbosity", Text(), forwarded=False),
    Parameter("store", Boolean(), forwarded=False, remark="nothing is ever stored"),
    Parameter("modalities", ArrayOf(Text(), "strings"), forwarded=False, remark="answers are text"),
    # vLLM's own: sampling.
    Parameter("thinking_token_budget", Integer(-1), remark="-1: no limit"),
    Parameter("include_reasoning", Boolean()),
    Parameter("use_beam_search", Boolean()),
    Parameter("top_k", Integer(-1), remark="0 and -1: all tokens"),
    Parameter("min_p", Number(0, 1)),
    Parameter("repetition_penalty", Number(above=0)),
    Parameter("watermarking", Boolean()),
    Parameter("length_penalty", Number(), remark="for beam search"),
    Parameter("stop_token_ids", _TOKEN_IDS),
    Parameter("include_stop_str_in_output", Boolean()),
    Parameter("ignore_eos", Boolean()),
    Parameter("min_tokens", Integer(0)),
    Parameter("skip_special_tokens", Boolean(), remark="always false if the gateway reads calls from the text"),
    Parameter("spaces_between_special_tokens", Boolean(), remark="see `skip_special_tokens`"),
    Parameter("truncate_prompt_tokens", Integer(-1), remark="-1: as many tokens as the model can take"),
    Parameter("truncation_side", OneOf(("left", "right"))),
    Parameter("prompt_logprobs", Integer(-1), remark="-1: all tokens; not with `stream`"),
    Parameter("logprob_token_ids", ArrayOf(Integer(0), "token ids", most=128), needs="logprobs"),
    Parameter("allowed_token_ids", _TOKEN_IDS),
    Parameter("bad_words", ArrayOf(Text(), "strings")),
    # vLLM's own: the prompt.
    Parameter("echo", Boolean()),
    Parameter("add_generation_prompt", Boolean()),
    Parameter("continue_final_message", Boolean(), remark="not with `add_generation_prompt: true`"),
    Parameter("add_special_tokens", Boolean()),
    Parameter("documents", ArrayOf(MapOf(Text()), "objects with string values"), remark="for the chat template"),
    Parameter("chat_template", Text()),
    Parameter("chat_template_kwargs", Object()),
    Parameter("media_io_kwargs", MapOf(Object()), remark="only if vLLM is told to trust it"),
    Parameter("mm_processor_kwargs", Object(), remark="only if vLLM is told to trust it"),
    Parameter(
        "structured_outputs",
        _STRUCTURED_OUTPUTS,
        remark="exactly one of the first six, and not with `response_format`; a required call takes precedence",
    ),
    # vLLM's own: scheduling, tracing and what comes back.
    Parameter("priority", Integer(), remark="lower is served sooner; only with priority scheduling"),
    Parameter("request_id", Text()),
    Parameter("session_id", Text()),
    Parameter("return_tokens_as_token_ids", Boolean()),
    Parameter("return_token_ids", Boolean()),
    Parameter("routed_experts_prompt_start", Integer(0)),
    Parameter("return_prompt_text", Boolean()),
    Parameter("cache_salt", _SALT),
    Parameter("kv_transfer_params", Object()),
    Parameter("ec_transfer_params", Object()),
    Parameter("vllm_xargs", Object()),
    Parameter("repetition_detection", _REPETITION),
    Parameter("stream_interval", Integer(1)),
)

FORWARDED: frozenset[str] = frozenset({"model", "messages"}) | {row.name for row in PARAMETERS if row.forwarded}
"""The names of all that goes to the backend as it is."""


def parameter_problems(fields: Mapping[str, Any]) -> Iterator[ApiError]:
    """What is wrong with the parameters of the table, in its order."""
    for row in _rows_of(fields):
        value = fields[row.name]
        yield from row.check.problems(value, row.name)
        if row.needs is not None and fields.get(row.needs) is not True:
            yield invalid_value(row.name, f"it is only allowed when '{row.needs}' is true.")
    yield from _relation_problems(fields)


def with_integers(fields: dict[str, Any]) -> dict[str, Any]:
    """A valid request whose integers are written as such; the very same object if they were."""
    read = {row.name: row.check.read(fields[row.name]) for row in _rows_of(fields)}
    return {**fields, **read} if any(value is not fields[name] for name, value in read.items()) else fields


def _rows_of(fields: Mapping[str, Any]) -> list[Parameter]:
    """Those of the table that the request has a value for, in its order."""
    found = [place for name in fields if (place := _PLACES.get(name)) is not None and fields[name] is not None]
    return [PARAMETERS[place] for place in sorted(found)]


_PLACES = {row.name: place for place, row in enumerate(PARAMETERS)}
_KINDS = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")


def _relation_problems(fields: Mapping[str, Any]) -> Iterator[ApiError]:
    """What vLLM would refuse in words of its own: parameters that don't go together."""
    outputs, format_ = fields.get("structured_outputs"), fields.get("response_format")
    if isinstance(outputs, dict):
        kinds = [kind for kind in _KINDS if outputs.get(kind) is not None]
        if len(kinds) != 1:
            got = " and ".join(kinds) or "none"
            yield invalid_value("structured_outputs", f"expected one of {', '.join(_KINDS)}, got {got}.")
        elif isinstance(format_, dict) and format_.get("type") != "text":
            yield invalid_value(
                "structured_outputs", "it can't be combined with 'response_format'; send one of the two."
            )
    if isinstance(format_, dict) and format_.get("type") == "json_schema":
        inner = format_.get("json_schema")
        schema = inner.get("schema") if isinstance(inner, dict) else None
        if isinstance(schema, dict) and len(encode(schema)) > MOST_SCHEMA_BYTES:
            yield invalid_value(
                "response_format.json_schema.schema", f"expected a schema of at most {MOST_SCHEMA_BYTES} bytes."
            )
        elif isinstance(schema, dict) and not dialect_of(schema).meta_schema.is_valid(schema):
            yield invalid_value("response_format.json_schema.schema", "it is not valid JSON Schema.")
    if fields.get("prompt_logprobs") is not None and fields.get("stream") is True:
        yield invalid_value("prompt_logprobs", "it is not available when 'stream' is true.")
    if fields.get("continue_final_message") is True and fields.get("add_generation_prompt") is True:
        yield invalid_value("continue_final_message", "it can't be combined with 'add_generation_prompt': true.")
    least = _whole(fields.get("min_tokens"))
    most = _whole(_first(fields, "max_completion_tokens", "max_tokens"))
    if least is not None and most is not None and least > most:
        yield invalid_value("min_tokens", f"expected at most the {most} tokens that the answer may have, got {least}.")


def _first(fields: Mapping[str, Any], *names: str) -> Any:
    return next((value for name in names if (value := fields.get(name)) is not None), None)


def _whole(value: Any) -> int | None:
    is_integer = type(value) is int or (isinstance(value, float) and value.is_integer())
    return int(value) if is_integer else None


def split(
    fields: Mapping[str, Any], also: Collection[str] = (), server: Server = SERVERS["vllm"]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What of a valid request goes to the backend, and the names of what doesn't, sorted; the tool parameters and what
    is null are in neither.

    `also` names parameters that this backend takes besides those of the table that its `server` knows.
    """
    passed = _passed(frozenset(also), server.takes)
    given = {name: value for name, value in fields.items() if value is not None}
    forwarded = {name: value for name, value in given.items() if name in passed}
    for name, spell in _SPELLED.items():
        if name in forwarded and (spelled := spell(forwarded.pop(name))) is not None:
            forwarded[name] = spelled
    if forwarded.get("temperature") == 0 and (forwarded.get("n") or 1) > 1:
        forwarded["temperature"] = _LEAST_TEMPERATURE
    spelled, lost = server.spell(forwarded)
    return spelled, tuple(sorted((given.keys() - passed - TOOL_PARAMETERS) | lost))


def _top_p(value: Any) -> Any:
    return _LEAST_TOP_P if value == 0 else value


def _stop(value: Any) -> Any:
    """Without the empty strings, which stop nothing."""
    if isinstance(value, list):
        return value if all(value) else [text for text in value if text] or None
    return value or None


def _response_format(value: Any) -> Any:
    schemaless = value.get("type") == "json_schema" and value["json_schema"].get("schema") is None
    return {"type": "json_object"} if schemaless else value


_LEAST_TOP_P = 1e-6
_LEAST_TEMPERATURE = 0.01
"""vLLM allows several choices only if they can differ, and takes no temperature between this one and 0."""
_SPELLED: Mapping[str, Callable[[Any], Any]] = {"top_p": _top_p, "stop": _stop, "response_format": _response_format}
"""What OpenAI allows and vLLM refuses, in a form that means the same to vLLM; None leaves it out."""


@lru_cache
def _passed(also: frozenset[str], takes: frozenset[str] | None) -> frozenset[str]:
    known = FORWARDED if takes is None else takes | {"model", "messages"}
    return known.union(also) - TOOL_PARAMETERS
