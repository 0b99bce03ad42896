// The list: only the rows that can be seen are in the document, however many there are.
"use strict";

const URGENT = { running: 0, failed: 1 };
const OVERSCAN = 6;

class List {
  constructor(place, rows, chosen) {
    this.place = place;
    this.rows = rows;
    this.chosen = chosen;
    this.all = new Map();
    this.order = [];
    this.filter = { words: [], outcome: "", model: "", client: "" };
    this.selected = null;
    this.drawn = new Map();
    this.due = false;
    place.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(place);
    rows.addEventListener("click", (event) => {
      const row = event.target.closest("[data-id]");
      if (row) this.chosen(row.dataset.id);
    });
  }

  get rowHeight() {
    return parseFloat(getComputedStyle(this.place).getPropertyValue("--row")) || 56;
  }

  /** All that there are. */
  reset(exchanges) {
    this.all.clear();
    this.take(exchanges, []);
  }

  take(changed, gone) {
    for (const row of changed) {
      row.hay = [row.words, row.model, row.path, row.request_id, row.error, row.client, row.status, ...row.calls].join("\n").toLowerCase();
      this.all.set(row.id, row);
    }
    for (const id of gone) this.all.delete(id);
    this.later();
  }

  later() {
    if (this.due) return;
    this.due = true;
    setTimeout(() => requestAnimationFrame(() => {
      this.due = false;
      this.arrange();
    }), 60);
  }

  matches(row) {
    const { words, outcome, model, client } = this.filter;
    return (
      (!outcome || row.state === outcome) &&
      (!model || row.model === model) &&
      (!client || row.client === client) &&
      words.every((word) => row.hay.includes(word))
    );
  }

  /** Running and failed ones first, then the newest; the rounds of a run under it. */
  arrange() {
    const runs = new Map(), rounds = new Map();
    for (const row of this.all.values()) if (row.is_run && row.request_id) runs.set(row.request_id, row);
    for (const row of this.all.values()) {
      if (row.round === null || !runs.has(row.request_id) || !this.matches(row)) continue;
      if (!rounds.has(row.request_id)) rounds.set(row.request_id, []);
      rounds.get(row.request_id).push(row);
    }
    const groups = [[], [], []];
    for (const row of [...this.all.values()].reverse()) {
      const run = row.round !== null ? runs.get(row.request_id) : undefined;
      if (run && this.matches(run)) continue; // it stands under it
      if (!this.matches(row)) continue;
      const group = groups[URGENT[row.state] ?? 2];
      group.push(row);
      if (row.is_run) group.push(...(rounds.get(row.request_id) ?? []));
    }
    this.order = groups.flat();
    this.places = new Map(this.order.map((row, index) => [row.id, index]));
    this.rows.style.height = `${this.order.length * this.rowHeight}px`;
    this.draw(true);
    this.arranged?.();
  }

  roundsOf(requestId) {
    return [...this.all.values()].filter((row) => row.round !== null && row.request_id === requestId).sort((one, other) => one.round - other.round);
  }

  draw(anew = false) {
    const height = this.rowHeight;
    const first = Math.max(Math.floor(this.place.scrollTop / height) - OVERSCAN, 0);
    const last = Math.min(Math.ceil((this.place.scrollTop + this.place.clientHeight) / height) + OVERSCAN, this.order.length);
    const wanted = new Set();
    for (let index = first; index < last; index++) {
      const row = this.order[index];
      wanted.add(row.id);
      let made = this.drawn.get(row.id);
      if (!made || (anew && made.row !== row)) {
        const next = this.drawRow(row);
        if (made) made.element.replaceWith(next);
        else this.rows.append(next);
        made = { element: next, row };
        this.drawn.set(row.id, made);
      }
      made.element.style.transform = `translateY(${index * height}px)`;
      made.element.setAttribute("aria-posinset", index + 1);
      made.element.setAttribute("aria-setsize", this.order.length);
      made.element.setAttribute("aria-selected", row.id === this.selected);
    }
    for (const [id, made] of this.drawn) {
      if (wanted.has(id)) continue;
      made.element.remove();
      this.drawn.delete(id);
    }
    const active = this.drawn.get(this.selected)?.element;
    if (active) this.place.setAttribute("aria-activedescendant", active.id);
    else this.place.removeAttribute("aria-activedescendant");
  }

  drawRow(row) {
    const under = row.round !== null && [...this.all.values()].some((each) => each.is_run && each.request_id === row.request_id);
    const time = new Date(row.began).toLocaleTimeString("en-GB");
    const said = row.error && row.state === "failed" ? row.error : row.words;
    const calls = row.calls.slice(0, 3).map((name) => element("code", {}, name));
    return element(
      "div",
      { class: `row ${row.state}${under ? " round" : ""}`, role: "option", id: `row-${row.id}`, "data-id": row.id },
      element("span", { class: "sign", "aria-hidden": "true" }),
      element("span", { class: "name" }, row.round !== null ? `round ${row.round} · ${row.model ?? "?"}` : row.model ?? "?"),
      element("span", { class: "when" }, time),
      element("span", { class: "said" }, element("span", { class: `outcome ${row.state}` }, outcomeOf(row)), calls, row.repairs ? element("span", { class: "mended" }, count(row.repairs, "repair")) : "", element("span", {}, said)),
      element("span", { class: "took" }, row.state === "running" ? "…" : duration(row.ms)),
    );
  }

  // Moving in it

  select(id) {
    this.selected = id;
    const index = this.places?.get(id);
    if (index !== undefined) {
      const top = index * this.rowHeight;
      if (top < this.place.scrollTop) this.place.scrollTop = top;
      else if (top + this.rowHeight > this.place.scrollTop + this.place.clientHeight) this.place.scrollTop = top + this.rowHeight - this.place.clientHeight;
    }
    this.draw();
  }

  /** So many rows on; the id that it comes to. */
  move(by) {
    if (!this.order.length) return null;
    const now = this.places.get(this.selected);
    const next = now === undefined ? (by > 0 ? 0 : this.order.length - 1) : Math.max(0, Math.min(now + by, this.order.length - 1));
    this.select(this.order[next].id);
    return this.selected;
  }
}
