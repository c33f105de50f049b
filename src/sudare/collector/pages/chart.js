// The curve: intervals as a band, raw estimates as rings, the smoothed curve as a line, and below it how
// many reported. Hand-written SVG in real pixels; colours come from the style sheet.

import { scale, shareRange, ticks, timeTicks } from "./axes.js";
import * as shapes from "./shapes.js";
import * as words from "./words.js";

/** @typedef {import("./api.js").Round} Round */
/** @typedef {import("./api.js").Survey} Survey */

const NS = "http://www.w3.org/2000/svg";
const WIDE = 640;
const WHOLE_SURVEY = 120;
const LABEL_GAP = 17;
const LABEL_WIDTH = 134;

/**
 * @typedef {object} View
 * @property {Round[]} rounds those to be drawn
 * @property {number} first the first round on the axis
 * @property {number} last one past the last round on the axis
 * @property {[number, number][]} open rounds not yet published, with their reporters so far
 */

/**
 * Where things are, in pixels.
 * @typedef {object} Frame
 * @property {{left: number, right: number, top: number, bottom: number}} plot
 * @property {{top: number, bottom: number}} strip
 * @property {number} spacing between rounds
 * @property {(round: number) => number} across from a round's beginning
 * @property {(round: number) => number} x of a round's middle
 * @property {(share: number) => number} y
 * @property {(reporters: number) => number} up
 */

export class Chart {
  /**
   * @param {HTMLElement} box
   * @param {Survey} survey
   * @param {(round: number) => void} onPoint a place was pointed at
   */
  constructor(box, survey, onPoint) {
    this.box = box;
    this.survey = survey;
    this.start = Date.parse(survey.start);
    this.clock = words.clock(survey.round_seconds);
    /** @type {View} */
    this.view = { rounds: [], first: 0, last: survey.rounds, open: [] };
    /** @type {Round | undefined} */
    this.cursor = undefined;
    /** @type {Frame | undefined} */
    this.frame = undefined;
    this.svg = element("svg", { "aria-hidden": "true", focusable: "false" });
    /** @type {Record<string, SVGElement>} */
    this.layers = {};
    for (const name of ["grid", "band", "edge", "bars", "filling", "smooth", "raw", "labels", "cursor"]) {
      const kind = ["grid", "labels", "cursor"].includes(name) ? "g" : "path";
      this.layers[name] = element(kind, { class: name });
      this.svg.append(this.layers[name]);
    }
    box.append(this.svg);
    this.watchPointer(onPoint);
    new ResizeObserver(() => this.draw()).observe(box);
  }

  /** @param {View} view */
  update(view) {
    this.view = view;
    this.draw();
  }

  /** @param {Round | undefined} round */
  point(round) {
    this.cursor = round;
    this.drawCursor();
  }

