"""The processor as several processes, a worker for each core.

    fleet     the processor as the rest of the gateway sees it: starts workers, speaks to all, adds up what they tell
    process   one worker as the fleet sees it
    worker    one worker: a `Processor` with a socket of its own
    messages  what the two say to each other, over a link
    shared    what clients have under way, which all of them have to know at once

Envoy has a connection to each worker's socket. The fleet holds the sockets open, so that connections that come while a
worker is being started again wait for it; of exchanges the fleet itself sees nothing.
"""
