"""Tools whose schemas are about strings: formats, patterns, lengths."""

from __future__ import annotations

from tests.model_check_cases.written import TEXT, Written, one_of, record, text, whole

TOOLS = (
    # Formats and patterns
    Written(
        "format",
        "book_table",
        "Book a table in a restaurant.",
        record({"restaurant": TEXT, "date": text(format="date"), "people": whole(minimum=1)}),
        (
            (
                "Book a table for 4 at Roma on 2026-03-14.",
                {"restaurant": "Roma", "date": "2026-03-14", "people": 4},
            ),
            (
                "I need a table for two at Sakura on 2026-07-01.",
                {"restaurant": "Sakura", "date": "2026-07-01", "people": 2},
            ),
        ),
        "What does a waiter do?",
    ),
    Written(
        "format",
        "schedule_job",
        "Run a job at a time, in UTC.",
        record({"job": TEXT, "at": text("For example 2026-01-31T08:00:00Z", format="date-time")}),
        (
            (
                "Run the job backup at 2026-02-03T04:00:00Z.",
                {"job": "backup", "at": "2026-02-03T04:00:00Z"},
            ),
            (
                "Schedule cleanup for noon UTC on 2026-06-30.",
                {"job": "cleanup", "at": "2026-06-30T12:00:00Z"},
            ),
        ),
        "What does UTC stand for?",
    ),
    Written(
        "format",
        "invite_user",
        "Invite somebody to the workspace by email.",
        record({"email": text(format="email"), "role": one_of("viewer", "editor", "owner")}),
        (
            ("Invite ana@example.com as an editor.", {"email": "ana@example.com", "role": "editor"}),
            ("Let joe@example.org look at the workspace.", {"email": "joe@example.org", "role": "viewer"}),
        ),
        "Which sign separates the two parts of an email address?",
    ),
    Written(
        "format",
        "fetch_page",
        "Fetch a web page.",
        record({"url": text(format="uri")}),
        (
            ("Fetch https://example.com/prices.", {"url": "https://example.com/prices"}),
            ("Get me the page https://example.org/news.", {"url": "https://example.org/news"}),
        ),
        "What does URL stand for?",
    ),
    Written(
        "format",
        "block_address",
        "Block an IPv4 address in the firewall.",
        record({"address": text(format="ipv4"), "hours": whole(minimum=1, maximum=720)}),
        (
            ("Block 203.0.113.7 for 24 hours.", {"address": "203.0.113.7", "hours": 24}),
            ("Keep the address 198.51.100.20 out for 2 hours.", {"address": "198.51.100.20", "hours": 2}),
        ),
        "In one sentence, what is a firewall?",
    ),
    Written(
        "format",
        "get_order",
        "Look up an order by its UUID.",
        record({"order": text(format="uuid")}),
        (
            (
                "Look up the order 3f2504e0-4f89-41d3-9a0c-0305e82c3301.",
                {"order": "3f2504e0-4f89-41d3-9a0c-0305e82c3301"},
            ),
            (
                "What is in order 9b2d1f64-0c5a-4a57-8f0e-1c2d3e4f5a6b?",
                {"order": "9b2d1f64-0c5a-4a57-8f0e-1c2d3e4f5a6b"},
            ),
        ),
        "Which word is longer, 'order' or 'delivery'?",
    ),
    Written(
        "pattern",
        "track_parcel",
        "Track a parcel by its number: two capital letters and nine digits.",
        record({"number": text(pattern="^[A-Z]{2}[0-9]{9}$")}),
        (
            ("Where is parcel RA123456789?", {"number": "RA123456789"}),
            ("Track the parcel LX000111222.", {"number": "LX000111222"}),
        ),
        "What is a parcel? One sentence.",
    ),
    Written(
        "pattern",
        "set_colour",
        "Set the colour of a button as #rrggbb.",
        record({"button": TEXT, "colour": text(pattern="^#[0-9a-fA-F]{6}$")}),
        (
            ("Make the button save #00ff00.", {"button": "save", "colour": "#00ff00"}),
            ("Colour the button cancel #aa0000.", {"button": "cancel", "colour": "#aa0000"}),
        ),
        "Which colour do yellow and blue make?",
    ),
    Written(
        "pattern",
        "tag_release",
        "Tag a release by a version of three numbers.",
        record({"version": text("For example 1.2.3", pattern=r"^\d+\.\d+\.\d+$"), "notes": text(maxLength=200)}),
        (
            ("Tag release 2.4.0 with the notes: faster start.", {"version": "2.4.0", "notes": "faster start"}),
            ("Release version 0.9.12, notes: bug fixes.", {"version": "0.9.12", "notes": "bug fixes"}),
        ),
        "Which version is newer, 1.9 or 2.0?",
    ),
    Written(
        "length",
        "set_pin",
        "Set the PIN of the door: four to six digits.",
        record({"pin": text(minLength=4, maxLength=6, pattern="^[0-9]+$")}),
        (("Set the door's PIN to 4821.", {"pin": "4821"}), ("The new PIN is 009134.", {"pin": "009134"})),
        "How many digits does the number 4821 have?",
    ),
)
