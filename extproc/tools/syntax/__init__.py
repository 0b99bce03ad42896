"""How calls are written: one frozen table per format, the counterpart of the parser's tables in `toolcalls.formats`.

`table` says what a table holds, `arguments` and `literals` how arguments are spelled, the other modules are the data.
Look one up with `extproc.tools.call_syntax.call_syntax`.
"""
