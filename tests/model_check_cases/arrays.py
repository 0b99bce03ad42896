"""Tools whose schemas are about arrays: of values, of arrays, of objects, and tuples."""

from __future__ import annotations

from tests.model_check_cases.written import NUMBER, TEXT, Written, array, one_of, record, whole

TOOLS = (
    # Arrays
    Written(
        "array",
        "add_to_list",
        "Add things to the shopping list.",
        record({"things": array(TEXT, minItems=1)}),
        (
            ("Put milk, bread and apples on the shopping list.", {"things": ["milk", "bread", "apples"]}),
            ("Add rice to my shopping list.", {"things": ["rice"]}),
        ),
        "Is an apple a fruit? Answer yes or no.",
    ),
    Written(
        "array",
        "average",
        "Compute the average of numbers.",
        record({"numbers": array(NUMBER, minItems=2, maxItems=20)}),
        (
            ("Use the tool for the average of 3, 9 and 12.", {"numbers": [3, 9, 12]}),
            ("Average 1.5 and 2.5 with the tool.", {"numbers": [1.5, 2.5]}),
        ),
        "What is an average? One sentence.",
    ),
    Written(
        "array",
        "set_tags",
        "Set the tags of an article.",
        record({"article": whole(), "tags": array(TEXT, uniqueItems=True)}),
        (
            ("Tag article 40 with travel and food.", {"article": 40, "tags": ["travel", "food"]}),
            ("Take all tags away from article 41.", {"article": 41, "tags": []}),
        ),
        "What is the plural of 'tag'?",
    ),
    Written(
        "array",
        "fill_matrix",
        "Store a matrix of whole numbers, as a list of rows.",
        record({"rows": array(array(whole(), minItems=2, maxItems=2), minItems=2, maxItems=2)}),
        (
            ("Store the matrix with the rows 1 2 and 3 4.", {"rows": [[1, 2], [3, 4]]}),
            ("Store the matrix whose rows are 0 1 and 1 0.", {"rows": [[0, 1], [1, 0]]}),
        ),
        "What is a matrix in mathematics? One sentence.",
    ),
    Written(
        "tuple",
        "move_piece",
        "Move a piece on the board. A square is a column and a row.",
        record(
            {
                name: {
                    "type": "array",
                    "prefixItems": [one_of(*"abcdefgh"), whole(minimum=1, maximum=8)],
                    "items": False,
                    "minItems": 2,
                }
                for name in ("from", "to")
            }
        ),
        (
            ("Move the piece from e2 to e4.", {"from": ["e", 2], "to": ["e", 4]}),
            ("Move from g1 to f3.", {"from": ["g", 1], "to": ["f", 3]}),
        ),
        "How many squares does a chess board have?",
    ),
    Written(
        "array_of_objects",
        "create_invoice",
        "Create an invoice.",
        record(
            {
                "customer": TEXT,
                "lines": array(record({"article": TEXT, "pieces": whole(minimum=1), "price": NUMBER}), minItems=1),
            }
        ),
        (
            (
                "Invoice Acme for 3 chairs at 49.9 each.",
                {"customer": "Acme", "lines": [{"article": "chair", "pieces": 3, "price": 49.9}]},
            ),
            (
                "Create an invoice for Zeta: 1 desk at 200 and 2 lamps at 15.",
                {
                    "customer": "Zeta",
                    "lines": [
                        {"article": "desk", "pieces": 1, "price": 200},
                        {"article": "lamp", "pieces": 2, "price": 15},
                    ],
                },
            ),
        ),
        "What is an invoice? One sentence.",
    ),
    Written(
        "array_of_objects",
        "plan_route",
        "Plan a route over several stops.",
        record({"stops": array(record({"city": TEXT, "nights": whole(minimum=0)}), minItems=2)}),
        (
            (
                "Plan a route: 2 nights in Rome, then 3 nights in Naples.",
                {"stops": [{"city": "Rome", "nights": 2}, {"city": "Naples", "nights": 3}]},
            ),
            (
                "Route from Bonn (1 night) to Ulm (1 night).",
                {"stops": [{"city": "Bonn", "nights": 1}, {"city": "Ulm", "nights": 1}]},
            ),
        ),
        "Is Rome north or south of Berlin?",
    ),
    Written(
        "array_of_objects",
        "add_questions",
        "Add questions to a quiz.",
        record(
            {
                "quiz": TEXT,
                "questions": array(
                    record({"question": TEXT, "answers": array(TEXT, minItems=2), "right": whole(minimum=0)})
                ),
            }
        ),
        (
            (
                "Add to the quiz Maths: What is 2+2? The answers are 3 and 4; the second (index 1) is right.",
                {"quiz": "Maths", "questions": [{"question": "What is 2+2?", "answers": ["3", "4"], "right": 1}]},
            ),
            (
                "Quiz Animals gets the question 'Does a fish swim?' with the answers yes and no, index 0 is right.",
                {
                    "quiz": "Animals",
                    "questions": [{"question": "Does a fish swim?", "answers": ["yes", "no"], "right": 0}],
                },
            ),
        ),
        "What is two plus two?",
    ),
)
