"""Where each block of code is at home: the test that runs it or holds it, or why none does.

An entry is for the blocks of a page that begin so; without a beginning, for all in that language. The first entry that
fits counts, and each has to be of use. Command lines of all blocks are held by test_words.py besides, and settings by
test_settings.py; what says more than that stands here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tests.documented.blocks import Block


class Why(StrEnum):
    """Why no test runs a block, or compares it."""

    CLUSTER = "it takes a cluster; kubectl understands it, what it applies is rendered, what it names is there"
    OTHERS = "it installs what isn't ours from a registry, or asks somebody else's server"
    GPU = "it takes a vLLM, on a GPU or of some gigabytes"
    LONG = "it measures or searches, for minutes to hours; its options are understood"
    CONTAINERS = "it builds and pushes images, which takes a daemon; tests/pods follows the Dockerfiles' steps"
    HELM = "it takes a cluster; Helm's own engine renders the chart (tests/chart)"
    DRAWN = "it is drawn, and nothing prints it"


@dataclass(frozen=True)
class Held:
    """By a function of a file of tests. The file names the page, or the folder of pages that it reads."""

    file: str
    function: str


@dataclass(frozen=True)
class Entry:
    page: str
    language: str
    starts: str
    home: Held | Why

    def fits(self, block: Block) -> bool:
        return (block.page, block.language) == (self.page, self.language) and block.text.startswith(self.starts)


OURS = "tests/documented/test_commands.py"
WORDS = "tests/documented/test_words.py"
READMES = "tests/k8s/test_readmes.py"
LIMITS = "tests/k8s/test_rate_limit.py"
SETTINGS = Held("tests/documented/test_settings.py", "test_a_block_is_a_configuration")
SHOWN = "tests/documented/test_shown.py"
JUDGE = "tests/test_conformance_command.py"
CLIENTS = "tests/clients/test_clients_document.py"
TUTORIAL = "tests/clients/test_tutorial.py"
CURL = "curl -sS http://127.0.0.1:10000/v1/chat/completions"
IMAGE = Held("tests/pods/installed.py", "test_up_gets_a_call_through_envoy_and_leaves_nothing_behind")
TOLD = Held("tests/test_aliases.py", "test_an_answer_tells_which_it_is_of")
WALK = Held("tests/test_fleets.py", "test_a_walk_breaks_no_stream_and_asks_whom_it_should")
MAKE = Held(WORDS, "test_targets_and_variables_are_those_of_the_makefile")


def home(block: Block) -> Held | Why | None:
    """Where it is at home; None where it has none."""
    return next((entry.home for entry in CATALOGUE if entry.fits(block)), None)


_ENTRIES: dict[str, list[tuple[str, str, Held | Why]]] = {
    "CONTRIBUTING.md": [("bash", "pipx install pre-commit", Why.OTHERS)],
    "README.md": [
        ("", "Cline, Claude Code, Codex", Why.DRAWN),
        ("bash", "make run       # sets up", MAKE),
        (
            "bash",
            CURL + " -H 'content-type: application/json' -d '{\n  \"model\": \"character/",
            Held("tests/test_run_docs.py", "test_the_readmes_character_has_used_its_tool"),
        ),
        ("bash", "curl", Held("tests/test_readme.py", "test_the_second_command_gets_an_answer_that_uses_the_result")),
        ("bash", "python3 -m venv gateway", IMAGE),
        ("bash", "make run BACKEND=", MAKE),
        (
            "bash",
            "npm install -g cline",
            Held("tests/test_readme.py", "test_what_cline_is_told_is_what_the_page_of_clients_says"),
        ),
        ("yaml", "listen:", Held("tests/test_readme.py", "test_the_sample_configuration_is_valid")),
    ],
    "bench/README.md": [("bash", "", Why.LONG)],
    "deploy/helm/extproc/README.md": [
        ("bash", "helm install", Why.HELM),
        (
            "bash",
            "extproc limits",
            Held("tests/chart/test_helm.py", "test_limits_of_a_file_of_settings_are_those_of_the_overlay"),
        ),
        (
            "yaml",
            "# my-values.yaml",
            Held("tests/chart/test_helm.py", "test_the_values_that_the_readme_prints_are_taken"),
        ),
    ],
    "deploy/k8s/README.md": [
        ("bash", "docker build", Why.CONTAINERS),
        ("bash", "extproc check my-gateway", Why.CLUSTER),
        (
            "bash",
            "extproc envoy --dynamic",
            Held("tests/k8s/test_pod.py", "test_envoys_bootstrap_is_what_the_command_prints"),
        ),
        ("bash", "openssl rand", Held(OURS, "test_keys_are_made_and_come_into_a_secret")),
        (
            "yaml",
            "# my-gateway/kustomization.yaml",
            Held(READMES, "test_a_kustomization_of_ones_own_has_the_parts_that_it_names"),
        ),
        ("yaml", "patches:", Held(READMES, "test_other_backends_come_in_by_a_patch")),
    ],
    "deploy/k8s/overlays/characters/README.md": [
        ("bash", "kubectl", Why.CLUSTER),
        ("yaml", "components:", Held(READMES, "test_characters_of_ones_own_come_in_by_a_component")),
        ("yaml", "patches:", Held(READMES, "test_characters_of_ones_own_come_in_by_a_component")),
        ("yaml", "models:", SETTINGS),
    ],
    "deploy/k8s/overlays/envoy-gateway/README.md": [("bash", "kubectl", Why.CLUSTER)],
    "deploy/k8s/overlays/istio/README.md": [("bash", "kubectl", Why.CLUSTER)],
    "deploy/k8s/overlays/keda/README.md": [
        ("bash", "kubectl", Why.CLUSTER),
        ("yaml", "rules:", Held("tests/k8s/test_scaled.py", "test_the_queries_ask_for_what_vllm_tells_of_these_pods")),
    ],
    "deploy/k8s/overlays/kserve/README.md": [
        ("bash", "kubectl", Why.CLUSTER),
        ("yaml", "apiVersion:", Held(READMES, "test_kserves_service_is_the_backend")),
    ],
    "deploy/k8s/overlays/llama-cpp/README.md": [("bash", "kubectl", Why.CLUSTER)],
    "deploy/k8s/overlays/llm-d/README.md": [("bash", "kubectl", Why.CLUSTER)],
    "deploy/k8s/overlays/local/README.md": [
        ("bash", "kind create", Why.CLUSTER),
        ("bash", "kubectl port-forward", Why.CLUSTER),
        ("bash", "curl", Held(OURS, "test_the_local_overlays_question_gets_a_call")),
    ],
    "deploy/k8s/overlays/monitoring/README.md": [("bash", "kubectl", Why.CLUSTER)],
    "deploy/k8s/overlays/ollama/README.md": [("bash", "kubectl", Why.CLUSTER)],
    "deploy/k8s/overlays/production-stack/README.md": [("bash", "kubectl", Why.CLUSTER)],
    "deploy/k8s/overlays/rate-limit/README.md": [
        ("bash", "kubectl", Why.CLUSTER),
        ("bash", "extproc limits", Held(LIMITS, "test_its_file_is_what_the_command_prints")),
        ("yaml", "components:", Held(LIMITS, "test_limits_of_ones_own_come_in_by_the_component")),
    ],
    "deploy/k8s/overlays/sglang/README.md": [("bash", "kubectl", Why.CLUSTER)],
    "deploy/k8s/overlays/tgi/README.md": [("bash", "kubectl", Why.CLUSTER)],
    "deploy/k8s/overlays/tls/README.md": [
        ("bash", "kubectl create", Why.CLUSTER),
        (
            "bash",
            "kubectl apply -f -",
            Held("tests/k8s/test_custom_resources.py", "test_an_object_is_what_its_definition_says"),
        ),
        ("yaml", "tls:", SETTINGS),
        ("yaml", "# my-gateway", Held(READMES, "test_the_gateway_can_be_reached_from_outside")),
    ],
    "deploy/k8s/overlays/vllm/README.md": [
        ("bash", "kubectl", Why.CLUSTER),
        ("yaml", "", Held(READMES, "test_a_second_model_is_a_server_of_its_own_that_the_gateway_may_go_to")),
    ],
    "deploy/k8s/processor/README.md": [
        ("yaml", "patches:", Held(READMES, "test_tls_for_the_processor_comes_in_by_a_patch"))
    ],
    "docs/adding-a-format.md": [
        ("text", "Let me look.", Held("tests/test_format_docs.py", "test_the_guides_commands_work")),
        ("python", "", Held("tests/test_format_docs.py", "test_the_guides_format_can_be_asked_for")),
        ("json", "", Held("tests/test_format_docs.py", "test_the_guides_samples_can_fail")),
        ("bash", "", Held("tests/test_format_docs.py", "test_the_guides_commands_work")),
    ],
    "docs/architecture.md": [
        ("", "client ─>", Why.DRAWN),
        ("", " cli  ", Held("tests/test_architecture_docs.py", "test_the_rooms_are_those_of_the_linter")),
        ("bash", "", Why.LONG),
    ],
    "docs/characters.md": [
        ("python", "", Held("tests/test_run_docs.py", "test_the_first_character_answers_in_each_dialect")),
        ("bash", "extproc up", Held("tests/test_run_docs.py", "test_every_command_is_understood")),
        ("bash", "curl", Held("tests/test_run_docs.py", "test_the_first_character_answers_in_each_dialect")),
        ("yaml", "", SETTINGS),
        ("", '{"time"', Held(SHOWN, "test_the_log_of_a_call_has_the_fields_that_are_printed")),
        ("", "broken.py", Held(SHOWN, "test_what_is_wrong_with_a_character_is_told_as_printed")),
    ],
    "docs/cli.md": [("bash", "", Held(WORDS, "test_ours_are_understood"))],
    "docs/clients.md": [
        ("bash", "pip install aider", Why.OTHERS),
        ("bash", "", Held(CLIENTS, "test_an_agent_does_its_task")),
        ("python", "", Held(CLIENTS, "test_a_program_gets_its_call")),
        ("js", "", Held(CLIENTS, "test_a_program_gets_its_call")),
        ("yaml", "", SETTINGS),
    ],
    "docs/configuration.md": [
        ("bash", "extproc limits", Held(LIMITS, "test_its_file_is_what_the_command_prints")),
        ("yaml", "", SETTINGS),
    ],
    "docs/conformance.md": [
        ("bash", "extproc conformance 127.0.0.1:9000\n", Held(JUDGE, "test_the_reference_conforms_over_grpc")),
        ("bash", "make wheels", MAKE),
        ("bash", "extproc serve", Held("tests/test_conformance_gateway.py", "test_the_documented_runs_pass")),
        ("bash", "pytest --extproc-target", Held(JUDGE, "test_the_cases_are_tests_for_pytest")),
        ("yaml", "profiles:", Held(SHOWN, "test_the_recipe_is_one")),
    ],
    "docs/conformance-others.md": [("bash", "git clone", Why.OTHERS)],
    "docs/corpus.md": [
        ("bash", "extproc conformance tools --parser vllm", Why.GPU),
        (
            "bash",
            "extproc conformance tools --format hermes --answers",
            Held(OURS, "test_a_server_is_judged_by_the_answers_of_the_corpus"),
        ),
        ("bash", "", Held(OURS, "test_a_parser_of_ones_own_is_judged")),
        ("python", "", Held(OURS, "test_a_parser_of_ones_own_is_judged")),
    ],
    "docs/dashboards.md": [("yaml", "datasources:", Why.OTHERS)],
    "docs/envoy.md": [
        (
            "yaml",
            "- name: envoy.filters.http.local_ratelimit",
            Held("tests/test_metadata_limits.py", "test_each_key_has_so_many_of_each_model"),
        ),
    ],
    "docs/fleets.md": [
        ("yaml", "models:", WALK),
        ("yaml", "aliases:", WALK),
        ("yaml", "backends:", SETTINGS),
        ("", "x-extproc-model:", TOLD),
    ],
    "docs/formats.md": [("text", "", Held("tests/test_format_docs.py", "test_the_list_of_formats_is_fresh"))],
    "docs/hosts.md": [("bash", "pytest", Held(WORDS, "test_tests_that_are_named_are_there"))],
    "docs/library.md": [
        ("python", "", Held("tests/test_library_docs.py", "test_the_code_prints_what_the_page_says")),
        ("text", "", Held("tests/test_library_docs.py", "test_the_code_prints_what_the_page_says")),
    ],
    "docs/quality.md": [
        ("bash", "make bench-quality", Why.GPU),
        ("bash", "python -m bench.first_turns", Why.GPU),
        ("bash", "extproc probe", Held("tests/test_measuring.py", "test_the_command_prints_what_is_best")),
        ("text", "right answers", Held("tests/test_measuring.py", "test_the_table_is_as_printed")),
    ],
    "docs/model-checks.md": [
        ("bash", "extproc conformance model", Held(OURS, "test_a_model_is_judged")),
        ("bash", "pip download", Why.OTHERS),
        ("bash", "python -m tests.real_vllm", Why.GPU),
    ],
    "docs/no-tool-calls.md": [
        ("bash", "extproc record", Held(OURS, "test_an_exchange_is_recorded_and_looked_at")),
        ("", "recordings/", Held(SHOWN, "test_the_diagnosis_is_as_printed")),
        ("", '{"level"', Held(SHOWN, "test_the_log_names_the_cause_as_printed")),
        ("bash", "curl -sS http://127.0.0.1:10000/v1/chat", Held(OURS, "test_the_question_gets_a_call")),
        ("bash", "extproc check", Held(OURS, "test_the_four_that_look")),
        ("bash", "extproc formats", Held(OURS, "test_formats_are_shown")),
        ("bash", "curl", Held(OURS, "test_counts_are_found")),
    ],
    "docs/observability.md": [
        ("bash", "extproc serve", Held(OURS, "test_the_page_of_metrics_is_there")),
        ("bash", "extproc runner", Held(OURS, "test_the_runner_is_a_process_of_its_own")),
        ("yaml", "metrics:", SETTINGS),
        ("", "the model 'coder' goes", Held(SHOWN, "test_the_log_of_steps_is_as_printed")),
        (
            "yaml",
            "patches:",
            Held("tests/k8s/test_monitoring.py", "test_goals_are_those_of_the_page_and_where_its_patch_looks_for_them"),
        ),
        ("yaml", "startupProbe:", Held(SHOWN, "test_the_probes_are_those_of_the_deployment")),
        (
            "",
            "the backend 'blue' is failing",
            Held("tests/test_aliases.py", "test_the_log_tells_once_that_a_backend_is_out_and_that_it_is_back"),
        ),
        ("", "x-extproc-model:", TOLD),
        ("", "x-extproc-dropped", Held(SHOWN, "test_what_is_dropped_is_named_as_printed")),
    ],
    "docs/operations.md": [
        ("bash", "kubectl logs", Held(OURS, "test_tokens_are_added_up")),
    ],
    "docs/recording.md": [
        ("bash", "", Held(OURS, "test_a_recording_is_played")),
        ("yaml", "", SETTINGS),
    ],
    "docs/responses.md": [
        ("json", "", Held("tests/test_run_docs.py", "test_the_first_character_answers_in_each_dialect"))
    ],
    "docs/server-tools.md": [
        ("bash", "python3 -m venv tools", Why.OTHERS),
        ("yaml", "", SETTINGS),
        ("bash", "extproc runner", Held(OURS, "test_the_runner_is_a_process_of_its_own")),
        ("bash", "", Held("tests/test_run_docs.py", "test_the_tool_of_an_mcp_server_answers")),
        ("json", "", Held("tests/test_run_docs.py", "test_the_line_of_the_audit_log_is_as_printed")),
    ],
    "docs/servers.md": [
        (
            "bash",
            "extproc probe",
            Held("tests/test_probe_servers.py", "test_a_server_is_known_and_its_entries_are_right"),
        ),
        ("yaml", "models:", Held("tests/test_servers_docs.py", "test_the_entries_are_what_check_takes")),
    ],
    "docs/supply-chain.md": [
        ("bash", "make image", Held("tests/pods/built.py", "test_two_builds_have_one_digest")),
        ("bash", "make wheels", Held("tests/pods/installed.py", "test_two_builds_are_the_same")),
        ("bash", "sed ", IMAGE),
        ("bash", "docker build", Why.CONTAINERS),
        ("bash", "gzip -dc", Held(OURS, "test_what_the_repository_holds_is_what_is_published")),
    ],
    "docs/tools-conformance.md": [("bash", "", Why.GPU)],
    "docs/tracing.md": [
        ("yaml", "", SETTINGS),
        ("", "", Why.DRAWN),
    ],
    "docs/transport.md": [("", "", Why.DRAWN)],
    "docs/tutorial.md": [
        ("bash", "make run BACKEND", MAKE),
        ("bash", "make run", Held(TUTORIAL, "test_the_gateway_says_that_it_is_ready")),
        ("bash", 'cline "Create', Why.GPU),
        ("bash", "", Held(TUTORIAL, "test_an_agent_gets_its_tool_called")),
        ("text", "Ready at", Held(TUTORIAL, "test_the_gateway_says_that_it_is_ready")),
        ("text", "", Held(TUTORIAL, "test_an_agent_gets_its_tool_called")),
    ],
    "docs/watch.md": [
        (
            "bash",
            "extproc watch --config extproc.yaml --tui",
            Held("tests/test_watch_tui.py", "test_the_list_is_in_the_terminal_and_grows"),
        ),
        ("bash", "", Held(OURS, "test_the_page_of_exchanges_is_served")),
    ],
}

CATALOGUE = tuple(Entry(page, *entry) for page, entries in _ENTRIES.items() for entry in entries)