  draw() {
    const width = Math.floor(this.box.clientWidth);
    if (!width) return;
    const { rounds, first, last, open } = this.view;
    const wide = width >= WIDE;
    const plot = {
      left: 46,
      right: width - 10,
      top: 12,
      bottom: wide ? 312 : 232,
    };
    // Room for the words beside the last round, if the future does not leave enough.
    const part = ((rounds.at(-1)?.round ?? first) + 0.5 - first) / (last - first);
    if (wide) plot.right = Math.min(plot.right, plot.left + (width - LABEL_WIDTH - plot.left) / part);
    const strip = { top: plot.bottom + 40, bottom: plot.bottom + (wide ? 104 : 92) };
    const height = strip.bottom + 30;
    this.svg.setAttribute("width", String(width));
    this.svg.setAttribute("height", String(height));

    const spacing = (plot.right - plot.left) / Math.max(1, last - first);
    const across = scale(first, last, plot.left, plot.right);
    const x = (/** @type {number} */ round) => across(round + 0.5);
    const [low, high] = shareRange(rounds);
    const y = scale(low, high, plot.bottom, plot.top);
    /** @type {[number, number][]} */
    const heard = rounds.map((r) => [r.round, r.reporters]);
    const most = [...heard, ...open].reduce((top, [, n]) => Math.max(top, n), 1);
    const up = scale(0, most, strip.bottom, strip.top);
    const frame = (this.frame = { plot, strip, spacing, across, x, y, up });

    this.layers.grid.replaceChildren(
      ...(rounds.length ? this.shareLabels(frame, low, high) : []),
      ...this.reporterLabels(frame, most),
      ...this.timeLabels(frame, wide),
    );
    const { area, edges } = shapes.band(rounds, x, y, spacing);
    this.path("band", area);
    this.path("edge", edges);
    const { path, kind } = shapes.raw(rounds, x, y, spacing);
    this.path("raw", path);
    this.layers.raw.setAttribute("class", `raw ${kind}`);
    // Rings lie on the line; a crowd of them would hide it.
    this.svg.insertBefore(this.layers.raw, this.layers[kind === "crowd" ? "smooth" : "labels"]);
    this.layers.smooth.setAttribute("class", spacing < 1.5 ? "smooth crowd" : "smooth");
    this.path("smooth", shapes.smooth(rounds, x, y, spacing));
    this.path("bars", shapes.bars(heard, x, up, spacing));
    this.path("filling", shapes.bars(open, x, up, spacing));
    this.layers.labels.replaceChildren(...(wide ? this.endLabels(frame) : []));
    this.box.dataset.labelled = String(wide || rounds.length === 0);
    this.drawCursor();
  }

  /** @param {string} layer @param {string} d */
  path(layer, d) {
    this.layers[layer].setAttribute("d", d);
  }

  /** @param {Frame} frame @param {number} low @param {number} high */
  shareLabels({ plot, y }, low, high) {
    const marks = ticks(low, high, 5).filter((m) => m >= low - 1e-9 && m <= high + 1e-9);
    const digits = marks[1] - marks[0] < 0.0099 ? 1 : 0;
    return marks.flatMap((mark) => [
      line(plot.left, y(mark), plot.right, y(mark), mark === 0 ? "ground" : "rule"),
      text(plot.left - 8, y(mark) + 4, words.sharePlain(mark, digits), "end"),
    ]);
  }

  /** @param {Frame} frame @param {number} most */
  reporterLabels({ plot, strip, up }, most) {
    const top = ticks(0, most, 2).filter((n) => n > 0 && n <= most && Number.isInteger(n)).at(-1);
    return [
      text(plot.left, strip.top - 14, "Reporters per round", "start", "title"),
      line(plot.left, strip.bottom, plot.right, strip.bottom, "ground"),
      ...(top ? [text(plot.left - 8, up(top) + 4, words.count(top), "end")] : []),
      ...(top ? [line(plot.left, up(top), plot.right, up(top), "rule")] : []),
    ];
  }

  /** @param {Frame} frame @param {boolean} wide */
  timeLabels({ plot, strip, across }, wide) {
    const edge = this.box.clientWidth;
    const length = 1000 * this.survey.round_seconds;
    const [from, to] = [this.view.first, this.view.last].map((t) => this.start + t * length);
    const marks = timeTicks(from, to, (plot.right - plot.left) / (wide ? 88 : 64));
    const clock = words.clock(marks[0]?.step < 60_000 ? 1 : 60);
    return marks.flatMap(({ at, day }) => {
      const place = across((at - this.start) / length);
      const label = day ? clock.date(at) : clock.time(at);
      const half = 4 * label.length;
      const [x, anchor] = place + half > edge ? [edge, "end"] : [place, "middle"];
      return [
        line(place, strip.bottom, place, strip.bottom + 5, "tick"),
        text(x, strip.bottom + 22, label, anchor, day ? "day" : ""),
      ];
    });
  }

