"""Every block of code that a page shows has a home: a test that runs it or holds it, or a reason why none does.

blocks.py          finds them
catalogue.py       where each is at home
test_homes.py      none is without a home, and no home is a lie
test_words.py      each command line is understood by its program
test_settings.py   each piece of a configuration is valid
test_shown.py      what pages show of logs and answers is what comes
test_commands.py   runs those that no test of their own page runs
"""
