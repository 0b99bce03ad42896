"""The commands of `extproc`, in groups: each module adds its own to the command line, and runs them.

    parser.py         all of it
    beginning.py      init
    running.py        up, record, serve, runner
    chatting.py       chat
    configuration.py  check, envoy, formats, hash-key
    probing.py        probe
    replaying.py      replay
    diagnosing.py     diagnose
    watching.py       watch
    conformance.py    conformance, conformance tools, conformance model
    completing.py     completion
    alone.py          conformance and conformance tools without the processor's libraries
    mistyping.py      what was mistyped, and meant
    next_step.py      what to type when one has failed
    options.py        what several of them take
    values.py         what the arguments may be
    recordings.py     files of recorded exchanges

A command imports what it alone needs when it runs: gRPC and Envoy's API take up to a second to load.
"""
