"""How well models call, and how fast they answer."""

from tests.dashboards.grafana import Dashboard, Panel, Query, Row, mean, quantile

_OF_ALL = 'sum by (model, mode, format) (increase(extproc_calls_total{MODEL, result!="cut_off"}[SPAN])) > 0'
_MODEL = "gen_ai_request_model"
_NAMED = "{{model}}: {{mode}} {{format}}"

MODELS = Dashboard(
    uid="extproc-models",
    title="extproc: model quality",
    about="How many calls are valid and what is wrong with the others, how fast models answer, and their tokens.",
    rows=[
        Row(
            "Calls",
            [
                Panel(
                    "Valid calls, by model, mode and format",
                    "bargauge",
                    "percentunit",
                    [
                        Query(
                            'sum by (model, mode, format) (increase(extproc_calls_total{MODEL, result="valid"}[SPAN]))'
                            f" / ({_OF_ALL})",
                            _NAMED,
                        )
                    ],
                    says="Of all that were checked, in the time that is shown. A wrong `format` is the first thing to "
                    "look at where the share is low.",
                    below=0.95,
                ),
                Panel(
                    "Valid among the last 200 calls",
                    "bargauge",
                    "percentunit",
                    [
                        Query(
                            'sum by (model, mode) (extproc_recent_calls{MODEL, result="valid"})'
                            " / (sum by (model, mode) (extproc_recent_calls{MODEL}) > 0)",
                            "{{model}}: {{mode}}",
                        )
                    ],
                    below=0.95,
                ),
                Panel(
                    "Calls by what was wrong with them",
                    unit="cps",
                    queries=[Query("sum by (result) (rate(extproc_calls_total{MODEL}[RATE]))", "{{result}}")],
                    stacked=True,
                ),
                Panel(
                    "Invalid calls, by model and fault",
                    unit="cps",
                    queries=[
                        Query(
                            "sum by (model, fault) (rate(extproc_invalid_calls_total{MODEL}[RATE]) > 0)",
                            "{{model}}: {{fault}}",
                        )
                    ],
                ),
                Panel(
                    "Whole answers with tools, by whether they called",
                    unit="reqps",
                    queries=[
                        Query(
                            "sum by (model, called) (rate(extproc_tool_answers_total{MODEL}[RATE]) > 0)",
                            "{{model}}: {{called}}",
                        )
                    ],
                ),
                Panel(
                    "Why answers ended",
                    unit="cps",
                    queries=[Query("sum by (reason) (rate(extproc_finish_reasons_total{MODEL}[RATE]))", "{{reason}}")],
                    stacked=True,
                ),
                Panel(
                    "Forced, asked once more",
                    unit="reqps",
                    queries=[
                        Query("sum by (model) (rate(extproc_forced_requests_total{MODEL}[RATE]))", "{{model}}: forced"),
                        Query(
                            "sum by (model, result) (rate(extproc_retries_total{MODEL}[RATE]) > 0)",
                            "{{model}}: once more, {{result}}",
                        ),
                        Query(
                            "sum by (model) (rate(extproc_unsure_answers_total{MODEL}[RATE])) > 0",
                            "{{model}}: unsure of its call",
                        ),
                    ],
                ),
                Panel(
                    "How sure models are of their calls (`min_confidence`)",
                    queries=[
                        Query(quantile(share, "extproc_call_confidence{MODEL}", "model"), f"{{{{model}}}}: {told}")
                        for share, told in ((0.5, "half below"), (0.05, "1 in 20 below"))
                    ],
                    below=0.92,
                ),
                Panel(
                    "Steps of models that are steered",
                    queries=[
                        Query("sum by (model, step) (extproc_steering_step{MODEL})", "{{model}}: {{step}}"),
                        Query(
                            "sum by (model, direction) (increase(extproc_steering_changes_total{MODEL}[RATE]) > 0)",
                            "{{model}}: goes {{direction}}",
                        ),
                    ],
                ),
                Panel(
                    "Why there is no call, or no whole one",
                    unit="cps",
                    queries=[
                        Query(
                            "sum by (model, cause) (rate(extproc_diagnosed_total{MODEL}[RATE]) > 0)",
                            "{{model}}: {{cause}}",
                        )
                    ],
                ),
                Panel(
                    "Repaired, dropped, withheld",
                    unit="cps",
                    queries=[
                        Query(
                            "sum by (model) (rate(extproc_repaired_arguments_total{MODEL}[RATE]) > 0)",
                            "{{model}}: repaired in the history",
                        ),
                        Query(
                            "sum by (model, repair) (rate(extproc_repaired_calls_total{MODEL}[RATE]) > 0)",
                            "{{model}}: repaired {{repair}}",
                        ),
                        Query(
                            "sum by (parameter) (rate(extproc_dropped_parameters_total{OURS}[RATE]))",
                            "dropped: {{parameter}}",
                        ),
                        Query(
                            "sum by (model) (rate(extproc_withheld_error_texts_total{MODEL}[RATE]) > 0)",
                            "{{model}}: withheld",
                        ),
                    ],
                ),
                Panel(
                    "How fast the budget of valid calls burns",
                    queries=[Query('extproc:objective_burn:rate6h{MODEL, objective="valid_calls"}', "{{model}}")],
                    says="In six hours; above 6 somebody is woken (docs/observability.md#objectives).",
                    above=6,
                ),
            ],
        ),
        Row(
            "Time",
            [
                Panel(
                    "Time to first token, median",
                    unit="s",
                    queries=[
                        Query(
                            quantile(0.5, "gen_ai_server_time_to_first_token_seconds{ASKED}", _MODEL),
                            f"{{{{{_MODEL}}}}}",
                        )
                    ],
                ),
                Panel(
                    "Time to first token, p95",
                    unit="s",
                    queries=[
                        Query(
                            quantile(0.95, "gen_ai_server_time_to_first_token_seconds{ASKED}", _MODEL),
                            f"{{{{{_MODEL}}}}}",
                        )
                    ],
                    above=2.5,
                ),
                Panel(
                    "Time per token behind the first, median",
                    unit="s",
                    queries=[
                        Query(
                            quantile(0.5, "gen_ai_server_time_per_output_token_seconds{ASKED}", _MODEL),
                            f"{{{{{_MODEL}}}}}",
                        )
                    ],
                ),
                Panel(
                    "Whole answers, p95",
                    unit="s",
                    queries=[
                        Query(
                            quantile(0.95, "gen_ai_client_operation_duration_seconds{ASKED}", _MODEL),
                            f"{{{{{_MODEL}}}}}",
                        )
                    ],
                ),
                Panel(
                    "Errors by type",
                    unit="reqps",
                    queries=[
                        Query(
                            "sum by (error_type)"
                            ' (rate(gen_ai_client_operation_duration_seconds_count{ASKED, error_type!=""}[RATE]))',
                            "{{error_type}}",
                        )
                    ],
                ),
                Panel(
                    "How fast the budget of late first tokens burns",
                    queries=[Query('extproc:objective_burn:rate6h{MODEL, objective="first_token"}', "{{model}}")],
                    says="In six hours; above 6 somebody is woken (docs/observability.md#objectives).",
                    above=6,
                ),
            ],
        ),
        Row(
            "Tokens",
            [
                Panel(
                    "Tokens by model and kind",
                    unit="suffix: tok/s",
                    queries=[
                        Query("sum by (model, kind) (rate(extproc_tokens_total{MODEL}[RATE]))", "{{model}}: {{kind}}")
                    ],
                    stacked=True,
                ),
                Panel(
                    "Tokens by team",
                    unit="suffix: tok/s",
                    queries=[Query("sum by (team) (rate(extproc_team_tokens_total{OURS}[RATE]))", "{{team}}")],
                    says="Of the teams that the settings name. No metric has clients' keys: their number has no bound. "
                    "Tokens by key are in the access log (`extproc.client`): the dashboard of one exchange has them.",
                    stacked=True,
                ),
                Panel(
                    "Tokens of one answer, mean",
                    queries=[
                        Query(
                            mean("gen_ai_client_token_usage{ASKED}", _MODEL, "gen_ai_token_type"),
                            f"{{{{{_MODEL}}}}}: {{{{gen_ai_token_type}}}}",
                        )
                    ],
                ),
                Panel(
                    "Prompts, p95",
                    queries=[
                        Query(
                            quantile(0.95, 'gen_ai_client_token_usage{ASKED, gen_ai_token_type="input"}', _MODEL),
                            f"{{{{{_MODEL}}}}}",
                        )
                    ],
                    says="Tokens. What comes near the context length of a model is refused soon.",
                ),
            ],
        ),
    ],
)
