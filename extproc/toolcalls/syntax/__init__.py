"""How calls are written: the counterpart of the tables by which they are read.

`call_syntax` says what is known about writing a format's calls, `arguments` and `literals` how arguments are spelled,
`shapes` makes what several formats share, `forcing` says which of it a decoder can be held to. The data stands in the
formats' own files.
"""
