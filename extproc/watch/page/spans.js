// What a model wrote: its text with the markers lit, and every event under the text that it came of.
"use strict";

/** The text up to so many characters (all of it: Infinity), as elements. */
function spansOf(written, until = Infinity) {
  const flow = element("div", { class: "flow" });
  let at = 0;
  let group = null;
  for (const span of written.spans) {
    if (at >= until) break;
    const text = span.text.slice(0, Math.max(until - at, 0));
    const whole = text.length === span.text.length;
    at += span.text.length;
    const changed = span.out !== null && span.out !== span.text;
    if (span.call !== null && (span.kind === "arguments" || changed)) {
      if (group?.call !== span.call) {
        group = { call: span.call, box: element("span", { class: "span group" }), events: new Map() };
        flow.append(group.box);
      }
      if (text.includes("\n")) group.box.classList.add("lines");
      group.box.append(partOf(span, text, whole && changed));
      if (whole) for (const [name, number] of Object.entries(span.events)) group.events.set(name, (group.events.get(name) ?? 0) + number);
      continue;
    }
    tellEvents(group);
    group = null;
    if (text || whole) addSpan(flow, span, text, whole);
  }
  tellEvents(group);
  if (until < textLength(written)) flow.append(element("span", { class: "caret", "aria-hidden": "true" }));
  return flow;
}

/** A part of a call's arguments, and beneath it what it became, where that isn't the same. */
function partOf(span, text, changed) {
  const wrote = element("span", { class: `wrote ${span.kind}`, title: TITLES[span.kind] }, text);
  if (!changed) return wrote;
  const out = span.out === "" ? "left out" : span.out;
  if (span.kind === "marker") {
    // Another notation than JSON, and nothing wrong with it.
    wrote.title = `${TITLES.marker}; it became ${out}`;
    return wrote;
  }
  wrote.classList.add("changed");
  return element("ruby", {}, wrote, element("rt", { title: "what it became" }, element("span", { class: "sr" }, " became "), out));
}

function tellEvents(group) {
  if (group?.events.size) group.box.append(eventsOf([...group.events]));
}

function eventsOf(events) {
  return element("span", { class: "events" }, events.map(([name, number]) => (number > 1 ? `${name} ×${number}` : name)).join(", "));
}

function textLength(written) {
  return written.spans.reduce((length, span) => length + span.text.length, 0);
}

const TITLES = {
  marker: "marker: it is no text",
  content: "content",
  reasoning: "reasoning",
  name: "the name of a tool",
  arguments: "arguments",
};

function addSpan(flow, span, text, whole) {
  // Line ends at both ends belong to the flow: a box can't begin with one.
  const [, before, inner, after] = /^(\n*)([^]*?)(\n*)$/.exec(text);
  lineEnds(flow, before, span.kind);
  const events = whole ? Object.entries(span.events) : [];
  if (inner || events.length) {
    const wide = inner.includes("\n") && span.kind !== "marker" ? " wide" : "";
    const box = element("span", { class: events.length ? `span${wide}` : "" }, element("span", { class: `wrote ${span.kind}`, title: TITLES[span.kind] }, inner || "\u200b"));
    if (events.length) box.append(eventsOf(events));
    flow.append(box);
  }
  lineEnds(flow, after, span.kind);
}

function lineEnds(flow, text, kind) {
  for (const _ of text) flow.append(element("span", { class: `end ${kind}`, "aria-hidden": "true" }, "↵"), element("br"));
}

/** When the character at this place came, in milliseconds. */
function timeOf(written, at) {
  const piece = written.pieces.find(([length]) => length >= at) || written.pieces.at(-1);
  return piece ? piece[1] : 0;
}
