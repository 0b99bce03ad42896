"""Other people's ext_proc servers under our conformance suite: `make judge-others`, docs/conformance-others.md.

servers.py    what is judged: versions, how it is started, the recipe
launchers/    start one, each in an environment of its own
judging.py    a run of the suite, and the same exchanges through a real Envoy (envoy.py)
page.py       docs/conformance-others.md of results.json and findings.py
"""
