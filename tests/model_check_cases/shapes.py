"""Tools whose schemas are about the shape of objects: nested, closed, maps, unions, references."""

from __future__ import annotations

from typing import Any

from tests.model_check_cases.written import NUMBER, TEXT, YES_NO, Written, array, one_of, record, text, whole

TREE: dict[str, Any] = record({"name": TEXT, "children": array({"$ref": "#/$defs/folder"})}, ("children",))

TOOLS = (
    # Objects in objects
    Written(
        "nested",
        "create_contact",
        "Save a contact with an address.",
        record({"name": TEXT, "address": record({"street": TEXT, "city": TEXT, "country": TEXT}, ("country",))}),
        (
            (
                "Save Ines Costa, who lives in Rua Nova 5, Porto.",
                {"name": "Ines Costa", "address": {"street": "Rua Nova 5", "city": "Porto"}},
            ),
            (
                "New contact: Lars Berg, Storgata 1, Bergen, Norway.",
                {"name": "Lars Berg", "address": {"street": "Storgata 1", "city": "Bergen", "country": "Norway"}},
            ),
        ),
        "Which country is Porto in?",
    ),
    Written(
        "nested",
        "create_event",
        "Put an event into the calendar.",
        record(
            {
                "title": TEXT,
                "time": record({"day": text(format="date"), "hour": whole(minimum=0, maximum=23)}),
                "place": record({"room": TEXT, "floor": whole()}, ("floor",)),
            },
            ("place",),
        ),
        (
            (
                "Put 'Review' into the calendar for 2026-04-02 at 15 o'clock.",
                {"title": "Review", "time": {"day": "2026-04-02", "hour": 15}},
            ),
            (
                "Add the event Lunch on 2026-04-03 at 12 in room Blue.",
                {"title": "Lunch", "time": {"day": "2026-04-03", "hour": 12}, "place": {"room": "Blue"}},
            ),
        ),
        "Which month comes after April?",
    ),
    Written(
        "nested",
        "deploy_service",
        "Deploy a service.",
        record(
            {
                "service": TEXT,
                "settings": record(
                    {"resources": record({"limits": record({"cpus": NUMBER, "memory_mb": whole(minimum=64)})})}
                ),
            }
        ),
        (
            (
                "Deploy the service api with limits of 2 CPUs and 512 MB of memory.",
                {"service": "api", "settings": {"resources": {"limits": {"cpus": 2, "memory_mb": 512}}}},
            ),
            (
                "Deploy web with at most 0.5 CPUs and 256 MB.",
                {"service": "web", "settings": {"resources": {"limits": {"cpus": 0.5, "memory_mb": 256}}}},
            ),
        ),
        "What does CPU stand for?",
    ),
    Written(
        "nested",
        "draw_line",
        "Draw a line between two points.",
        record({"start": record({"x": NUMBER, "y": NUMBER}), "end": record({"x": NUMBER, "y": NUMBER})}),
        (
            ("Draw a line from (0, 0) to (10, 5).", {"start": {"x": 0, "y": 0}, "end": {"x": 10, "y": 5}}),
            ("Connect (1, 2) with (3, 4) by a line.", {"start": {"x": 1, "y": 2}, "end": {"x": 3, "y": 4}}),
        ),
        "How many corners does a square have?",
    ),
    # Which properties an object may have
    Written(
        "closed",
        "rename_file",
        "Rename a file.",
        record({"old": TEXT, "new": TEXT}, additionalProperties=False),
        (
            ("Rename a.txt to b.txt.", {"old": "a.txt", "new": "b.txt"}),
            ("The file draft.md shall be called final.md.", {"old": "draft.md", "new": "final.md"}),
        ),
        "What is a file extension? One sentence.",
    ),
    Written(
        "closed",
        "register_pet",
        "Register a pet.",
        record(
            {
                "name": TEXT,
                "kind": one_of("cat", "dog", "bird"),
                "owner": record({"name": TEXT, "phone": TEXT}, ("phone",), additionalProperties=False),
            },
            additionalProperties=False,
        ),
        (
            ("Register the cat Minka of Paul.", {"name": "Minka", "kind": "cat", "owner": {"name": "Paul"}}),
            (
                "Register Rex, a dog. The owner is Eva, phone 555-0101.",
                {"name": "Rex", "kind": "dog", "owner": {"name": "Eva", "phone": "555-0101"}},
            ),
        ),
        "Which is larger, a cat or a horse?",
    ),
    Written(
        "map",
        "set_variables",
        "Set environment variables of a service; each value is a string.",
        record({"service": TEXT, "variables": {"type": "object", "additionalProperties": TEXT}}),
        (
            (
                "For the service api set PORT to 8080 and MODE to fast.",
                {"service": "api", "variables": {"PORT": "8080", "MODE": "fast"}},
            ),
            ("Set TZ to UTC for the service mail.", {"service": "mail", "variables": {"TZ": "UTC"}}),
        ),
        "What is an environment variable? One sentence.",
    ),
    Written(
        "map",
        "save_scores",
        "Save the points of players by name.",
        record(
            {
                "points": {
                    "type": "object",
                    "patternProperties": {"^[a-z]+$": whole(minimum=0)},
                    "additionalProperties": False,
                    "minProperties": 1,
                }
            }
        ),
        (
            ("Save the points: anna 12, ben 7.", {"points": {"anna": 12, "ben": 7}}),
            ("carl has 30 points, save that.", {"points": {"carl": 30}}),
        ),
        "Which number is larger, 12 or 7?",
    ),
    # Unions
    Written(
        "any_of",
        "find_customer",
        "Find a customer by number or by name.",
        record({"customer": {"anyOf": [whole("The number"), text("The name")]}}),
        (("Find customer 1042.", {"customer": 1042}), ("Find the customer Olsen.", {"customer": "Olsen"})),
        "What is a customer? One sentence.",
    ),
    Written(
        "any_of",
        "pay",
        "Pay an amount by card or by bank transfer.",
        record(
            {
                "amount": NUMBER,
                "by": {
                    "oneOf": [
                        record({"kind": {"const": "card"}, "last_digits": text(pattern="^[0-9]{4}$")}),
                        record({"kind": {"const": "transfer"}, "iban": TEXT}),
                    ]
                },
            }
        ),
        (
            ("Pay 30 with the card ending in 4242.", {"amount": 30, "by": {"kind": "card", "last_digits": "4242"}}),
            (
                "Transfer 12.5 to the IBAN DE89370400440532013000.",
                {"amount": 12.5, "by": {"kind": "transfer", "iban": "DE89370400440532013000"}},
            ),
        ),
        "What is money for? One sentence.",
    ),
    Written(
        "all_of",
        "hire_car",
        "Hire a car.",
        {
            "type": "object",
            "allOf": [
                record({"city": TEXT, "days": whole(minimum=1)}),
                {"properties": {"kind": one_of("small", "estate", "van")}, "required": ["kind"]},
            ],
        },
        (
            ("Hire a van in Turin for 2 days.", {"city": "Turin", "days": 2, "kind": "van"}),
            ("I need a small car in Graz for 5 days.", {"city": "Graz", "days": 5, "kind": "small"}),
        ),
        "How many wheels does a car have?",
    ),
    # References
    Written(
        "reference",
        "transfer_stock",
        "Move goods from one warehouse to another.",
        record(
            {
                "from": {"$ref": "#/$defs/place"},
                "to": {"$ref": "#/$defs/place"},
                "pieces": whole(minimum=1),
            },
            **{"$defs": {"place": record({"warehouse": TEXT, "shelf": whole()}, ("shelf",))}},
        ),
        (
            (
                "Move 20 pieces from warehouse North to warehouse South.",
                {"from": {"warehouse": "North"}, "to": {"warehouse": "South"}, "pieces": 20},
            ),
            (
                "Move 5 pieces from East, shelf 3, to West, shelf 8.",
                {"from": {"warehouse": "East", "shelf": 3}, "to": {"warehouse": "West", "shelf": 8}, "pieces": 5},
            ),
        ),
        "What is the opposite of north?",
    ),
    Written(
        "reference",
        "set_permissions",
        "Set who may do what in a project.",
        record(
            {
                "project": TEXT,
                "read": {"$ref": "#/$defs/people"},
                "write": {"$ref": "#/$defs/people"},
            },
            **{"$defs": {"people": array({"$ref": "#/$defs/person"}), "person": text(minLength=2)}},
        ),
        (
            (
                "In the project Sky, Amy and Bob may read and Amy may write.",
                {"project": "Sky", "read": ["Amy", "Bob"], "write": ["Amy"]},
            ),
            (
                "Let Chen read and write in the project Sea.",
                {"project": "Sea", "read": ["Chen"], "write": ["Chen"]},
            ),
        ),
        "What colour is the sky on a clear day?",
    ),
    Written(
        "recursive",
        "make_folders",
        "Make a folder, and folders in it.",
        record({"root": {"$ref": "#/$defs/folder"}}, **{"$defs": {"folder": TREE}}),
        (
            (
                "Make a folder src with the folders lib and app in it.",
                {"root": {"name": "src", "children": [{"name": "lib"}, {"name": "app"}]}},
            ),
            ("Make a folder named photos.", {"root": {"name": "photos"}}),
        ),
        "What is a folder on a computer? One sentence.",
    ),
    # Conditions
    Written(
        "condition",
        "ship_order",
        "Ship an order. Express needs a phone number.",
        record(
            {"order": whole(), "express": YES_NO, "phone": TEXT},
            ("phone",),
            **{"if": {"properties": {"express": {"const": True}}}, "then": {"required": ["phone"]}},
        ),
        (
            ("Ship order 88 without express.", {"order": 88, "express": False}),
            (
                "Ship order 90 by express, the phone number is 555-0134.",
                {"order": 90, "express": True, "phone": "555-0134"},
            ),
        ),
        "Which is faster, a ship or a plane?",
    ),
    Written(
        "condition",
        "export_data",
        "Export data. A separator needs the kind csv.",
        record(
            {"table": TEXT, "kind": one_of("csv", "json"), "separator": text(maxLength=1)},
            ("separator",),
            dependentSchemas={"separator": {"properties": {"kind": {"const": "csv"}}}},
        ),
        (
            ("Export the table users as json.", {"table": "users", "kind": "json"}),
            ("Export orders as csv with ; as the separator.", {"table": "orders", "kind": "csv", "separator": ";"}),
        ),
        "What does the abbreviation CSV stand for?",
    ),
)
