"""Others' parsers and gateways, and ours, judged by the corpus: `python -m bench.parsers NAME ...`.

    contestants   who is judged, where each is installed, and how
    results       what came of it, kept small: one file for each in results/
    page          docs/tools-conformance.md, made of those files
"""
