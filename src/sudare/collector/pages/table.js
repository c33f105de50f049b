// The history as a table: the latest rounds first, more on request.

import * as words from "./words.js";

/** @typedef {import("./api.js").Round} Round */

const FIRST_PAGE = 12;
const PAGE = 200;

export class History {
  /**
   * @param {import("./api.js").Survey} survey
   * @param {(first: number, beyond: number) => Promise<void>} detail brings rounds that are missing
   */
  constructor(survey, detail) {
    this.detail = detail;
    this.clock = words.clock(survey.round_seconds);
    this.body = find("rows");
    this.more = find("more");
    this.latestFirst = true;
    this.shown = FIRST_PAGE;
    /** @type {import("./rounds.js").Rounds | undefined} */
    this.rounds = undefined;
    /** @type {Map<number, {row: HTMLTableRowElement, revision: number}>} */
    this.rows = new Map();
    this.more.addEventListener("click", () => {
      this.shown += PAGE;
      this.look();
    });
    addEventListener("resize", () => this.sayWidth());
    find("order").addEventListener("click", () => {
      this.latestFirst = !this.latestFirst;
      this.sayOrder();
      this.look();
    });
  }

  /** @param {import("./rounds.js").Rounds} rounds */
  update(rounds) {
    this.rounds = rounds;
    this.draw();
  }

  /** The first of the rounds that are shown, and the one after the last. */
  ends() {
    const total = this.rounds?.published ?? 0;
    const few = Math.min(this.shown, total);
    return this.latestFirst ? [total - few, total] : [0, few];
  }

  /** Show what was asked for, at once if it is here. */
  look() {
    this.draw();
    // Where the collector cannot be reached the page says so, and another click tries again.
    this.detail(this.ends()[0], this.ends()[1]).catch(() => {});
  }

  draw() {
    const total = this.rounds?.published ?? 0;
    const [first, beyond] = this.ends();
    const page = this.rounds?.within(first, beyond) ?? [];
    if (this.latestFirst) page.reverse();
    // Rows that stay are left alone, so that what the reader selected stays selected.
    let place = this.body.firstChild;
    for (const round of page) {
      const row = this.row(round);
      if (row === place) place = place.nextSibling;
      else this.body.insertBefore(row, place);
    }
    while (place) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
    find("scroller").hidden = total === 0;
    this.sayWidth();
    find("no-history").hidden = total > 0;
    const left = total - (beyond - first);
    this.more.hidden = left <= 0;
    this.more.textContent = left <= PAGE ? `Show all ${words.count(total)} rounds` : `Show ${PAGE} more`;
  }

  /** Whether there is more beside what a narrow screen shows. */
  sayWidth() {
    const scroller = find("scroller");
    find("sideways").hidden = scroller.hidden || scroller.scrollWidth <= scroller.clientWidth + 1;
  }

  /** @param {Round} round */
  row(round) {
    const known = this.rows.get(round.round);
    if (known?.revision === round.revision) return known.row;
    const row = known?.row ?? document.createElement("tr");
    row.replaceChildren(...this.cells(round));
    row.dataset.round = String(round.round);
    this.rows.set(round.round, { row, revision: round.revision });
    return row;
  }

  /** @param {Round} round */
  cells(round) {
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = words.count(round.round);
    if (round.revision > 0) head.append(note(" revised"));
    const [opens, closes] = [Date.parse(round.opens), Date.parse(round.closes)];
    const when = cell("", "words");
    // In two pieces, so that a narrow column breaks between them.
    when.append(piece(this.clock.day(opens, closes)), " ", piece(this.clock.hours(opens, closes)));
    const share = cell(words.share(round.share));
    if (round.raw !== null && round.raw !== round.share) {
      share.prepend(note(`${words.share(round.raw)}, cut to `));
    }
    const nobody = round.share === null;
    return [
      head,
      when,
      share,
      cell(nobody ? "–" : words.interval(round.low, round.high)),
      cell(words.share(round.smoothed)),
      cell(words.count(round.reporters)),
    ];
  }

  sayOrder() {
    const { latestFirst } = this;
    find("order").parentElement?.setAttribute("aria-sort", latestFirst ? "descending" : "ascending");
    const order = latestFirst ? "latest first" : "first round first";
    find("order-words").textContent = `, ${order}`;
    find("order-mark").textContent = latestFirst ? "\u00a0↓" : "\u00a0↑";
    find("history-caption").textContent = `Every published round, ${order}`;
  }
}

/** @param {string} id */
function find(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** @param {string} content @param {string} kind */
function cell(content, kind = "") {
  const made = document.createElement("td");
  made.textContent = content;
  made.className = kind;
  return made;
}

/** @param {string} content */
function piece(content) {
  const made = document.createElement("span");
  made.textContent = content;
  return made;
}

/** @param {string} content */
function note(content) {
  const made = document.createElement("span");
  made.className = "muted small";
  made.textContent = content;
  return made;
}
