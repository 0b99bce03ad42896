"""PyPI's envoy-extproc-sdk: `python start_envoy_extproc_sdk.py HOST:PORT`, in an environment of its own.

The SDK's service, which does nothing, with one handler as its README has them: it refuses what has the header
`x-refuse`, by the SDK's own helpers. The SDK expects generated code of grpc.health.v1 under a name of its own, which no
package has; grpcio-health-checking's is given that name. Its server listens on all interfaces, here on the one that it
is told.
"""

from __future__ import annotations

import sys
from typing import Any

import grpc_health.v1.health_pb2_grpc  # noqa: F401  # for what it leaves in sys.modules

for name in [name for name in sys.modules if name.split(".")[0] == "grpc_health"]:
    sys.modules[name.replace("grpc_health", "grpc_health_check", 1)] = sys.modules[name]

import envoy_extproc_sdk.server as sdk  # noqa: E402
from envoy_extproc_sdk import BaseExtProcService, StopRequestProcessing  # noqa: E402

HOST, _, PORT = sys.argv[1].rpartition(":")
made = sdk.grpc_aio_server


def local_server() -> Any:
    server = made()
    listen = server.add_insecure_port
    server.add_insecure_port = lambda address: listen(address.replace("[::]", HOST))
    return server


sdk.grpc_aio_server = local_server
service = BaseExtProcService(name="Judged")


@service.process("request_headers")  # type: ignore[untyped-decorator]
def refuse(headers: Any, _context: Any, _request: Any, response: Any) -> Any:
    if any(header.key == "x-refuse" for header in headers.headers.headers):
        body = b"refused"
        raise StopRequestProcessing(service.form_immediate_response(403, {"content-type": "text/plain"}, body))
    return response


sdk.serve(service=service, port=int(PORT), grace_period=0)
