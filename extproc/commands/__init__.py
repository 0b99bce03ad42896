"""The commands of `extproc`, in groups: each module adds its own to the command line, and runs them.

    running.py        up, record, serve
    configuration.py  check, envoy, formats, probe, hash-key
    replaying.py      replay
    diagnosing.py     diagnose
    watching.py       watch
    conformance.py    conformance, conformance tools
    options.py        what several of them take
    values.py         what the arguments may be

A command imports what it alone needs when it runs: gRPC and Envoy's API take up to a second to load.
"""
