"""What this gateway costs beside its peers, measured in one run: `make bench`, or `python -m bench.gateways --help`.

plan       what is measured: ways, bodies, loads
ways       how each way is started, and which processes it consists of
peers      what has to be installed for it, outside of the checkout
bodies     the requests: conversations of a stated size, whose n-th request is built on the one before
paced      the backend: whole answers at once, streams at a pace, every token with the time at which it left
wrk        whole answers: load and times by wrk, a program in C (load.lua tells it what to send)
streams    streams: a client that reads, counts and tells how late tokens are
processes  processor time and memory of processes and their children, from /proc
measuring  one run: all of it, interleaved
results    medians of what was measured
page       docs/performance.md and its pictures, from bench/results
charts     those pictures
"""
