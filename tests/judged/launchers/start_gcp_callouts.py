"""Google's callout SDK: `python start_gcp_callouts.py HOST:PORT basic|one-handler|quiet`, its folder on PYTHONPATH.

`basic` is its own sample. The other two are as little as its README says a server is: one handler; and all four, each
with an empty response, so that whatever is wrong then is the SDK's.
"""

from __future__ import annotations

import sys
from typing import Any

from envoy.service.ext_proc.v3.external_processor_pb2 import BodyResponse, HeadersResponse
from extproc.example.basic.service_callout_example import BasicCalloutServer
from extproc.service.callout_server import CalloutServer
from extproc.service.callout_tools import add_header_mutation


class OneHandler(CalloutServer):  # type: ignore[misc]
    def on_response_headers(self, _headers: Any, _context: Any) -> Any:
        return add_header_mutation(add=[("x-judged", "1")])


class Quiet(CalloutServer):  # type: ignore[misc]
    def on_request_headers(self, _headers: Any, _context: Any) -> Any:
        return HeadersResponse()

    def on_response_headers(self, _headers: Any, _context: Any) -> Any:
        return HeadersResponse()

    def on_request_body(self, _body: Any, _context: Any) -> Any:
        return BodyResponse()

    def on_response_body(self, _body: Any, _context: Any) -> Any:
        return BodyResponse()


HOST, _, PORT = sys.argv[1].rpartition(":")
server = {"basic": BasicCalloutServer, "one-handler": OneHandler, "quiet": Quiet}[sys.argv[2]]
server(plaintext_address=(HOST, int(PORT)), combined_health_check=True, disable_tls=True).run()
