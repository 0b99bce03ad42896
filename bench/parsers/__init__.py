"""Others' parsers and gateways, and ours, judged by the corpus: `python -m bench.parsers NAME ...`.

contestants   who is judged, where each is installed, and how
results       what came of it, kept small: one file for each in results/
bugs          what was found, each as its least text, and what comes of it now
page          docs/tools-conformance.md, made of all that
"""
