"""Whether a real model's first call is right when a real agent asks: `python -m bench.first_turns`.

__main__.py   asks, and counts
captured.py   what Cline, Claude Code and Codex send first, with any task in it
tasks.py      what they are asked to do, and which first calls are right
answers.py    the calls of an answer, in each of the three dialects
page.py       docs/quality.md's table, of the results
"""
