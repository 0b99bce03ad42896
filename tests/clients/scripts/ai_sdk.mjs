// The errand with the AI SDK: `node ai_sdk.mjs URL MODEL TASK "chat|responses|messages generateText|streamText"`.

import { library, tools } from "./workspace.mjs";

const { createAnthropic } = library("@ai-sdk/anthropic");
const { createOpenAI } = library("@ai-sdk/openai");
const { createOpenAICompatible } = library("@ai-sdk/openai-compatible");
const { generateText, jsonSchema, stepCountIs, streamText, tool } = library("ai");
globalThis.AI_SDK_LOG_WARNINGS = false; // they would go where the result goes
const [baseURL, model, prompt, way] = process.argv.slice(2);
const [dialect, ask] = way.split(" ");
const apiKey = "unused";
const provider = {
  chat: createOpenAICompatible({ name: "gateway", baseURL, apiKey, includeUsage: true }),
  responses: createOpenAI({ baseURL, apiKey }),
  messages: createAnthropic({ baseURL, apiKey }),
}[dialect];

const offered = Object.entries(tools).map(([name, { description, parameters, run }]) => [
  name,
  tool({ description, inputSchema: jsonSchema(parameters), execute: run }),
]);
const request = {
  model: provider(model),
  prompt,
  tools: Object.fromEntries(offered),
  stopWhen: stepCountIs(10),
  maxRetries: 0,
  // Else it sends references to items in the place of its own earlier words, for a server that remembers them.
  providerOptions: { openai: { store: false } },
};

async function streamed() {
  const result = streamText(request);
  let failure;
  await result.consumeStream({ onError: (error) => (failure = error) });
  if (failure) throw failure;
  return { steps: await result.steps, totalUsage: await result.totalUsage };
}

const { steps, totalUsage } = await (ask === "streamText" ? streamed() : generateText(request));
const calls = steps.flatMap((step) => step.toolCalls.map((call) => [call.toolName, call.input]));
const contents = steps.map((step) => step.text);
const reasons = steps.map((step) => step.finishReason);
console.log(JSON.stringify({ contents, calls, reasons, tokens: totalUsage.totalTokens }));
