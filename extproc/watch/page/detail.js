// One exchange: what it was, what was found, when what happened, and its four lanes. The same on the page and in a report.
"use strict";

/** What is told above the lanes, in this order: each makes an element of an exchange, or null. */
const SECTIONS = [roundsSection, diagnosisSection, foundSection, notesSection];

class Detail {
  /** `actions`: [key, label, what it does] for the buttons. `rounds`: the rows of a run's rounds, by its exchange. */
  constructor(place, actions, rounds = () => []) {
    this.place = place;
    this.actions = actions;
    this.rounds = rounds;
    this.exchange = null;
    this.alone = 0;
    this.replaying = null;
  }

  /** Show this exchange from the beginning. */
  open(exchange) {
    this.stop();
    this.exchange = exchange;
    this.head = element("div", { class: "head" });
    this.sections = element("div", { class: "sections" });
    this.player = element("div", { class: "player", hidden: true });
    this.lanes = LANES.map((title, number) => {
      const body = element("div", { class: "lane-body", tabindex: "0", role: "group", "aria-label": title });
      const lane = element("section", { class: `lane lane-${number + 1}` }, element("h3", {}, element("span", { class: "number", "aria-hidden": "true" }, number + 1), title), body);
      return { lane, body, seen: "" };
    });
    this.grid = element("div", { class: "lanes" }, this.lanes.map(({ lane }) => lane));
    this.place.replaceChildren(this.head, this.sections, this.player, this.grid);
    this.showAlone(this.alone);
    this.update(exchange);
  }

  /** It has gone on. */
  update(exchange) {
    this.exchange = exchange;
    const focused = document.activeElement?.dataset?.key;
    this.head.replaceChildren(...headOf(exchange, this.actions), timelineOf(exchange));
    if (focused) this.head.querySelector(`[data-key="${focused}"]`)?.focus();
    this.sections.replaceChildren(...SECTIONS.map((section) => section(exchange, this.rounds(exchange))).filter(Boolean));
    this.fill(0, JSON.stringify(exchange.asked)?.length + String(exchange.timing.asked), () => requestOf(exchange.asked));
    this.fill(1, `${exchange.same}${JSON.stringify(exchange.shown)?.length}`, () => this.shown(exchange));
    if (!this.replaying) this.fillAnswers();
  }

  fill(number, seen, make) {
    const lane = this.lanes[number];
    if (lane.seen === seen) return;
    lane.seen = seen;
    lane.body.replaceChildren(...make());
  }

  shown(exchange) {
    if (exchange.shown === null && exchange.ended) return [note("It was answered without asking a model.")];
    const head = [exchange.backend ? `backend ${exchange.backend}` : "", exchange.mode ? `${exchange.mode} mode` : "", exchange.format ?? ""].filter(Boolean).join(" · ");
    const told = head ? [element("p", { class: "faint finish" }, head)] : [];
    if (exchange.same) return [...told, note("The same, byte for byte.")];
    return [...told, ...requestOf(exchange.shown, exchange.asked ?? {})];
  }

  fillAnswers(until = Infinity) {
    const written = this.exchange.written[0];
    for (const [number, parts] of [
      [2, writtenOf(this.exchange, until)],
      [3, receivedOf(this.exchange, until === Infinity ? Infinity : timeOf(written, until))],
    ]) {
      const { body } = this.lanes[number];
      const follows = body.scrollHeight - body.scrollTop - body.clientHeight < 24;
      body.replaceChildren(...parts);
      if (follows && (until !== Infinity || !this.exchange.ended)) body.scrollTop = body.scrollHeight;
    }
  }

  /** One lane alone, or all: 0. */
  showAlone(number) {
    this.alone = number;
    if (!this.grid) return;
    this.grid.dataset.alone = number;
    this.lanes.forEach(({ lane }, index) => (lane.hidden = number > 0 && index !== number - 1));
  }

  // A replay: the text grows as it did, character by character; the client's lane shows what it had by then.

