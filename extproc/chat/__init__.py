"""One chat completion: what goes to the backend, and what becomes of its answer.

Joins the request half (`tools`) and the response half (`toolcalls`) through OpenAI's wire contract (`openai`).
Pure: it knows neither Envoy nor gRPC.
"""

from extproc.chat.answer import StreamedAnswer, rewrite_completion
from extproc.chat.plan import AnswerPlan, Prepared, prepare

__all__ = ["AnswerPlan", "Prepared", "StreamedAnswer", "prepare", "rewrite_completion"]
