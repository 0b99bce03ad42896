"""Runs, and the tools that run on the gateway's side."""

from tests.dashboards.grafana import Dashboard, Panel, Query, Row, mean, quantile

_TOOLS = "gen_ai_execute_tool_duration_seconds"
_TOOL = "{{extproc_tool_source}}: {{gen_ai_tool_name}}"

RUNNER = Dashboard(
    uid="extproc-runner",
    title="extproc: runner",
    about="Requests whose tools run on the gateway's side: their rounds, and how the tools do.",
    models=False,
    rows=[
        Row(
            "Runs",
            [
                Panel(
                    "Runs by how they ended",
                    unit="reqps",
                    queries=[Query("sum by (end) (rate(extproc_runs_total{OURS}[RATE]))", "{{end}}")],
                    stacked=True,
                ),
                Panel(
                    "Runs by model",
                    unit="reqps",
                    queries=[Query("sum by (model) (rate(extproc_runs_total{OURS}[RATE]))", "{{model}}")],
                    stacked=True,
                ),
                Panel("Under way", queries=[Query("sum by (pod) (extproc_runs_under_way{OURS})", "{{pod}}")]),
                Panel(
                    "How long they took, p95",
                    unit="s",
                    queries=[Query(quantile(0.95, "extproc_run_duration_seconds{OURS}", "model"), "{{model}}")],
                ),
                Panel(
                    "Rounds of a run, mean",
                    queries=[Query(mean("extproc_run_rounds{OURS}", "model"), "{{model}}")],
                ),
                Panel(
                    "Calls left to the client",
                    unit="cps",
                    queries=[
                        Query("sum by (model) (rate(extproc_deferred_tool_calls_total{OURS}[RATE]))", "{{model}}")
                    ],
                ),
            ],
        ),
        Row(
            "Tools",
            [
                Panel(
                    "Calls by tool",
                    unit="cps",
                    queries=[
                        Query(
                            f"sum by (extproc_tool_source, gen_ai_tool_name) (rate({_TOOLS}_count{{OURS}}[RATE]))",
                            _TOOL,
                        )
                    ],
                    stacked=True,
                ),
                Panel(
                    "How long they ran, p95",
                    unit="s",
                    queries=[
                        Query(quantile(0.95, f"{_TOOLS}{{OURS}}", "extproc_tool_source", "gen_ai_tool_name"), _TOOL)
                    ],
                ),
                Panel(
                    "What went wrong",
                    unit="cps",
                    queries=[
                        Query(
                            "sum by (extproc_tool_source, gen_ai_tool_name, error_type)"
                            f' (rate({_TOOLS}_count{{OURS, error_type!=""}}[RATE]))',
                            f"{_TOOL}: {{{{error_type}}}}",
                        )
                    ],
                ),
                Panel(
                    "Seconds in tools, of each second",
                    unit="short",
                    queries=[
                        Query(
                            f"sum by (extproc_tool_source, gen_ai_tool_name) (rate({_TOOLS}_sum{{OURS}}[RATE]))", _TOOL
                        ),
                        Query("sum(rate(extproc_run_duration_seconds_sum{OURS}[RATE]))", "all runs"),
                    ],
                    says="What tools take of the time of runs; models take the rest. Above 1: several run at once.",
                ),
                Panel(
                    "Characters by state",
                    "stat",
                    queries=[Query("sum by (state) (extproc_characters{OURS})", "{{state}}")],
                ),
                Panel(
                    "Tool servers that are connected to",
                    "stat",
                    queries=[Query("min by (server) (extproc_tool_server_up{OURS})", "{{server}}")],
                    below=1,
                ),
            ],
        ),
    ],
)
