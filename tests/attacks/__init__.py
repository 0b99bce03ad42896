"""Clients that mean harm, as small as they can be: raw frames, heads and bodies for tests and for `bench.attacks`.

    h2_frames.py   HTTP/2 as bytes: bursts of HEADERS, resets, bodies that never end
    http1.py       HTTP/1.1 as bytes: heads, and the status that comes back
    bodies.py      JSON that costs its reader more than its sender
    openings.py    many connections at once

They build bytes and open connections; what they do with them, and against whom, is the caller's. Loopback only.
"""
