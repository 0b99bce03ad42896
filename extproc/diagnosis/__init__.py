"""Why a model didn't call tools, or an answer went wrong: what docs/no-tool-calls.md says, found in an exchange.

    observed    what a recording shows of an exchange: what was asked, what the model was shown, wrote and ended with
    finding     what is found: a cause, what shows it, and what to change
    causes      all causes, in words
    notation    which format a call in a text is written in
    requests    rules for the client's side, and for what it sends
    answers     rules for the backend, and for how an answer ended
    writing     rules for what the model wrote
    diagnosing  all rules, on one exchange

Nothing here is on an exchange's way: it reads what was recorded, and may take its time.
"""

from extproc.diagnosis.causes import CAUSES, PAGE, Cause, told
from extproc.diagnosis.diagnosing import diagnose
from extproc.diagnosis.finding import Finding, Severity

__all__ = ["CAUSES", "PAGE", "Cause", "Finding", "Severity", "diagnose", "told"]
