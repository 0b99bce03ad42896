"""What a model's server is compared by: whether tools are called where they should be, and as their schemas say.

`extproc conformance model URL`, docs/model-checks.md. It needs nothing of the processor.

    cases.py             our cases: package data;  bfcl.py: questions of the Berkeley Function Calling Leaderboard
    asking.py            asks a server, and keeps the answers;  reading.py: what an answer says, and its form
    judging.py           the table of checks;  possible_answers.py: BFCL's own;  calls_as_text.py: what no client reads
    scores.py            precision, recall, F1, schema accuracy, intervals;  reports.py: how they are told
    command.py           the command line
"""
