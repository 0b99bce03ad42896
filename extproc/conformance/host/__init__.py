"""The host simulator: one HTTP exchange, played with an external processor as Envoy 1.40 plays it. No I/O.

settings.py  how the filter is configured, and the exchange: a case's input
machine.py   the exchange, step by step
body.py      a body's way through the processor, in each mode
messages.py  what the host sends
mutation.py  what replies do to headers
outcome.py   what upstream and client get
likeness.py  whether two of them are the same, but for ids and times
"""
