"""A fuzzer of the parser: broken outputs in every format, as many as there is time for.

`python -m tests.fuzz` mutates what models write (`seeds`, `mutation`), and asks of every input what holds for any text
(`checks`). What it finds is made small (`minimising`); the ones that were repaired are in `found.jsonl`, and
`tests/test_fuzz_found.py` reads them again.

It is guided a little by the parser's own tables: an input that goes through three states in an order that was not seen
yet is mutated further. Atheris, which is guided by Python's bytecode, needs some 340 microseconds to read an input in
one cut, and knows nothing of formats; here an input takes as long in all, with its cuts and checks.
"""
