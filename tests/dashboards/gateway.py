"""What passes through the gateway, how it ends, and what the processes use."""

from tests.dashboards.grafana import Dashboard, Panel, Query, Row, quantile

_ANSWERS = "extproc_answers_total"
_ENVOYS = 'envoy_http_conn_manager_prefix="openai"'
_BURN = "extproc:objective_burn"
_OF_US = "and on (namespace, pod, instance) extproc_build_info"

GATEWAY = Dashboard(
    uid="extproc-gateway",
    title="extproc: gateway",
    about="Requests, how their answers end, how long they take, and what Envoy and the processors use.",
    rows=[
        Row(
            "Objectives",
            [
                Panel(
                    "Answers that ended well",
                    "stat",
                    "percentunit",
                    [
                        Query(
                            'sum(increase(extproc_answers_total{MODEL, end="complete"}[SPAN]))'
                            ' / sum(increase(extproc_answers_total{MODEL, end!~"refused|left_by_client"}[SPAN]))',
                            "",
                        )
                    ],
                    says="Of those that the gateway had to answer, in the time that is shown.",
                    below=0.99,
                    width=4,
                ),
                Panel(
                    "Requests",
                    "stat",
                    "reqps",
                    [Query("sum(rate(extproc_requests_total{MODEL}[RATE]))", "")],
                    width=4,
                ),
                Panel(
                    "How fast the budgets burn, in an hour",
                    unit="short",
                    queries=[Query(f"{_BURN}:rate1h{{MODEL}}", "{{model}}: {{objective}}")],
                    says="At 1 what may fail in 30 days lasts just so long; at 14.4 somebody is woken "
                    "(docs/observability.md#objectives has where to look).",
                    above=14.4,
                    width=16,
                ),
            ],
        ),
        Row(
            "Work",
            [
                Panel(
                    "Requests by model",
                    unit="reqps",
                    queries=[Query("sum by (model) (rate(extproc_requests_total{MODEL}[RATE]))", "{{model}}")],
                    stacked=True,
                ),
                Panel(
                    "Requests by team",
                    unit="reqps",
                    queries=[Query("sum by (team) (rate(extproc_team_requests_total{OURS}[RATE]))", "{{team}}")],
                    says="Of the teams that the settings name.",
                    stacked=True,
                ),
                Panel(
                    "With tools, by model",
                    unit="reqps",
                    queries=[
                        Query("sum by (model) (rate(extproc_requests_with_tools_total{MODEL}[RATE]))", "{{model}}")
                    ],
                    stacked=True,
                ),
                Panel(
                    "Exchanges under way",
                    queries=[Query("max by (pod) (extproc_running_exchanges{OURS})", "{{pod}}")],
                    above=110,
                ),
                Panel(
                    "Bytes of bodies",
                    unit="Bps",
                    queries=[
                        Query("sum by (direction) (rate(extproc_answer_bytes_total{MODEL}[RATE]))", "{{direction}}"),
                    ],
                ),
                Panel(
                    "Bytes of requests, known and new",
                    unit="Bps",
                    queries=[Query("sum by (part) (rate(extproc_request_bytes_total{OURS}[RATE]))", "{{part}}")],
                    stacked=True,
                ),
                Panel(
                    "Requests by dialect",
                    unit="reqps",
                    queries=[Query(f"sum by (dialect) (rate({_ANSWERS}{{MODEL}}[RATE]))", "{{dialect}}")],
                    stacked=True,
                ),
            ],
        ),
        Row(
            "How answers end",
            [
                Panel(
                    "All of them",
                    unit="reqps",
                    queries=[Query(f"sum by (end) (rate({_ANSWERS}{{MODEL}}[RATE]))", "{{end}}")],
                    stacked=True,
                ),
                Panel(
                    "Cut, left, late: which model's",
                    unit="reqps",
                    queries=[
                        Query(
                            f'sum by (model, end) (rate({_ANSWERS}{{MODEL, end=~"cut.*|left.*|timeout"}}[RATE]) > 0)',
                            "{{model}}: {{end}}",
                        )
                    ],
                    says="Whose connection ended first: the backend's, the client's, or Envoy ran out of patience.",
                ),
                Panel(
                    "Errors inside streams: why",
                    unit="reqps",
                    queries=[
                        Query(
                            "sum by (model, code) (rate(extproc_stream_errors_total{MODEL}[RATE]))",
                            "{{model}}: {{code}}",
                        )
                    ],
                ),
                Panel(
                    "Errors instead of answers",
                    unit="reqps",
                    queries=[
                        Query(
                            "sum by (model, status) (rate(extproc_backend_errors_total{MODEL}[RATE]))",
                            "{{model}}: {{status}}",
                        ),
                        Query(
                            "sum by (alias, model, reason) (rate(extproc_fallbacks_total{MODEL}[RATE]) > 0)",
                            "{{alias}}: a fallback, because {{model}} is {{reason}}",
                        ),
                    ],
                ),
                Panel(
                    "Refused before any backend",
                    unit="reqps",
                    queries=[Query("sum by (code) (rate(extproc_refused_requests_total{OURS}[RATE]))", "{{code}}")],
                ),
                Panel(
                    "Unfinished, and broken off by us",
                    unit="reqps",
                    queries=[
                        Query("sum by (phase) (rate(extproc_unfinished_exchanges_total{OURS}[RATE]))", "{{phase}}"),
                        Query(
                            "sum by (reason) (rate(extproc_aborted_exchanges_total{OURS}[RATE]))", "by us: {{reason}}"
                        ),
                    ],
                ),
            ],
        ),
        Row(
            "How long they take",
            [
                Panel(
                    "Whole answers",
                    unit="s",
                    queries=[
                        Query(quantile(share, "gen_ai_client_operation_duration_seconds{ASKED}"), f"p{share * 100:g}")
                        for share in (0.5, 0.95, 0.99)
                    ],
                    says="Of all models. By model: the dashboard of models.",
                ),
                Panel(
                    "First byte of answers without tools, p95",
                    unit="s",
                    queries=[Query(quantile(0.95, "extproc_time_to_first_byte_seconds{MODEL}", "model"), "{{model}}")],
                ),
                Panel(
                    "As Envoy has it, p95",
                    unit="ms",
                    queries=[
                        Query(quantile(0.95, f"envoy_http_downstream_rq_time{{OURS, {_ENVOYS}}}"), "all requests")
                    ],
                    says="From the first byte of a request to the last of its answer, refused ones too.",
                ),
            ],
        ),
        Row(
            "Processors",
            [
                Panel(
                    "Event loop: longest rounds, p99",
                    unit="s",
                    queries=[Query(quantile(0.99, "extproc_loop_lag_seconds{OURS}", "pod"), "{{pod}}")],
                    above=0.05,
                ),
                Panel(
                    "Memory",
                    unit="bytes",
                    queries=[
                        Query(f"process_resident_memory_bytes{{OURS}} {_OF_US}", "{{pod}}: all"),
                        Query("sum by (pod) (extproc_memory_bytes{OURS})", "{{pod}}: conversations"),
                    ],
                    says="Resident, of all of a pod's processes. The limit of the container is what matters.",
                ),
                Panel(
                    "Processor time",
                    unit="short",
                    queries=[Query(f"rate(process_cpu_seconds_total{{OURS}}[RATE]) {_OF_US}", "{{pod}}")],
                    says="Cores. A worker has one: near that it is full, and more pods or workers share the work.",
                ),
                Panel(
                    "Queue of large bodies",
                    queries=[Query("sum by (pod) (extproc_reading_queue{OURS})", "{{pod}}")],
                ),
                Panel(
                    "Its bytes",
                    unit="bytes",
                    queries=[Query("sum by (pod) (extproc_reading_queue_bytes{OURS})", "{{pod}}")],
                    above=128_000_000,
                ),
                Panel(
                    "Transport: calls and connections",
                    queries=[
                        Query("sum by (pod) (extproc_transport_streams{OURS})", "{{pod}}: calls"),
                        Query("sum by (pod) (extproc_transport_connections{OURS})", "{{pod}}: connections"),
                    ],
                ),
                Panel(
                    "Transport: replies that Envoy hasn't taken",
                    unit="bytes",
                    queries=[Query("sum by (pod) (extproc_transport_unsent_bytes{OURS})", "{{pod}}")],
                ),
                Panel(
                    "Workers started again, conversations forgotten",
                    queries=[
                        Query(
                            "sum by (pod) (increase(extproc_worker_restarts_total{OURS}[RATE]))", "{{pod}}: restarts"
                        ),
                        Query(
                            "sum by (pod) (increase(extproc_memory_forgotten_bytes_total{OURS}[RATE]))",
                            "{{pod}}: forgotten bytes",
                        ),
                    ],
                ),
                Panel(
                    "Garbage collections",
                    unit="ops",
                    queries=[
                        Query(
                            f"sum by (pod, generation) (rate(python_gc_collections_total{{OURS}}[RATE]) {_OF_US})",
                            "{{pod}}: {{generation}}",
                        )
                    ],
                    says="Python's, by generation. Those of generation 2 look at everything that lives.",
                ),
            ],
        ),
        Row(
            "Envoy",
            [
                Panel(
                    "Answers by class",
                    unit="reqps",
                    queries=[
                        Query(
                            "sum by (envoy_response_code_class)"
                            f" (rate(envoy_http_downstream_rq_xx{{OURS, {_ENVOYS}}}[RATE]))",
                            "{{envoy_response_code_class}}xx",
                        )
                    ],
                    says="`details` in the access log tells of each whether a backend, the processor or Envoy made it.",
                    stacked=True,
                ),
                Panel(
                    "Backends: requests under way",
                    queries=[
                        Query(
                            "sum by (envoy_cluster_name)"
                            ' (envoy_cluster_upstream_rq_active{OURS, envoy_cluster_name!~"_.*"})',
                            "{{envoy_cluster_name}}",
                        )
                    ],
                    says="Those of `_processor` and other parts of the gateway aside.",
                ),
                Panel(
                    "Backends: turned away, cut, out of reach",
                    unit="reqps",
                    queries=[
                        Query(
                            "sum by (envoy_cluster_name) (rate(envoy_cluster_upstream_rq_active_overflow"
                            '{OURS, envoy_cluster_name!~"_.*"}[RATE]) + rate(envoy_cluster_upstream_rq_pending_overflow'
                            '{OURS, envoy_cluster_name!~"_.*"}[RATE])) > 0',
                            "{{envoy_cluster_name}}: has max_requests",
                        ),
                        Query(
                            "sum by (envoy_cluster_name) (rate(envoy_cluster_upstream_cx_protocol_error"
                            '{OURS, envoy_cluster_name!~"_.*"}[RATE])) > 0',
                            "{{envoy_cluster_name}}: cut",
                        ),
                        Query(
                            "sum by (envoy_cluster_name)"
                            " (rate(envoy_cluster_upstream_cx_connect_fail{OURS}[RATE])) > 0",
                            "{{envoy_cluster_name}}: no connection",
                        ),
                    ],
                    says="Turned away: more replicas, or a higher `max_requests`. Cut: the backend, or a proxy before "
                    "it, dies or has a time limit. `_processor` without a connection: its last log tells why it ended.",
                ),
            ],
        ),
        Row(
            "Configuration",
            [
                Panel(
                    "Files in force as they are",
                    "stat",
                    queries=[
                        Query("min(extproc_config_valid{OURS})", "configuration"),
                        Query("min(extproc_api_keys_valid{OURS})", "API keys"),
                        Query("min(extproc_host_follows_overrides{OURS})", "Envoy follows"),
                    ],
                    below=1,
                    width=12,
                    height=5,
                ),
                Panel(
                    "Different configurations, and versions",
                    "stat",
                    queries=[
                        Query(
                            "max(count by (namespace) (count by (namespace, hash) (extproc_config_info{OURS})))",
                            "configurations",
                        ),
                        Query(
                            "max(count by (namespace) (count by (namespace, version) (extproc_build_info{OURS})))",
                            "versions",
                        ),
                    ],
                    says="In one namespace. More than one for longer than a roll-out, or the two minutes of a change: "
                    "a pod hasn't seen it, or refuses it.",
                    above=2,
                    width=12,
                    height=5,
                ),
            ],
        ),
    ],
)
