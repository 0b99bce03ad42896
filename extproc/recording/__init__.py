"""Exchanges in files: made beside a running gateway, and played again without one.

    recorder.py      takes notes of exchanges that run, and has them written when they have ended
    private.py       what of them is no business of those who get the file
    document.py      the file
    envoy_json.py    Envoy's messages in it
    replay.py        the same messages to the code as it is now
    difference.py    ... and the first place where it does otherwise
    reading.py       an exchange as a person reads it

docs/recording.md tells when and how.
"""
