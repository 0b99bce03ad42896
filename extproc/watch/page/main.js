// The page: what comes of the exchanges, the filters, and the keys.
"use strict";

const $ = (id) => document.getElementById(id);
const list = new List($("list"), $("rows"), (id) => open(id));
const detail = new Detail(
  $("detail"),
  [
    ["s", "Save", save],
    ["r", "Replay", replay],
    ["c", "curl", copyCurl],
    ["e", "HTML", report],
  ],
  (exchange) => (exchange.summary.is_run ? list.roundsOf(exchange.request_id) : []),
);
const lanes = { id: null, stream: null, exchange: null };
let numbers = {};

// The list

const events = new EventSource("events");
events.addEventListener("all", (event) => {
  const all = JSON.parse(event.data);
  list.reset(all.exchanges);
  told(all);
});
events.addEventListener("some", (event) => {
  const some = JSON.parse(event.data);
  list.take(some.changed, some.gone);
  told(some);
  const mine = some.changed.find((row) => row.id === lanes.id);
  if (mine && lanes.exchange) show({ summary: mine });
  else if (lanes.exchange?.summary.is_run) show({});
});
events.addEventListener("open", () => live("live", true));
events.addEventListener("error", () => live("not connected", false));

function live(text, on) {
  $("live-text").textContent = text;
  $("live").classList.toggle("on", on);
}

function told(all) {
  numbers = all;
  list.later();
}

list.arranged = () => {
  const rows = [...list.all.values()];
  const running = rows.filter((row) => row.state === "running").length;
  const failed = rows.filter((row) => row.state === "failed").length;
  const shown = list.order.length === rows.length ? count(rows.length, "exchange") : `${list.order.length.toLocaleString("en")} of ${count(rows.length, "exchange")}`;
  const parts = [shown, running ? `${running} running` : "", failed ? `${failed} failed` : ""];
  if (numbers.lost) parts.push(`${numbers.lost} not shown`);
  if (numbers.forgotten) parts.push(`${numbers.forgotten} forgotten`);
  parts.push(count(numbers.processors ?? 0, "process").replace("processs", "processes"));
  $("counts").textContent = parts.filter(Boolean).join(" · ");
  $("counts").title = `kept: ${Math.round((numbers.bytes ?? 0) / 1e4) / 100} of ${Math.round((numbers.most_bytes ?? 0) / 1048576)} MB, for ${numbers.most_minutes} minutes`;
  $("empty").hidden = rows.length > 0;
  options($("outcome"), "outcome", Object.keys(OUTCOMES).map((state) => [state, OUTCOMES[state]]));
  options($("model"), "model", distinct(rows, "model"));
  options($("client"), "key", distinct(rows, "client"));
};

function distinct(rows, name) {
  return [...new Set(rows.map((row) => row[name]).filter(Boolean))].sort().map((value) => [value, value]);
}

function options(select, noun, values) {
  const wanted = JSON.stringify(values);
  if (select.dataset.values === wanted) return;
  select.dataset.values = wanted;
  const chosen = select.value;
  select.replaceChildren(element("option", { value: "" }, `any ${noun}`), ...values.map(([value, label]) => element("option", { value }, label)));
  select.value = chosen;
  select.closest("label").hidden = noun === "key" && !values.length;
}

for (const [id, name] of [["outcome", "outcome"], ["model", "model"], ["client", "client"]]) {
  $(id).addEventListener("change", () => {
    list.filter[name] = $(id).value;
    list.arrange();
  });
}
$("search").addEventListener("input", () => {
  list.filter.words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  list.arrange();
});
document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());

// One exchange

function open(id) {
  lanes.stream?.close();
  Object.assign(lanes, { id, exchange: null });
  list.select(id);
  $("panes").classList.add("open");
  lanes.stream = new EventSource(`exchanges/${id}/events`);
  lanes.stream.addEventListener("exchange", (event) => {
    const news = JSON.parse(event.data);
    if (lanes.exchange) show(news);
    else {
      lanes.exchange = news;
      detail.open(news);
    }
  });
  lanes.stream.addEventListener("end", () => lanes.stream.close());
  lanes.stream.addEventListener("error", () => {
    if (!lanes.exchange) {
      lanes.stream.close();
      $("detail").replaceChildren(note("That exchange isn't here any more."));
    }
  });
}

