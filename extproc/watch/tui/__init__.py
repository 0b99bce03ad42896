"""`extproc watch --tui`: what the page shows, in a terminal. It draws, and everything else is the page's own.

words.py       how what was said stands in a terminal: never as a control sequence
about.py       one exchange above its lanes: what it was, when what happened, what was found
lane_text.py   its four lanes
rows.py        the list, of which only the lines that can be seen are drawn
exchange.py    one exchange
dialogs.py     what is asked and told in between
app.py         all of it, and the keys
process.py     as a process
"""
