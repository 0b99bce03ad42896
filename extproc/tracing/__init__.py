"""Traces of exchanges and runs, by OpenTelemetry: docs/tracing.md says what they hold.

context     W3C's trace context: which span is whose parent
attributes  what spans say, by whose names; nothing else is ever said
content     what was said, where the settings ask for that
spans       the SDK: spans, and their way to a collector
exchange    what an exchange goes through, as spans
tracers     what stands between a processor and its exchanges: nothing, until traces are wanted
"""
