"""PyPI's glovebox-egress-gateway: `python start_glovebox.py SOCKET`, in an environment of its own.

Its reply recorder alone, as its main program starts it, with a new database beside the socket.
"""

from __future__ import annotations

import sys

from egress_gateway.authz_service import build_record_server
from egress_gateway.call_recorder import CallRecorder

calls = CallRecorder(f"{sys.argv[1]}.calls.db")
calls.open()
build_record_server(sys.argv[1], calls).wait_for_termination()
