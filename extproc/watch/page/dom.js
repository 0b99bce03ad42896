// How elements are made. What was said is only ever set as text, never as markup.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

/** An element: `attributes` whose value is a function are listeners; null and false leave one out. */
function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same of a drawing. */
function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

/** Milliseconds as a person reads them. */
function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 1) return "<1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  return `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** JSON with line breaks if it is some, else the text. */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** How an exchange ended; of one whose tools run on our side the rounds tell that. */
function outcomeOf(row) {
  return row.is_run && row.state === "passed" ? "run" : OUTCOMES[row.state];
}

const OUTCOMES = {
  running: "running",
  failed: "failed",
  invalid: "bad call",
  left: "left",
  called: "called",
  answered: "answered",
  passed: "passed by",
};