  /** Begin one; `verdict` is an element that tells what the code makes of it today, or null. */
  replay(verdict = null) {
    const written = this.exchange?.written[0];
    this.stop();
    this.player.hidden = false;
    if (!written || !textLength(written)) {
      this.player.replaceChildren(note("There is no text of a model in it to be played."), verdict ?? "");
      return;
    }
    const length = textLength(written);
    const slider = element("input", { type: "range", min: 0, max: length, value: 0, "aria-label": "Characters of the model's text", input: () => this.goTo(Number(slider.value), true) });
    const place = element("output", { class: "place" });
    const button = element("button", { type: "button", click: () => this.pause() }, "Pause");
    const done = element("button", { type: "button", click: () => this.stop() }, "Close");
    this.player.replaceChildren(button, slider, place, done, verdict ?? "");
    this.replaying = { at: 0, length, written, slider, place, button, step: Math.max(1, Math.ceil(length / 400)), timer: 0 };
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) this.goTo(0, true);
    else this.play();
  }

  play() {
    const now = this.replaying;
    now.button.textContent = "Pause";
    now.timer = setInterval(() => {
      if (now.at >= now.length) this.pause();
      else this.goTo(Math.min(now.at + now.step, now.length));
    }, 20);
    this.goTo(now.at >= now.length ? 0 : now.at);
  }

  /** Pause, or go on. */
  pause() {
    const now = this.replaying;
    if (!now) return;
    if (!now.timer) {
      this.play();
      return;
    }
    clearInterval(now.timer);
    now.timer = 0;
    now.button.textContent = "Play";
  }

  /** To this character; `held`: and stay there. */
  goTo(at, held = false) {
    const now = this.replaying;
    if (!now) return;
    if (held && now.timer) this.pause();
    now.button.textContent = now.timer ? "Pause" : "Play";
    now.at = Math.max(0, Math.min(at, now.length));
    now.slider.value = now.at;
    now.place.textContent = `${now.at} of ${count(now.length, "character")} · ${duration(timeOf(now.written, now.at))}`;
    this.fillAnswers(now.at);
  }

  stop() {
    if (this.replaying) clearInterval(this.replaying.timer);
    this.replaying = null;
    if (this.player) this.player.hidden = true;
    if (this.exchange && this.lanes) this.fillAnswers();
  }
}

function headOf(exchange, actions) {
  const { summary } = exchange;
  const facts = [
    ["status", summary.status],
    ["key", summary.client],
    ["mode", exchange.mode],
    ["step", exchange.step],
    ["format", exchange.format],
    ["tools", summary.tools || null],
    ["first words", exchange.timing.first !== null ? duration(exchange.timing.first) : null],
    ["took", duration(exchange.timing.end ?? summary.ms)],
    ["tokens", summary.completion_tokens !== null ? `${summary.prompt_tokens ?? "?"} + ${summary.completion_tokens}` : null],
    ["round", exchange.round],
    ["id", exchange.request_id],
  ].filter(([, value]) => value !== null && value !== undefined && value !== "");
  const buttons = actions.map(([key, label, act]) => element("button", { type: "button", "data-key": key, "aria-keyshortcuts": key, click: act }, label, element("kbd", { "aria-hidden": "true" }, key)));
  return [
    element(
      "div",
      { class: "title" },
      element("h2", {}, summary.model ?? "?"),
      element("span", { class: `outcome ${summary.state}` }, outcomeOf(summary)),
      element("span", { class: "faint path" }, `${exchange.method} ${exchange.path}`),
      element("div", { class: "actions" }, buttons),
    ),
    element("dl", { class: "facts" }, facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, String(value))))),
  ];
}

