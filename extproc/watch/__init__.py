"""`extproc watch`: exchanges on a page, or in a terminal, while they run.

    watched.py       the exchanges that are kept, within bounds; by the frames that processors send (`recording.frames`)
    summary.py       one of them as a line of the list
    lanes.py         one of them whole: what the client asked, what the model was shown, what it wrote, what the client
                     got; of these, written.py and received.py read the two answers,
    spans.py         each character of what the model wrote, and what it became
    repairs.py       what was repaired in a call, in words
    viewed.py        one of them as it is shown, and what one can take along of it; curl.py, the request as a command
    collecting.py    what processors show, as it comes
    following.py     what changes, as it does
    page.py, page/   the page, and a file that holds it with one exchange
    guard.py         who gets to see any of it
    application.py   the page over HTTP
    process.py       the page as a process
    listing.py       the list in its order, and what of it is wanted
    tui/             the same in a terminal

A process of its own, so that nothing of it is on the way of a request. docs/watch.md tells when and how.
"""
