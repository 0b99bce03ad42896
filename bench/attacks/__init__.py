"""What others notice while somebody attacks the gateway: `python -m bench.attacks [NAME ...]`.

The real gateway (`extproc up`: Envoy and the processor) in front of scripted vLLMs, honest clients that ask all the
time, and one attack from a process of its own. Reported: honest streams that were cut, honest requests that failed, how
late tokens came, the memory of Envoy and of the processor and whether they survived, and how long it took until all was
well again; all of it beside the same without an attack.

    attack.py       what an attack is; kinds/ has them, by what they abuse
    kinds/          the attacks
    attacker.py     the process that one runs in
    backends.py     the process of the backends: the scripted vLLM, and some that misbehave
    victim.py       the gateway under attack, with the limits of a pod
    watch.py        its memory and its deaths
    honest.py       the honest clients, a process of their own
    report.py       numbers out of what all of them saw
    table.py        `python -m bench.attacks.table`: before.json and after.json as the table of docs/security.md

All traffic stays on the loopback interface. Every attack is bounded in time, connections and bytes.
"""
