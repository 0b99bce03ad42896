"""Makes the rows of the tool-call corpus (docs/corpus.md): situations, written down by the writers of every format.

What a row expects is what its writer was given. No parser is asked.
"""
