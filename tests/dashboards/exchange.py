"""From what happens to many to the one that it happened to. Prometheus holds no single exchange: it has exemplars."""

from tests.dashboards.grafana import Dashboard, Panel, Query, Row, mean, quantile

_HOW = """\
Prometheus adds exchanges up, and holds none. What it has of one is an **exemplar**: the dots in the graphs below are
single requests, each with its `trace_id`, or its `request_id` where nobody traced it.

1. Find a dot where it is slow, and open its trace: *Exemplars* of the Prometheus data source lead there, or put the
   `trace_id` into the field above; by a `request_id` the access log has the trace too (`traceparent`). The trace says
   where the time went: reading the request, waiting for the backend, writing, tools, retries.
2. The **access log** has a line for every request, by its `request_id`, which the client has in the header
   `x-request-id` too: `status`, `details`, `flags`, `first_byte_ms`, `duration_ms`, `extproc_latency`, `extproc.error`,
   tokens, and whose key it was.
3. **`extproc watch`** shows an exchange while it runs, with what the model was shown and what it wrote, and saves a
   recording of it; `extproc diagnose` says of a recording why no call came of it.

Tempo keeps the traces and Loki the logs here. Where you have others, take out those panels: the rest needs Prometheus
alone.
"""
_TIMED = "gen_ai_client_operation_duration_seconds{ASKED}"
_FIRST = "gen_ai_server_time_to_first_token_seconds{ASKED}"
_MODEL = "gen_ai_request_model"

EXCHANGE = Dashboard(
    uid="extproc-exchange",
    title="extproc: one exchange",
    about="From a slow or failed request's dot in a graph to its trace, and to its line in the access log.",
    asks=[("trace", "Trace ID"), ("request", "Request ID")],
    rows=[
        Row("How to find one", [Panel("From many to one", "text", says=_HOW, width=24, height=8)]),
        Row(
            "Which one",
            [
                Panel(
                    "Time to first token, with exemplars",
                    unit="s",
                    queries=[
                        Query(quantile(share, _FIRST), f"p{share * 100:g}", exemplars=True) for share in (0.5, 0.95)
                    ],
                ),
                Panel(
                    "Whole answers, with exemplars",
                    unit="s",
                    queries=[
                        Query(quantile(share, _TIMED), f"p{share * 100:g}", exemplars=True) for share in (0.5, 0.95)
                    ],
                ),
                Panel(
                    "Where an answer's time goes, mean",
                    unit="s",
                    queries=[
                        Query(mean(_FIRST, _MODEL), f"{{{{{_MODEL}}}}}: until the first token"),
                        Query(mean(_TIMED, _MODEL), f"{{{{{_MODEL}}}}}: until the end"),
                    ],
                    says="The first of streams with tools, the second of all answers. Of one its trace says it.",
                ),
            ],
        ),
        Row(
            "The one",
            [
                Panel(
                    "Its trace",
                    "traces",
                    queries=[Query("$trace", "")],
                    says="What a trace looks like, and what its spans say: docs/tracing.md.",
                    width=24,
                    height=12,
                    source="traces",
                ),
                Panel(
                    "Its lines in the access log, and in the logs of the processor",
                    "logs",
                    queries=[Query('{namespace=~"$namespace"} |= "$request" | json | request_id = "$request"', "")],
                    says="Every field: docs/observability.md#access-log.",
                    width=24,
                    source="logs",
                ),
            ],
        ),
        Row(
            "Whose",
            [
                Panel(
                    "Tokens by key",
                    unit="short",
                    queries=[
                        Query(
                            "sum by (extproc_client) (sum_over_time("
                            '{namespace=~"$namespace", container="envoy"} |= "total_tokens" | json'
                            " | unwrap extproc_total_tokens [$__auto]))",
                            "{{extproc_client}}",
                        )
                    ],
                    says="By the names of API keys, from the access log: `alice` or `search/alice`, as `hash-key` "
                    "wrote them. No metric has them, because their number has no bound.",
                    stacked=True,
                    width=24,
                    source="logs",
                )
            ],
        ),
    ],
)
