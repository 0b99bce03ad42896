"""One chat completion: what goes to the backend, and what becomes of its answer.

Joins the request half (`tools`) and the response half (`toolcalls`) through OpenAI's wire contract (`openai`).
Pure: it knows neither Envoy nor gRPC.
"""

from extproc.chat.answer import Rewritten, StreamedAnswer, rewrite_completion
from extproc.chat.plan import AnswerPlan, Prepared, find_problems, prepare

__all__ = ["AnswerPlan", "Prepared", "Rewritten", "StreamedAnswer", "find_problems", "prepare", "rewrite_completion"]
