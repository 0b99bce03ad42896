"""`extproc chat`: a conversation at a terminal with a model behind the gateway, and tools that run here.

`answers.py` reads a stream, `tools.py` is what the model may call, `gateway.py` asks, `terminal.py` shows it all.
"""
