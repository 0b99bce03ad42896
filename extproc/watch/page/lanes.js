// The four lanes of an exchange, each as an element.
"use strict";

const LANES = ["The client asked", "The model was shown", "The model wrote", "The client got"];

/** What a request says, in whichever dialect. `like`: the client's own request, to show what is the same. */
function requestOf(body, like = null) {
  if (body === null || body === undefined) return [note("nothing yet")];
  if (typeof body === "string" || Array.isArray(body)) return [code(typeof body === "string" ? body : JSON.stringify(body, null, 2))];
  const known = new Set((like?.messages ?? []).map((message) => JSON.stringify(message)));
  const parts = [];
  const system = body.system ?? body.instructions;
  if (system) parts.push(message({ role: "system", content: system }));
  const said = body.messages ?? body.input ?? [];
  for (const each of typeof said === "string" ? [{ role: "user", content: said }] : said) {
    parts.push(message(each, like !== null && known.has(JSON.stringify(each))));
  }
  if (body.tools?.length) parts.push(toolsOf(body.tools));
  const rest = Object.entries(body).filter(([name]) => !["messages", "input", "tools", "system", "instructions"].includes(name));
  if (rest.length) parts.push(parametersOf(rest));
  return parts;
}

function message(each, same = false) {
  const role = each.role ?? each.type ?? "message";
  const made = element("article", { class: `message ${same ? "same" : ""}`, "data-role": role });
  made.append(element("h4", {}, role, same ? element("span", { class: "faint" }, " · as the client sent it") : ""));
  const text = wordsOf(each.content ?? each.output ?? each.arguments);
  if (text) made.append(element("p", { class: "text" }, text));
  if (each.reasoning_content ?? each.reasoning) made.append(element("p", { class: "text reasoning" }, each.reasoning_content ?? wordsOf(each.reasoning)));
  for (const call of each.tool_calls ?? []) made.append(callOf({ name: call.function?.name ?? "", text: call.function?.arguments ?? "", id: call.id }));
  return made;
}

function wordsOf(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content ? JSON.stringify(content, null, 2) : "";
  return content.map((part) => part.text ?? part.thinking ?? (part.type === "tool_result" ? wordsOf(part.content) : JSON.stringify(part))).join("\n");
}

function toolsOf(tools) {
  const rows = tools.map((tool) => {
    const of = tool.function ?? tool;
    const schema = of.parameters ?? of.input_schema;
    return element(
      "details",
      { class: "tool" },
      element("summary", {}, element("b", {}, of.name ?? tool.type), of.description ? element("span", { class: "faint" }, ` ${of.description}`) : ""),
      schema ? code(JSON.stringify(schema, null, 2)) : "",
    );
  });
  return element("section", { class: "part" }, element("h4", {}, count(tools.length, "tool")), rows);
}

function parametersOf(rest) {
  const rows = rest.flatMap(([name, value]) => [
    element("dt", {}, name),
    element("dd", {}, typeof value === "object" && value !== null ? JSON.stringify(value) : String(value)),
  ]);
  return element("section", { class: "part" }, element("h4", {}, "parameters"), element("dl", { class: "pairs" }, rows));
}

function callOf({ name, text, id, problem }) {
  return element(
    "div",
    { class: `call ${problem ? "bad" : ""}` },
    element("p", { class: "call-head" }, element("b", {}, name || "…"), id ? element("span", { class: "faint" }, ` ${id}`) : ""),
    code(pretty(text)),
    problem ? element("p", { class: "problem" }, problem) : "",
  );
}

/** What the model wrote; `until` ends a replay's first text there. */
function writtenOf(exchange, until = Infinity) {
  if (exchange.summary.is_run) return [note("Each round is an exchange of its own.")];
  if (exchange.passed) return [note("The answer went past the processor, so it isn't here.")];
  if (!exchange.written.length && exchange.received?.items.some((item) => item.kind === "error")) return [note("nothing that could be read")];
  if (!exchange.written.length) return [note(exchange.ended ? "nothing" : "nothing yet")];
  const parts = exchange.written.flatMap((written) => outputOf(written, exchange.written.length > 1, until));
  if (exchange.retry) {
    parts.push(element("h4", { class: "again" }, "asked once more"));
    if (!exchange.retry.written.length) parts.push(note(exchange.retry.status ? `It answered ${exchange.retry.status}.` : "No answer came."));
    parts.push(...exchange.retry.written.flatMap((written) => outputOf(written, false)));
  }
  return parts;
}

function outputOf(written, several, until = Infinity) {
  const parts = several ? [element("h4", {}, `choice ${written.index}`)] : [];
  parts.push(spansOf(written, until));
  if (until !== Infinity) return parts;
  if (written.finish_reason) parts.push(element("p", { class: "faint finish" }, `finish_reason: ${written.finish_reason}`));
  return parts;
}

/** What the client got, until a time of a replay. */
function receivedOf(exchange, until = Infinity) {
  const got = exchange.received;
  if (exchange.passed) return [note(exchange.summary.is_run ? "the runner's answer, as it is" : "the backend's answer, as it is")];
  if (!got) return [note(exchange.ended ? "nothing" : "nothing yet")];
  const parts = [];
  for (const item of got.items) {
    const piece = until === Infinity ? null : item.pieces.filter(([, at]) => at <= until).at(-1);
    if (until !== Infinity && !piece) continue;
    const text = piece ? item.text.slice(0, piece[0]) : item.text;
    if (item.kind === "call") parts.push(callOf({ name: item.name, text: until === Infinity ? text : text, id: item.id }));
    else if (item.kind === "error") parts.push(element("div", { class: "error" }, item.name ? element("b", {}, item.name) : "", element("p", {}, text)));
    else if (text) parts.push(element("p", { class: `text ${item.kind}` }, item.kind === "content" ? "" : element("span", { class: "label" }, item.kind), text));
  }
  if (until !== Infinity) return parts;
  const ends = [got.status ? `status ${got.status}` : "", got.finish_reason ? `finish_reason: ${got.finish_reason}` : "", got.stream ? count(got.events, "event") : ""];
  parts.push(element("p", { class: "faint finish" }, ends.filter(Boolean).join(" · ")));
  return parts;
}

function code(text) {
  return element("pre", {}, text);
}

function note(text) {
  return element("p", { class: "faint none" }, text);
}
