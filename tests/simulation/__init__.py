"""The gateway's core in a world of chance, in virtual time: one seed is one history, each time the same.

virtual_time.py    an event loop whose clock jumps, without threads
network.py         its unix sockets
plans.py           what is drawn: the exchanges of a history, and what becomes of them
answers.py         what backends say
scene.py           what there is in a history
configurations.py  what a history changes between
layouts.py         the hosts that call, each a row
envoy.py           Envoy's side of a connection: HTTP/2 and gRPC, by bytes that are cut anywhere
player.py          one exchange that is under way
serving.py         the processor, from its beginning to its end
workers.py         workers that die
again.py           the inner listener, as it is asked for a second answer
runs.py            the runner, its rounds and its tools
teams.py           a team with limits, and what Envoy is told of it
choices.py         aliases of several models
control.py         files that somebody writes, and an Envoy that takes its own
course.py          the events of a history, drawn or told
history.py         plays one history
judging.py         what may come of an exchange
replaying.py       the same history again, or a part of it
shrinking.py       the smallest part that still goes wrong
searching.py       plays many
__main__.py        the command
"""
