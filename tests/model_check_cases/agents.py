"""Tools as coding agents offer them, long descriptions, names and values that are hard to write, and strict ones."""

from __future__ import annotations

from tests.model_check_cases.written import NUMBER, TEXT, YES_NO, Written, array, one_of, record, text, whole

_LONG = (
    "Searches the company's knowledge base and returns the passages that fit best. Use it whenever a question is about "
    "the company's own rules, products, offices or people, and never for general knowledge, for which the answer "
    "should be given in plain words. The question should be written as a person would ask it, in full, without "
    "abbreviations, and in the language in which the user wrote. Passages come with the date on which they were last "
    "changed; older ones may be wrong. When nothing fits, the result is an empty list, and that should be told to the "
    "user as it is. Do not search twice for the same thing. Do not invent departments: leave the department out if the "
    "user names none. The search costs money, so ask for no more passages than are needed; three are enough for nearly "
    "every question, and more than ten are never returned."
)

TOOLS = (
    Written(
        "agent",
        "read_file",
        "Read a file of the project, or some lines of it.",
        record(
            {"path": text("Relative to the project"), "first_line": whole(minimum=1), "last_line": whole(minimum=1)},
            ("first_line", "last_line"),
        ),
        (
            ("Read the file src/main.py.", {"path": "src/main.py"}),
            (
                "Show me lines 10 to 20 of docs/guide.md.",
                {"path": "docs/guide.md", "first_line": 10, "last_line": 20},
            ),
        ),
        "Which language are files ending in .py written in?",
    ),
    Written(
        "agent",
        "write_file",
        "Write a text to a file; what was there is replaced.",
        record({"path": TEXT, "content": TEXT}, additionalProperties=False),
        (
            ('Write "hello" to the file hello.txt.', {"path": "hello.txt", "content": "hello"}),
            (
                "Create add.py with a function add(a, b) that returns their sum.",
                {"path": "add.py", "content": "def add(a, b):\n    return a + b\n"},
            ),
        ),
        "What does 'hello' mean?",
    ),
    Written(
        "agent",
        "edit_file",
        "Replace a piece of a file by another.",
        record({"path": TEXT, "old": text("What is there now"), "new": TEXT, "all": YES_NO}, ("all",)),
        (
            (
                "In config.yaml replace 'debug: true' by 'debug: false'.",
                {"path": "config.yaml", "old": "debug: true", "new": "debug: false"},
            ),
            (
                "Replace every foo in a.js by bar.",
                {"path": "a.js", "old": "foo", "new": "bar", "all": True},
            ),
        ),
        "What does YAML look like? One sentence.",
    ),
    Written(
        "agent",
        "run_command",
        "Run a command in the shell of the project.",
        record(
            {"command": TEXT, "timeout": whole("Seconds", minimum=1, maximum=600), "background": YES_NO},
            ("timeout", "background"),
        ),
        (
            ("Run git status.", {"command": "git status"}),
            ("Run npm test with a timeout of 120 seconds.", {"command": "npm test", "timeout": 120}),
        ),
        "Who made git?",
    ),
    Written(
        "agent",
        "update_todo",
        "Write the list of what is to be done, whole.",
        record(
            {
                "todo": array(
                    record({"text": TEXT, "state": one_of("open", "active", "done")}, additionalProperties=False),
                )
            }
        ),
        (
            (
                "The todo list: 'write tests' is active, 'release' is open.",
                {"todo": [{"text": "write tests", "state": "active"}, {"text": "release", "state": "open"}]},
            ),
            ("Put on the todo list that 'fix login' is done.", {"todo": [{"text": "fix login", "state": "done"}]}),
        ),
        "Is a test before or after a release?",
    ),
    Written(
        "agent",
        "search_code",
        "Search the project's files by a regular expression.",
        record(
            {"pattern": text("A regular expression"), "files": text("A glob", default="**/*"), "case": YES_NO},
            ("files", "case"),
        ),
        (
            ("Search the code for TODO.", {"pattern": "TODO"}),
            ("Look for def main in the files *.py.", {"pattern": "def main", "files": "*.py"}),
        ),
        "What does TODO mean in code?",
    ),
    Written(
        "agent",
        "query_database",
        "Run a query on the database and return its rows.",
        record({"sql": TEXT, "parameters": array({"type": ["string", "number", "boolean", "null"]})}, ("parameters",)),
        (
            (
                "Query the database: SELECT count(*) FROM users",
                {"sql": "SELECT count(*) FROM users"},
            ),
            (
                "Run SELECT * FROM orders WHERE id = ? with the parameter 5.",
                {"sql": "SELECT * FROM orders WHERE id = ?", "parameters": [5]},
            ),
        ),
        "What does SQL stand for?",
    ),
    # Long ones
    Written(
        "long_description",
        "search_knowledge",
        _LONG,
        record({"question": text("The question in full"), "department": TEXT, "passages": whole(minimum=1, maximum=10)})
        | {"required": ["question"]},
        (
            (
                "How many days of holiday do our rules give a new colleague?",
                {"question": "How many days of holiday does a new colleague get?"},
            ),
            (
                "Who leads the sales department of our company?",
                {"question": "Who leads the sales department?", "department": "sales"},
            ),
        ),
        "What is the capital of Portugal?",
    ),
    Written(
        "many_parameters",
        "create_server",
        "Create a virtual server.",
        record(
            {
                "name": text("The host name"),
                "region": one_of("europe", "asia", "america"),
                "cpus": whole(minimum=1, maximum=64),
                "memory_gb": whole(minimum=1, maximum=512),
                "disk_gb": whole(minimum=10),
                "image": text("The operating system", default="debian"),
                "backups": YES_NO,
                "monitoring": YES_NO,
                "public": YES_NO,
                "tags": array(TEXT),
                "network": TEXT,
                "ssh_keys": array(TEXT),
                "price_limit": NUMBER,
                "note": TEXT,
                "expires": text(format="date"),
            },
            tuple("disk_gb image backups monitoring public tags network ssh_keys price_limit note expires".split()),
        ),
        (
            (
                "Create a server web1 in europe with 4 CPUs and 16 GB of memory.",
                {"name": "web1", "region": "europe", "cpus": 4, "memory_gb": 16},
            ),
            (
                "I need a server named db in asia: 8 CPUs, 64 GB of memory, 500 GB of disk, with backups.",
                {"name": "db", "region": "asia", "cpus": 8, "memory_gb": 64, "disk_gb": 500, "backups": True},
            ),
        ),
        "Which continent is Japan on?",
    ),
    # Names that are hard to write
    Written(
        "unicode",
        "save_recipe",
        "Rezept speichern.",
        record({"Gericht": TEXT, "Zutaten": array(TEXT), "Größe": whole("Personen", minimum=1)}),
        (
            (
                "Speichere das Gericht Rührei mit Eiern und Salz für 2 Personen.",
                {"Gericht": "Rührei", "Zutaten": ["Eier", "Salz"], "Größe": 2},
            ),
            (
                "Bitte speichern: Käsespätzle aus Käse und Spätzle für 4 Personen.",
                {"Gericht": "Käsespätzle", "Zutaten": ["Käse", "Spätzle"], "Größe": 4},
            ),
        ),
        "Wie heißt Deutschlands Hauptstadt?",
    ),
    Written(
        "unicode",
        "weather_report",
        "查询一个城市的天气。",
        record({"城市": TEXT, "单位": one_of("摄氏", "华氏")}, ("单位",)),
        (("北京今天天气怎么样?", {"城市": "北京"}), ("用摄氏度告诉我上海的天气。", {"城市": "上海", "单位": "摄氏"})),
        "中国的首都是哪座城市?",
    ),
    Written(
        "unicode",
        "react",
        "React to a message with an emoji.",
        record({"message": whole(), "emoji": one_of("👍", "❤️", "🎉")}),
        (
            ("React to message 15 with 👍.", {"message": 15, "emoji": "👍"}),
            ("Put a 🎉 on message 16.", {"message": 16, "emoji": "🎉"}),
        ),
        "What does 👍 mean?",
    ),
    Written(
        "odd_keys",
        "http_request",
        "Send an HTTP request with these headers.",
        record(
            {"url": TEXT, "content-type": TEXT, "x-trace.id": TEXT, "$count": whole()},
            ("content-type", "x-trace.id", "$count"),
        ),
        (
            (
                "Request http://localhost/a with the content-type text/plain.",
                {"url": "http://localhost/a", "content-type": "text/plain"},
            ),
            (
                "Request http://localhost/b with x-trace.id abc and $count 3.",
                {"url": "http://localhost/b", "x-trace.id": "abc", "$count": 3},
            ),
        ),
        "What does HTTP stand for?",
    ),
    Written(
        "odd_keys",
        "define_tool",
        "Register a tool for later.",
        record({"name": TEXT, "type": one_of("function", "object"), "arguments": array(TEXT), "required": YES_NO}),
        (
            (
                "Register a tool with the name lamp, type function, the arguments room and state, required true.",
                {"name": "lamp", "type": "function", "arguments": ["room", "state"], "required": True},
            ),
            (
                "Register the tool box: type object, argument size, not required.",
                {"name": "box", "type": "object", "arguments": ["size"], "required": False},
            ),
        ),
        "Is a hammer a tool? Answer yes or no.",
    ),
    # Values that are hard to write
    Written(
        "hard_strings",
        "post_comment",
        "Post a comment under an article, exactly as given.",
        record({"comment": TEXT}),
        (
            ('Post the comment: She said "no" and left.', {"comment": 'She said "no" and left.'}),
            (
                r"Post the comment: the path is C:\temp\new",
                {"comment": "the path is C:\\temp\\new"},
            ),
        ),
        "What is a quotation mark for?",
    ),
    Written(
        "hard_strings",
        "save_snippet",
        "Save a piece of code, exactly as given.",
        record({"language": TEXT, "code": TEXT}),
        (
            (
                'Save this Python: print("a")\nprint("b")',
                {"language": "Python", "code": 'print("a")\nprint("b")'},
            ),
            (
                'Save this JSON: {"a": [1, 2], "b": null}',
                {"language": "JSON", "code": '{"a": [1, 2], "b": null}'},
            ),
        ),
        "What does JSON stand for?",
    ),
    Written(
        "hard_strings",
        "set_template",
        "Set the template of a page, exactly as given.",
        record({"page": TEXT, "template": TEXT}),
        (
            (
                "The template of the page home is <h1>{{ title }}</h1>.",
                {"page": "home", "template": "<h1>{{ title }}</h1>"},
            ),
            (
                "Set the template of the page about to <p class='x'>Hi & bye</p>.",
                {"page": "about", "template": "<p class='x'>Hi & bye</p>"},
            ),
        ),
        "What is HTML for? One sentence.",
    ),
    # Strict ones
    Written(
        "strict",
        "log_workout",
        "Log a workout.",
        record(
            {"kind": one_of("run", "swim", "bike"), "minutes": whole(), "note": {"type": ["string", "null"]}},
            additionalProperties=False,
        ),
        (
            ("Log a run of 30 minutes.", {"kind": "run", "minutes": 30, "note": None}),
            (
                "Log that I swam for 45 minutes, with the note: cold water.",
                {"kind": "swim", "minutes": 45, "note": "cold water"},
            ),
        ),
        "Is swimming good for the heart? Answer yes or no.",
        strict=True,
    ),
    Written(
        "strict",
        "rate_film",
        "Rate a film.",
        record(
            {"title": TEXT, "stars": {"type": "integer", "enum": [1, 2, 3, 4, 5]}, "seen_with": array(TEXT)},
            additionalProperties=False,
        ),
        (
            (
                "Give the film Metropolis 5 stars, I saw it with Kim.",
                {"title": "Metropolis", "stars": 5, "seen_with": ["Kim"]},
            ),
            ("Alien gets 4 stars, I saw it alone.", {"title": "Alien", "stars": 4, "seen_with": []}),
        ),
        "What is a film director? One sentence.",
        strict=True,
    ),
)
