"""The gateway's core in a world of chance, in virtual time: one seed is one history, each time the same.

virtual_time.py  an event loop whose clock jumps
plans.py         what is drawn: the exchanges of a history, and what becomes of them
envoy.py         Envoy's side of a connection: HTTP/2 and gRPC, by bytes that are cut anywhere
history.py       plays one history through the real processor
judging.py       what may come of an exchange
__main__.py      plays many, and makes one that fails smaller
"""
