"""Parsers of other projects, as the judge takes them: each runs where that project is installed.

    process     our side: starts the program there, asks it, and gives the judge a parser
    launch      the program: what runs in the other environment, which knows nothing of this package
    worker      its loop: a question a line, an answer a line
    tokens      what those parsers see of a text: control tokens come whole

and a module for each project, which maps the names of formats and drives its parsers as its own server does. Behind
`launch` only the standard library and that project are there to be imported.
"""