/** When what happened: waiting for the gateway, for the backend's first words, and each piece. */
function timelineOf(exchange) {
  const { asked, forwarded, first, last } = exchange.timing;
  const end = Math.max(exchange.timing.end ?? 0, 1);
  const x = (ms) => (1000 * ms) / end;
  const parts = [
    ["gateway", "the gateway, before the backend was asked", asked ?? 0, forwarded ?? asked ?? 0],
    ["waiting", "the backend, before its first words", forwarded, first],
    ["writing", "the model writes", first, last],
  ].filter(([, , from, to]) => from !== null && from !== undefined && to !== null && to !== undefined);
  const bars = parts.map(([name, title, from, to]) =>
    drawn("rect", { class: name, x: x(from), y: 6, width: Math.max(x(to) - x(from), 2), height: 8, rx: 2 }, drawn("title", {}, `${title}: ${duration(to - from)}`)),
  );
  const pieces = (exchange.written[0]?.pieces ?? []).slice(0, 2000).map(([, at]) => drawn("path", { class: "piece", d: `M${x(at).toFixed(1)} 16v5` }));
  const words = parts.map(([name, title, from, to]) => element("span", { class: name }, element("i", { "aria-hidden": "true" }), `${title} `, element("b", {}, duration(to - from))));
  return element(
    "figure",
    { class: "timeline" },
    drawn("svg", { viewBox: "0 0 1000 22", preserveAspectRatio: "none", "aria-hidden": "true" }, bars, pieces),
    element("figcaption", {}, words),
  );
}

/** The rounds of a run, and what their tools came to. */
function roundsSection(exchange, rounds) {
  if (!rounds.length) return null;
  const rows = rounds.map((row) =>
    element(
      "li",
      {},
      element("button", { type: "button", class: "link", "data-open": row.id }, `round ${row.round}`),
      element("span", { class: `outcome ${row.state}` }, OUTCOMES[row.state]),
      row.calls.length ? element("span", {}, " called ", row.calls.map((name) => element("code", {}, name))) : "",
      row.round > 1 && row.words ? element("span", { class: "faint" }, ` after: ${row.words}`) : "",
      element("span", { class: "faint" }, ` ${duration(row.ms)}`),
    ),
  );
  return element("section", { class: "found rounds" }, element("h3", {}, "Rounds of this run"), element("ul", {}, rows));
}

/** What was wrong with the calls, and what was repaired, in words. */
function diagnosisSection(exchange) {
  const findings = exchange.diagnosis ?? [];
  if (!findings.length) return null;
  const rows = findings.map((finding) =>
    element(
      "li",
      { class: `finding ${finding.severity}` },
      element("strong", {}, `${finding.severity}: `),
      withCode(finding.what),
      element("span", { class: "faint" }, " ", withCode(finding.shown_by), finding.quoted ? ` "${finding.quoted}"` : ""),
      element("div", {}, withCode(finding.change)),
    ),
  );
  return element("section", { class: "found diagnosis" }, element("h3", {}, "Diagnosis"), element("ul", {}, rows));
}

function foundSection(exchange) {
  const outputs = [...exchange.written, ...(exchange.retry?.written ?? [])];
  const rows = [];
  for (const output of outputs) {
    for (const violation of output.violations) rows.push(element("li", { class: "violation" }, violation));
    const seen = new Set();
    for (const repair of output.repairs) {
      const changed = seen.has(repair.call) ? "" : element("span", { class: "change" }, element("code", { class: "old" }, repair.wrote), " → ", element("code", { class: "new" }, repair.became));
      seen.add(repair.call);
      rows.push(element("li", { class: "repair" }, "The model wrote ", withCode(repair.reason), ". ", changed));
    }
  }
  if (!rows.length) return null;
  return element("section", { class: "found" }, element("h3", {}, "Violations and repairs"), element("ul", {}, rows));
}

function withCode(text) {
  return text.split("`").map((part, index) => (index % 2 ? element("code", {}, part) : part));
}

function notesSection(exchange) {
  if (!exchange.notes.length) return null;
  return element("section", { class: "found notes" }, element("ul", {}, exchange.notes.map((text) => element("li", {}, text))));
}
