"""The part of vLLM's Prometheus page that load balancers and dashboards read.

Names, labels and help texts are vLLM's; it has some ninety of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"


@dataclass(slots=True)
class Metrics:
    """Counters of one server; `render` writes them out."""

    model: str
    running: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0, "error": 0})

    def render(self) -> bytes:
        label = f'engine="0",model_name="{self.model}"'
        reasons = {
            f'engine="0",finished_reason="{reason}",model_name="{self.model}"': number
            for reason, number in self.finished.items()
        }
        families: list[tuple[str, str, str, dict[str, int]]] = [
            (
                "num_requests_running",
                "gauge",
                "Number of requests in model execution batches.",
                {label: self.running},
            ),
            ("num_requests_waiting", "gauge", "Number of requests waiting to be processed.", {label: 0}),
            ("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", {label: 0}),
            (
                "prompt_tokens_total",
                "counter",
                "Number of prefill tokens processed.",
                {label: self.prompt_tokens},
            ),
            (
                "generation_tokens_total",
                "counter",
                "Number of generation tokens processed.",
                {label: self.generation_tokens},
            ),
            ("request_success_total", "counter", "Count of successfully processed requests.", reasons),
        ]
        lines = []
        for name, kind, text, samples in families:
            lines += [f"# HELP vllm:{name} {text}", f"# TYPE vllm:{name} {kind}"]
            lines += [f"vllm:{name}{{{labels}}} {float(number)}" for labels, number in samples.items()]
        return "\n".join([*lines, ""]).encode()
