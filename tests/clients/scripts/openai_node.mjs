// The errand with OpenAI's library for Node: `node openai_node.mjs URL MODEL TASK runTools|runToolsStream|stream`.

import { library, tools } from "./workspace.mjs";

const { OpenAI } = library("openai");
const [baseURL, model, task, way] = process.argv.slice(2);
const completions = new OpenAI({ baseURL, apiKey: "unused", maxRetries: 0 }).chat.completions;
const messages = [{ role: "user", content: task }];
const calls = [];
const turns = [];

const run = (name, given) => {
  calls.push([name, given]);
  return tools[name].run(given);
};

const definitions = Object.entries(tools).map(([name, { description, parameters }]) => ({
  type: "function",
  function: { name, description, parameters },
}));

// The library's own loop, which calls the functions by itself.
async function loop(options) {
  const runnable = definitions.map((tool) => ({
    ...tool,
    function: { ...tool.function, parse: JSON.parse, function: (given) => run(tool.function.name, given) },
  }));
  const runner = completions.runTools({ model, messages, tools: runnable, ...options });
  runner.on("chatCompletion", (completion) => turns.push(completion));
  await runner.done();
}

// A loop by hand over streams that the library puts together.
async function stream() {
  for (;;) {
    const request = { model, messages, tools: definitions, stream_options: { include_usage: true } };
    const completion = await completions.stream(request).finalChatCompletion();
    const { message } = completion.choices[0];
    turns.push(completion);
    messages.push(message);
    if (!message.tool_calls?.length) return;
    for (const call of message.tool_calls) {
      const content = run(call.function.name, JSON.parse(call.function.arguments));
      messages.push({ role: "tool", tool_call_id: call.id, content });
    }
  }
}

const ways = {
  runTools: () => loop({}),
  runToolsStream: () => loop({ stream: true, stream_options: { include_usage: true } }),
  stream,
};
await ways[way]();
const contents = turns.map((turn) => turn.choices[0].message.content ?? "");
const reasons = turns.map((turn) => turn.choices[0].finish_reason);
const tokens = turns.reduce((sum, turn) => sum + turn.usage.total_tokens, 0);
console.log(JSON.stringify({ contents, calls, reasons, tokens }));
