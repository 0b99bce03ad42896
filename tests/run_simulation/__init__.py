"""Runs in a world of chance, in virtual time: models, tools and clients that do whatever such may do.

`python -m tests.run_simulation --runs 10000 --first 0` tries many; `--seed N` plays one again and tells what happens.

`Run`, `Driver` and `RoundReader` are the real ones. What the world does is drawn from the seed before it happens, so
that a seed is the same run each time, and what it did is compared with what came of it.
"""
