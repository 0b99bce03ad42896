"""One turn of a conversation: what its backend is asked, and what becomes of the backend's answer.

Joins the request half (`prompts`) and the response half (`toolcalls`). It knows no client's dialect: a turn comes from
a surface, and an answer leaves by a surface's writer (`extproc.surfaces`). Pure: it knows neither Envoy nor gRPC.
"""