function show(news) {
  Object.assign(lanes.exchange, news);
  detail.update(lanes.exchange);
}

function back() {
  lanes.stream?.close();
  $("panes").classList.remove("open");
  $("list").focus();
}

$("detail").addEventListener("click", (event) => {
  const link = event.target.closest("[data-open]");
  if (link) open(link.dataset.open);
});

// What one can do with it

function path(what) {
  const id = lanes.id ?? list.selected;
  return id ? `exchanges/${id}/${what}` : null;
}

function download(what) {
  const from = path(what);
  if (!from) return;
  const link = element("a", { href: from, download: "" });
  document.body.append(link);
  link.click();
  link.remove();
  say(what === "recording" ? "The recording is saved: extproc replay plays it." : "The report is saved: one file, to be opened anywhere.");
}

function save() {
  download("recording");
}

function report() {
  download("report");
}

async function copyCurl() {
  const from = path("curl");
  if (!from) return;
  const command = await (await fetch(from)).text();
  try {
    await navigator.clipboard.writeText(command);
    say("The command is copied; keys are not in it.");
  } catch {
    const area = element("textarea", { readonly: true, "aria-label": "curl command" }, command);
    $("told").replaceChildren("The browser doesn't let pages copy: ", area);
    area.select();
  }
}

async function replay() {
  if (!lanes.exchange) return;
  const verdict = element("p", { class: "verdict faint", role: "status" }, "asking what this version makes of it, byte by byte …");
  detail.replay(verdict);
  const found = await (await fetch(path("replay"))).json();
  verdict.classList.remove("faint");
  if (found.trouble) verdict.textContent = found.trouble;
  else if (found.same) verdict.replaceChildren(element("b", { class: "good" }, "the same"), ` as recorded, byte by byte, by this version (${count(found.steps, "step")})`);
  else verdict.replaceChildren(element("b", { class: "bad" }, "not the same"), ` by this version: ${found.place}: `, element("code", { class: "old" }, found.recorded), " → ", element("code", { class: "new" }, found.now));
}

let silence = 0;
function say(text) {
  $("told").textContent = text;
  clearTimeout(silence);
  silence = setTimeout(() => ($("told").textContent = ""), 5000);
}

// Keys

function move(by) {
  const id = list.move(by);
  if (id && $("panes").classList.contains("open")) open(id);
}

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  ArrowDown: () => move(1),
  ArrowUp: () => move(-1),
  g: () => move(-Infinity),
  G: () => move(Infinity),
  Enter: () => {
    if (list.selected) {
      open(list.selected);
      $("detail").focus();
    }
  },
  Escape: () => (detail.replaying ? detail.stop() : back()),
  "/": () => $("search").focus(),
  "?": () => $("help").showModal(),
  s: save,
  r: replay,
  c: copyCurl,
  e: report,
  " ": () => detail.pause(),
  ArrowLeft: () => detail.goTo(detail.replaying?.at - 1, true),
  ArrowRight: () => detail.goTo(detail.replaying?.at + 1, true),
};
for (const number of [1, 2, 3, 4]) KEYS[number] = () => detail.showAlone(detail.alone === number ? 0 : number);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
  const { target } = event;
  if (target.matches("input[type=search], select, textarea")) {
    if (event.key === "Escape" || (event.key === "Enter" && target.id === "search")) {
      target.blur();
      $("list").focus();
      if (!list.places?.has(list.selected)) list.move(1);
      event.preventDefault();
    }
    return;
  }
  if (target.matches("button, summary, input, a") && (event.key === "Enter" || event.key === " ")) return;
  if (target.matches("input[type=range]") && event.key.startsWith("Arrow")) return;
  if (event.key === " " && !detail.replaying) return;
  if ((event.key === "ArrowDown" || event.key === "ArrowUp") && target.matches(".lane-body")) return;
  if (event.key.startsWith("Arrow") && event.key !== "ArrowDown" && event.key !== "ArrowUp" && !detail.replaying) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
$("back").addEventListener("click", back);
$("help-button").addEventListener("click", () => $("help").showModal());
$("list").focus();
