// The dashboard: what is known, and who is told when it changes.

import { address, ask, survey as fetchSurvey } from "./api.js";
import { Chart, span } from "./chart.js";
import { follow } from "./feed.js";
import { admitted, unlock } from "./login.js";
import { operate } from "./operator.js";
import * as panels from "./panels.js";
import { Rounds } from "./rounds.js";
import { History } from "./table.js";
import * as words from "./words.js";

/** @typedef {import("./api.js").Survey} Survey */
/** @typedef {import("./api.js").Round} Round */

const RECENT = 60;
const RETRY_MS = 2_000;
const SOON_MS = 3_000;
const LATER_MS = 30_000;
const { find, say } = panels;

/** @type {Record<import("./feed.js").State, string>} */
const STATES = {
  connecting: "Connecting…",
  live: "Live",
  polling: "Live, asking now and then",
  reconnecting: "Reconnecting…",
  over: "Survey over",
};

/** @param {Survey} survey */
function run(survey) {
  let offset = Date.parse(survey.now) - Date.now();
  const length = 1000 * survey.round_seconds;
  const start = Date.parse(survey.start);
  const rounds = new Rounds();
  const clock = words.clock(survey.round_seconds);
  /** @type {import("./api.js").Next | null | undefined} */
  let next;
  /** @type {import("./api.js").Activity | undefined} */
  let activity;
  /** @type {Round | undefined} */
  let cursor;
  let recent = survey.rounds > 4 * RECENT ? RECENT : 0;
  const now = () => Date.now() + offset;

  const chart = new Chart(find("chart"), survey, (place) => point(rounds.nearest(place, first())));
  const history = new History(survey, detail);
  const first = () => span(rounds.list, survey, recent).first;

  function draw() {
    const { first, last } = span(rounds.list, survey, recent);
    const shown = rounds.list.slice(rounds.place(first));
    /** @type {[number, number][]} */
    const open = Object.entries(activity?.reporters ?? {})
      .map(([round, n]) => /** @type {[number, number]} */ ([Number(round), n]))
      .filter(([round]) => round >= first && round < last && round > (rounds.last?.round ?? -1));
    chart.update({ rounds: shown, first, last, open });
    const slider = find("chart");
    slider.setAttribute("aria-valuemin", String(first));
    slider.setAttribute("aria-valuemax", String(rounds.last?.round ?? first));
    find("views").hidden = rounds.length <= RECENT;
  }

  /** @param {Round | undefined} round @param {boolean} aloud */
  function point(round, aloud = false) {
    cursor = round;
    chart.point(round);
    const shown = round ?? rounds.last;
    find("chart-help").hidden = shown === undefined || round !== undefined;
    find("readout").hidden = round === undefined;
    const slider = find("chart");
    slider.setAttribute("aria-valuenow", String(shown?.round ?? 0));
    slider.setAttribute("aria-valuetext", shown ? `Round ${shown.round}` : "No round yet");
    if (!shown) return;
    readout(shown, clock);
    if (aloud) say("spoken", sentence(shown, clock));
  }

  function changed() {
    panels.latest(survey, rounds.last);
    panels.accuracy(survey, rounds.list);
    history.update(rounds);
    find("empty").hidden = rounds.length > 0;
    say("curve-description", description(survey, rounds.list, rounds.published));
    draw();
    if (cursor) point(rounds.nearest(cursor.round));
    else point(undefined);
  }

  function waiting() {
    if (rounds.length > 0) return;
    const begun = now() >= start;
    const due = start + length + 1000 * survey.grace_seconds;
    say("empty-title", begun ? "The first estimate is on its way" : "The survey has not begun yet");
    say(
      "empty-note",
      begun
        ? `Round 0 closes at ${clock.time(start + length)}; its estimate appears here at ${clock.time(due)}.`
        : `Round 0 opens at ${clock.both(start)}; its estimate appears here at ${clock.both(due)}.`,
    );
  }

  find("chart").addEventListener("keydown", (event) => {
    const at = rounds.place((cursor ?? rounds.last)?.round ?? 0);
    const least = rounds.place(first());
    const most = rounds.length - 1;
    /** @type {Record<string, number>} */
    const moves = {
      ArrowLeft: at - 1,
      ArrowDown: at - 1,
      ArrowRight: at + 1,
      ArrowUp: at + 1,
      PageDown: at - 10,
      PageUp: at + 10,
      Home: least,
      End: most,
    };
    if (event.key === "Escape") point(undefined);
    else if (event.key in moves && most >= 0) {
      // The first key only shows where the cursor is.
      const target = cursor || ["Home", "End"].includes(event.key) ? moves[event.key] : at;
      point(rounds.list[Math.min(most, Math.max(least, target))], true);
    } else return;
    event.preventDefault();
  });
  find("chart").addEventListener("pointerleave", (event) => {
    if (event.pointerType === "mouse") point(undefined);
  });
  find("chart").addEventListener("blur", () => point(undefined));
  for (const choice of document.querySelectorAll("input[name=view]")) {
    const radio = /** @type {HTMLInputElement} */ (choice);
    radio.checked = (radio.value === "recent") === recent > 0;
    radio.addEventListener("change", () => {
      recent = radio.value === "recent" ? RECENT : 0;
      draw();
    });
  }
  say("view-recent", `Latest ${RECENT}`);
  /** @type {HTMLAnchorElement} */ (find("csv")).href = address(survey.id, "estimates.csv");

  panels.introduce(survey);
  const operator = operate(survey, panels.enrolment);
  changed();

  /** Ask for the rounds from `from` to before `to` that are not here. */
  async function detail(/** @type {number} */ from, /** @type {number} */ to) {
    if (rounds.within(from, to).length >= to - from) return;
    const told = await ask(`${address(survey.id, "estimates")}?since=${from}&until=${to}`);
    if (rounds.merge(told.rounds)) changed();
  }

  /** What may change beside the rounds: enrolment, the prediction, the distance of the clocks. */
  async function describe() {
    if (!document.hidden) {
      try {
        const told = await ask(address(survey.id));
        offset = Date.parse(told.now) - Date.now();
        survey.predicted_error = told.predicted_error;
        panels.accuracy(survey, rounds.list);
        operator.enrolment(told.enrolment === "open");
      } catch {
        // The feed says that the collector cannot be reached.
      }
    }
    again();
  }
  function again() {
    // The collector takes a moment to predict, when the first have joined.
    const soon = survey.predicted_error === null && (activity?.tickets ?? 0) > 0;
    setTimeout(describe, soon ? SOON_MS : Math.min(LATER_MS, Math.max(SOON_MS, 2 * length)));
  }
  again();

  /** Publication follows the clock; a round that came says when the next is due. */
  function expectAfter(/** @type {number} */ round) {
    const after = round + 1;
    const publishes = start + (after + 1) * length + 1000 * survey.grace_seconds;
    next = after < survey.rounds ? { round: after, publishes: new Date(publishes).toISOString() } : null;
  }

  follow(survey, {
    known: () => rounds.length > 0,
    since: () => Math.max(0, rounds.published - 1 - Math.ceil(survey.late_seconds / survey.round_seconds)),
    due: () => (next ? Date.parse(next.publishes) - offset : Infinity),
    over: () => next === null && now() > Date.parse(survey.ends) + 1000 * (survey.grace_seconds + survey.late_seconds),
    rounds: (fresh) => {
      if (!rounds.merge(fresh)) return;
      if (rounds.last) expectAfter(rounds.last.round);
      changed();
      panels.strip(survey, activity, rounds);
    },
    sum: (told, reporters) => rounds.sum(told, reporters),
    next: (told) => {
      // The stream may have been faster than this answer.
      if (told === null || told.round > (rounds.last?.round ?? -1)) next = told;
    },
    activity: (told) => {
      activity = told;
      panels.strip(survey, activity, rounds);
      panels.refusals(told.refused);
      draw();
    },
    state: (state) => {
      find("connection").dataset.state = state;
      say("connection-words", STATES[state]);
    },
  });
  const tick = () => {
    panels.countdown(survey, next, now());
    waiting();
  };
  setInterval(tick, 250);
  tick();
}