  /** What each mark is, beside its last one. @param {Frame} frame */
  endLabels({ x, y, plot }) {
    const last = this.view.rounds.at(-1);
    if (!last) return [];
    const labels = [];
    if (last.smoothed !== null) {
      labels.push({ at: y(last.smoothed), kind: "smooth-label", words: `smoothed ${words.share(last.smoothed)}` });
    }
    if (last.share !== null) {
      labels.push(
        { at: y(last.share), kind: "raw-label", words: `raw ${words.share(last.share)}` },
        { at: y(last.high), kind: "band-label", words: `interval ± ${words.points((last.high - last.low) / 2)}` },
      );
    }
    labels.sort((a, b) => a.at - b.at);
    // Push apart what would overlap, then back up from the floor.
    for (let i = 1; i < labels.length; i++) {
      labels[i].at = Math.max(labels[i].at, labels[i - 1].at + LABEL_GAP);
    }
    labels.reverse().reduce((floor, label) => {
      label.at = Math.min(label.at, floor);
      return label.at - LABEL_GAP;
    }, plot.bottom);
    return labels.map(({ at, kind, words }) => text(x(last.round) + 12, at + 4, words, "start", kind));
  }

  drawCursor() {
    const round = this.cursor;
    if (!round || !this.frame || round.round < this.view.first) {
      this.layers.cursor.replaceChildren();
      return;
    }
    const { x, y, plot, strip } = this.frame;
    const at = x(round.round);
    const parts = [
      line(at, plot.top, at, plot.bottom, ""),
      line(at, strip.top, at, strip.bottom, ""),
    ];
    if (round.smoothed !== null) {
      parts.push(element("path", { class: "on-smooth", d: shapes.ring(at, y(round.smoothed), 4) }));
    }
    if (round.share !== null) {
      parts.push(element("path", { class: "on-raw", d: shapes.ring(at, y(round.share), 4.5) }));
    }
    this.layers.cursor.replaceChildren(...parts);
  }

  /** @param {(round: number) => void} onPoint */
  watchPointer(onPoint) {
    const found = (/** @type {PointerEvent} */ event) => {
      if (!this.frame) return;
      const { plot, spacing } = this.frame;
      const inside = event.clientX - this.box.getBoundingClientRect().left - plot.left;
      onPoint(this.view.first + inside / spacing - 0.5);
    };
    this.box.addEventListener("pointermove", found);
    this.box.addEventListener("pointerdown", found);
  }
}

/**
 * Which rounds belong on the axis.
 * @param {Round[]} rounds all that were published, in order
 * @param {Survey} survey
 * @param {number} recent how many to show at most; 0 for all
 */
export function span(rounds, survey, recent) {
  const seen = (rounds.at(-1)?.round ?? -1) + 1;
  if (recent && seen > recent) return { first: seen - recent, last: seen };
  // A short survey has its whole axis from the start, a long one grows into it.
  const whole = survey.rounds <= WHOLE_SURVEY || 4 * seen >= survey.rounds;
  return { first: 0, last: whole ? survey.rounds : Math.min(survey.rounds, Math.max(60, Math.ceil(seen * 1.05))) };
}

/**
 * @param {string} name
 * @param {Record<string, string>} attributes
 * @returns {SVGElement}
 */
function element(name, attributes) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return /** @type {SVGElement} */ (made);
}

/** @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 @param {string} kind */
function line(x1, y1, x2, y2, kind) {
  // Hairlines lie on whole pixels, or they blur.
  const at = (/** @type {number} */ v) => String(Math.round(v - 0.5) + 0.5);
  return element("line", { class: kind, x1: at(x1), y1: at(y1), x2: at(x2), y2: at(y2) });
}

/** @param {number} x @param {number} y @param {string} content @param {string} anchor */
function text(x, y, content, anchor, kind = "") {
  const made = element("text", { class: kind, x: x.toFixed(1), y: y.toFixed(1), "text-anchor": anchor });
  made.textContent = content;
  return made;
}
