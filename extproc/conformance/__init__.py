"""The judge of any ext_proc server, in any language: `extproc conformance TARGET`. docs/conformance.md.

It needs Envoy's messages (`extproc.wire`) and nothing else of this project, and plays the host's side, never the
processor's.

    host/          one HTTP exchange as Envoy plays it: no I/O
    invariants.py  what must hold after every message: the table
    checks.py      those about a reply's content
    cases/         the catalogue
    recipe.py      what a server is sent
    envoys/        the same cases through real Envoys, and what each release makes of each fault
    faults.py      servers that break one invariant each
    driver.py      a host's steps on a link; client.py: links over gRPC; pings.py: HTTP/2's PING
    runner.py      a run; verdicts.py: what is said of it; reports/: how
    reference.py   a server that passes
    command.py     the command line
    pytest_plugin.py  the cases as tests
"""