/**
 * The numbers of one round, beside the curve.
 * @param {Round} round
 * @param {ReturnType<typeof words.clock>} clock
 */
function readout(round, clock) {
  const when = clock.range(Date.parse(round.opens), Date.parse(round.closes));
  const nobody = round.share === null;
  const parts = [
    ["", `Round ${words.count(round.round)}`, "round"],
    ["", when, "when"],
    ["estimate", nobody ? "nobody reported" : words.share(round.share), "share"],
    ["interval", nobody ? "" : words.interval(round.low, round.high), "interval"],
    ["smoothed", round.smoothed === null ? "" : words.share(round.smoothed), "smoothed"],
    ["reporters", words.count(round.reporters), "reporters"],
  ].filter(([, value]) => value);
  const made = parts.map(([label, value, field]) => {
    const part = document.createElement("span");
    part.dataset.field = field;
    const strong = document.createElement("b");
    strong.textContent = value;
    part.append(label ? `${label} ` : "", strong);
    return part;
  });
  find("readout").replaceChildren(...made.flatMap((part) => [part, " "]));
}

/** @param {Round} round @param {ReturnType<typeof words.clock>} clock */
function sentence(round, clock) {
  const when = clock.range(Date.parse(round.opens), Date.parse(round.closes));
  const heard = words.several(round.reporters, "reporter");
  if (round.share === null) return `Round ${round.round}, ${when}: nobody reported.`;
  const smoothed = round.smoothed === null ? "" : ` smoothed ${words.share(round.smoothed)},`;
  return (
    `Round ${round.round}, ${when}: ${words.share(round.share)}, between ${words.share(round.low)} ` +
    `and ${words.share(round.high)},${smoothed} ${heard}.`
  );
}

/** The curve in a paragraph. @param {Survey} survey @param {Round[]} rounds @param {number} published */
function description(survey, rounds, published) {
  const known = rounds.filter((round) => round.share !== null);
  if (!known.length) return "No estimate has been published yet.";
  const by = (/** @type {Round} */ a, /** @type {Round} */ b) => Number(a.share) - Number(b.share);
  const sorted = [...known].sort(by);
  const [least, most] = [sorted[0], sorted[sorted.length - 1]];
  return (
    `${published} of ${survey.rounds} rounds are published. The lowest estimate is ` +
    `${words.share(least.share)} in round ${least.round}, the highest ${words.share(most.share)} in round ` +
    `${most.round}, the latest ${words.share(known[known.length - 1].share)}. The table below holds every value.`
  );
}

async function begin() {
  try {
    const found = await fetchSurvey();
    if (!found) throw new Error("This collector serves no survey.");
    if (found.dashboard === "private" && !(await admitted(found))) {
      find("trouble").hidden = true;
      unlock(found, begin);
      return;
    }
    find("trouble").hidden = true;
    run(found);
  } catch (problem) {
    if (!(problem instanceof TypeError) && !("status" in /** @type {object} */ (problem))) throw problem;
    find("trouble").hidden = false;
    say("trouble", "The collector cannot be reached. Trying again…");
    setTimeout(begin, RETRY_MS);
  }
}

begin();
