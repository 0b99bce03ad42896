"""Why a model didn't call tools, or an answer went wrong: what docs/no-tool-calls.md says, found in an exchange.

    observed    what a recording shows of an exchange: what was asked, what the model was shown, wrote and ended with
    finding     what is found: a cause, what shows it, and what to change
    causes      all causes, in words
    notation    which format a call in a text is written in
    requests    rules for the client's side, and for what it sends
    answers     rules for the backend, and for how an answer ended
    writing     rules for what the model wrote
    diagnosing  all rules, on one exchange
    live        what of it can be told while answers come, for the log and a metric
    at_hand     the rules for the text, on what is left of an answer that has gone through

Only `live` is beside an exchange's way, and imports nothing of the others before it is needed; they read what was
recorded, and may take their time.
"""

from extproc.diagnosis.causes import CAUSES, PAGE, Cause, told
from extproc.diagnosis.finding import Finding, Severity

__all__ = ["CAUSES", "PAGE", "Cause", "Finding", "Severity", "told"]
