"""How often a real model's calls are right, by the way in which it is asked: `python -m bench.quality`.

__main__.py   asks, and judges
ways.py       the ways in which a model is asked
questions.py  those by which the words were chosen; BFCL's others judge
mistakes.py   what is wrong with wrong answers
page.py       docs/quality.md, of the results
"""

RULE = 2
"""Of what is right. Results without one were judged by the first: a right call was right whatever stood in the text
beside it, `irrelevance` was right though the answer was cut off or empty, and fewer calls in a text were known."""
