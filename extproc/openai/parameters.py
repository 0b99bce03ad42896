"""Which request parameters go on to the backend.

vLLM ignores what it doesn't know, but other servers refuse it, and a parameter that is not passed on should not
look as if it were. Source: vLLM's `ChatCompletionRequest` as documented for its OpenAI-compatible server.
"""

from __future__ import annotations

FORWARDED: frozenset[str] = frozenset(
    """
    model messages stream stream_options n max_tokens max_completion_tokens temperature top_p seed stop user
    frequency_penalty presence_penalty logit_bias logprobs top_logprobs response_format reasoning_effort
    top_k min_p repetition_penalty length_penalty use_beam_search stop_token_ids include_stop_str_in_output
    ignore_eos min_tokens skip_special_tokens spaces_between_special_tokens truncate_prompt_tokens
    prompt_logprobs allowed_token_ids bad_words echo add_generation_prompt continue_final_message
    add_special_tokens documents chat_template chat_template_kwargs mm_processor_kwargs structured_outputs
    include_reasoning priority request_id return_tokens_as_token_ids return_token_ids cache_salt
    kv_transfer_params vllm_xargs metadata store service_tier
    """.split()
)
"""Everything but the tool parameters, which are this gateway's own business."""
