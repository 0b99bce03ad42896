"""Grafana's dashboards, as data: `python -m tests.generate_dashboards` writes what Kubernetes and Grafana get."""

from tests.dashboards.exchange import EXCHANGE
from tests.dashboards.gateway import GATEWAY
from tests.dashboards.models import MODELS
from tests.dashboards.runner import RUNNER

DASHBOARDS = (GATEWAY, MODELS, RUNNER, EXCHANGE)
