"""The second way to play the cases: through real Envoys, with real HTTP on both sides. It needs `h11` and `h2` too.

releases.py   which Envoys, pinned by hash, in a cache outside any checkout
bootstrap.py  an Envoy's configuration, and a listener for each `HostSettings`
process.py    Envoy as a process, and its listeners
tap.py        the gRPC server between Envoy and the processor: passes on, and remembers
http1.py, http2.py  clients and upstreams on the wire; wire.py: what they have in common
playable.py   what no Envoy can be made to do
host.py       one exchange through Envoy, as an `Outcome`
comparing.py  the simulated host's outcome and Envoy's, compared
lab.py        what each release makes of each fault; page.py: the page of it
"""
