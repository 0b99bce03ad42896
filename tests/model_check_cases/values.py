"""Tools whose schemas are about single values: text, numbers, enums, null."""

from __future__ import annotations

from tests.model_check_cases.written import NUMBER, TEXT, YES_NO, Written, array, one_of, record, text, whole

TOOLS = (
    # Plain values
    Written(
        "flat",
        "get_weather",
        "Get the current weather in a city.",
        record({"city": text("The city's name")}),
        (
            ("What is the weather in Lisbon right now?", {"city": "Lisbon"}),
            ("Tell me whether I need an umbrella in Oslo today.", {"city": "Oslo"}),
        ),
        "In one sentence, what is a cold front?",
    ),
    Written(
        "flat",
        "send_message",
        "Send a short message to a person.",
        record({"to": text("Who gets it"), "text": text("What it says")}),
        (
            ("Send Maria the message: I am late.", {"to": "Maria", "text": "I am late."}),
            ("Tell Tom by message that lunch is at noon.", {"to": "Tom", "text": "Lunch is at noon."}),
        ),
        "How do you spell the word 'receive'?",
    ),
    Written(
        "flat",
        "translate",
        "Translate a text into another language.",
        record({"text": TEXT, "language": text("The language to translate into")}),
        (
            ("Use the tool to translate 'good morning' into French.", {"text": "good morning", "language": "French"}),
            ("Have 'where is the station' put into Polish.", {"text": "where is the station", "language": "Polish"}),
        ),
        "Which continent is France on?",
    ),
    Written(
        "no_parameters",
        "list_open_tickets",
        "List all support tickets that are open now.",
        {"type": "object", "properties": {}},
        (("Which support tickets are open?", {}), ("Show me the open tickets, please.", {})),
        "What does the word 'ticket' mean?",
    ),
    Written(
        "no_parameters",
        "get_time",
        "Tell the current time of the server.",
        {"type": "object", "properties": {}, "additionalProperties": False},
        (("What time is it on the server?", {}), ("Look up the server's clock.", {})),
        "How many minutes does an hour have?",
    ),
    Written(
        "optional",
        "search_web",
        "Search the web.",
        record(
            {
                "query": text("What to search for"),
                "limit": whole("How many results", default=10),
                "language": text("Only pages in this language", default="en"),
            },
            ("limit", "language"),
        ),
        (
            ("Search the web for solar panel prices.", {"query": "solar panel prices"}),
            ("Find 3 web pages about repairing bicycles.", {"query": "repairing bicycles", "limit": 3}),
        ),
        "Is the sun a star? Answer yes or no.",
    ),
    Written(
        "optional",
        "create_note",
        "Save a note for later.",
        record({"title": TEXT, "body": TEXT, "pinned": YES_NO, "folder": TEXT}, ("body", "pinned", "folder")),
        (
            ("Make a note titled Groceries.", {"title": "Groceries"}),
            (
                "Save a pinned note titled Rent that says: pay on Monday.",
                {"title": "Rent", "body": "pay on Monday", "pinned": True},
            ),
        ),
        "Say hello in one short sentence.",
    ),
    Written(
        "optional",
        "play_music",
        "Play a song on the speakers.",
        record({"song": TEXT, "artist": TEXT, "volume": whole(minimum=0, maximum=100)}, ("artist", "volume")),
        (
            ("Play the song Yesterday.", {"song": "Yesterday"}),
            ("Play Hello by Adele at volume 40.", {"song": "Hello", "artist": "Adele", "volume": 40}),
        ),
        "How many strings does a violin have?",
    ),
    # Numbers
    Written(
        "bounds",
        "set_thermostat",
        "Set the temperature of a room in degrees Celsius.",
        record({"room": TEXT, "degrees": whole(minimum=5, maximum=30)}),
        (
            ("Set the bedroom to 18 degrees.", {"room": "bedroom", "degrees": 18}),
            ("Make the kitchen 21 degrees warm.", {"room": "kitchen", "degrees": 21}),
        ),
        "At how many degrees Celsius does water freeze?",
    ),
    Written(
        "bounds",
        "roll_dice",
        "Roll dice and return the results.",
        record({"count": whole(minimum=1, maximum=10), "sides": whole(minimum=2, maximum=100)}),
        (
            ("Roll two dice with six sides.", {"count": 2, "sides": 6}),
            ("Roll one die with 20 sides.", {"count": 1, "sides": 20}),
        ),
        "How many sides does a cube have?",
    ),
    Written(
        "bounds",
        "set_timer",
        "Start a timer.",
        record({"seconds": whole("More than 0, at most a day", exclusiveMinimum=0, maximum=86400), "label": TEXT}),
        (
            ("Set a timer called tea for 180 seconds.", {"seconds": 180, "label": "tea"}),
            ("Start a timer of one minute, labelled eggs.", {"seconds": 60, "label": "eggs"}),
        ),
        "How many seconds are in two minutes?",
    ),
    Written(
        "bounds",
        "order_eggs",
        "Order eggs, which are sold in boxes of six.",
        record({"eggs": whole("A multiple of six", multipleOf=6, minimum=6)}),
        (("Order 12 eggs.", {"eggs": 12}), ("I need eighteen eggs, order them.", {"eggs": 18})),
        "Which animal lays eggs, a hen or a cow?",
    ),
    Written(
        "numbers",
        "convert_currency",
        "Convert an amount of money by today's rate.",
        record({"amount": {"type": "number", "exclusiveMinimum": 0}, "source": TEXT, "target": TEXT}),
        (
            ("Convert 99.5 EUR to USD.", {"amount": 99.5, "source": "EUR", "target": "USD"}),
            ("How much is 20 GBP in JPY today?", {"amount": 20, "source": "GBP", "target": "JPY"}),
        ),
        "In which country do people pay with yen?",
    ),
    Written(
        "numbers",
        "add_numbers",
        "Add two numbers.",
        record({"a": NUMBER, "b": NUMBER}),
        (
            ("Add 17.25 and 25 with the tool.", {"a": 17.25, "b": 25}),
            ("Use the tool to add -4 and 0.5.", {"a": -4, "b": 0.5}),
        ),
        "What is the opposite of 'large'?",
    ),
    Written(
        "numbers",
        "find_nearby",
        "Find shops near a point on the map.",
        record(
            {
                "latitude": {"type": "number", "minimum": -90, "maximum": 90},
                "longitude": {"type": "number", "minimum": -180, "maximum": 180},
                "kind": TEXT,
            }
        ),
        (
            (
                "Find bakeries near latitude 48.85, longitude 2.35.",
                {"latitude": 48.85, "longitude": 2.35, "kind": "bakery"},
            ),
            (
                "Which pharmacies are near latitude -33.9 and longitude 18.4?",
                {"latitude": -33.9, "longitude": 18.4, "kind": "pharmacy"},
            ),
        ),
        "What is a map? Answer in one sentence.",
    ),
    Written(
        "booleans",
        "switch_light",
        "Switch the light of a room on or off.",
        record({"room": TEXT, "on": YES_NO}),
        (
            ("Switch on the light in the hall.", {"room": "hall", "on": True}),
            ("Turn off the light in the garage.", {"room": "garage", "on": False}),
        ),
        "Who invented the light bulb?",
    ),
    Written(
        "booleans",
        "set_notifications",
        "Choose which notifications are sent.",
        record({"email": YES_NO, "phone": YES_NO}),
        (
            ("Send me notifications by email and not by phone.", {"email": True, "phone": False}),
            ("Switch all notifications off, email and phone.", {"email": False, "phone": False}),
        ),
        "What does the abbreviation FAQ stand for?",
    ),
    # Enums and constants
    Written(
        "enum",
        "set_priority",
        "Set the priority of a task.",
        record({"task": whole("The task's number"), "priority": one_of("low", "normal", "high", "urgent")}),
        (
            ("Give task 12 high priority.", {"task": 12, "priority": "high"}),
            ("Task 7 is urgent, set that.", {"task": 7, "priority": "urgent"}),
        ),
        "Name one synonym of 'urgent'.",
    ),
    Written(
        "enum",
        "order_pizza",
        "Order a pizza.",
        record(
            {
                "size": one_of("small", "medium", "large"),
                "toppings": array(one_of("cheese", "ham", "mushrooms", "olives"), minItems=1),
            }
        ),
        (
            ("Order a large pizza with cheese and olives.", {"size": "large", "toppings": ["cheese", "olives"]}),
            ("I want a small pizza with ham.", {"size": "small", "toppings": ["ham"]}),
        ),
        "Which country is pizza from?",
    ),
    Written(
        "enum",
        "set_log_level",
        "Set how much a service logs.",
        record({"service": TEXT, "level": one_of("DEBUG", "INFO", "WARNING", "ERROR")}),
        (
            ("Set the log level of billing to DEBUG.", {"service": "billing", "level": "DEBUG"}),
            ("Let the service mail log only errors.", {"service": "mail", "level": "ERROR"}),
        ),
        "What is a log file? One sentence, please.",
    ),
    Written(
        "enum",
        "set_speed",
        "Set the speed of the fan.",
        record({"speed": {"enum": [0, 1, 2, 3, "auto"]}}),
        (("Set the fan to speed 2.", {"speed": 2}), ("Put the fan on auto.", {"speed": "auto"})),
        "What does a fan do?",
    ),
    Written(
        "const",
        "confirm_deletion",
        "Delete a project for good. Needs the word DELETE as confirmation.",
        record({"project": TEXT, "confirmation": {"const": "DELETE"}}),
        (
            ("Delete the project demo, I confirm it.", {"project": "demo", "confirmation": "DELETE"}),
            ("Yes, remove the project old-site for good.", {"project": "old-site", "confirmation": "DELETE"}),
        ),
        "What is the past tense of 'delete'?",
    ),
    # Null
    Written(
        "null",
        "assign_task",
        "Assign a task to somebody, or to nobody with null.",
        record({"task": whole(), "assignee": {"type": ["string", "null"]}}),
        (
            ("Assign task 5 to Priya.", {"task": 5, "assignee": "Priya"}),
            ("Task 9 shall belong to nobody any more.", {"task": 9, "assignee": None}),
        ),
        "Which is more, five or nine?",
    ),
    Written(
        "null",
        "set_deadline",
        "Set the deadline of a task, or remove it with null.",
        record({"task": whole(), "deadline": {"anyOf": [text(format="date"), {"type": "null"}]}}),
        (
            ("The deadline of task 3 is 2026-05-01.", {"task": 3, "deadline": "2026-05-01"}),
            ("Remove the deadline of task 4.", {"task": 4, "deadline": None}),
        ),
        "How many days does the month of May have?",
    ),
    Written(
        "null",
        "filter_products",
        "Search the shop's products. Filters that aren't wanted are null.",
        record(
            {
                "words": TEXT,
                "max_price": {"anyOf": [NUMBER, {"type": "null"}]},
                "brand": {"anyOf": [TEXT, {"type": "null"}]},
            }
        ),
        (
            ("Find headphones for at most 80.", {"words": "headphones", "max_price": 80, "brand": None}),
            ("Search for lamps of the brand Lumo.", {"words": "lamps", "max_price": None, "brand": "Lumo"}),
        ),
        "What are headphones for?",
    ),
)
