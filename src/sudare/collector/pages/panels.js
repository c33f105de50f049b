// What stands around the curve: the latest estimate, the strip of numbers, accuracy, refusals, the promise.

import { halfWidth, median } from "./rounds.js";
import * as words from "./words.js";

/** @typedef {import("./api.js").Survey} Survey */
/** @typedef {import("./api.js").Round} Round */
/** @typedef {import("./api.js").Activity} Activity */

/** @param {string} id */
export function find(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** @param {string} id @param {string} content */
export function say(id, content) {
  const place = find(id);
  if (place.textContent !== content) place.textContent = content;
}

/** What never changes. @param {Survey} survey */
export function introduce(survey) {
  const clock = words.clock(survey.round_seconds);
  const sure = words.sharePlain(1 - survey.beta, 1);
  say("name", survey.question ? survey.name : "");
  say("question", survey.question || survey.name);
  say(
    "span",
    `${words.several(survey.rounds, "round")} of ${words.length(survey.round_seconds)}, ` +
      `${clock.both(Date.parse(survey.start))} – ${clock.both(Date.parse(survey.ends))}`,
  );
  say("band-words", `With probability ${sure} every round’s true share lies within its interval, all rounds at once.`);
  say("promise", survey.promise);
  say(
    "promise-note",
    `${words.method(survey)}. The collector keeps counts, not answers. ` +
      `ε = ${survey.epsilon}, for all that one person ever sends.`,
  );
  say("zone", `Times are in ${words.zone()}.`);
}

/** @param {Survey} survey @param {Round | undefined} round */
export function latest(survey, round) {
  if (!round) {
    document.title = `${survey.name} · sudare`;
    return;
  }
  find("latest").hidden = false;
  const clock = words.clock(survey.round_seconds);
  const when = clock.range(Date.parse(round.opens), Date.parse(round.closes));
  say("latest-share", words.share(round.share));
  say(
    "latest-interval",
    round.share === null ? "Nobody reported in this round" : `between ${words.share(round.low)} and ${words.share(round.high)}`,
  );
  say("latest-round", `Round ${words.count(round.round)}, ${when}`);
  document.title = `${words.share(round.share)} · ${survey.name} · sudare`;
}

/**
 * Predicted before anyone was asked, beside what the rounds turned out to be.
 * @param {Survey} survey
 * @param {Round[]} rounds
 */
export function accuracy(survey, rounds) {
  const widths = rounds.map(halfWidth).filter((width) => width !== undefined);
  const plan = survey.predicted_error;
  /** @type {[string, number, string][]} */
  const rows = [];
  if (plan) rows.push(["Predicted largest error", plan.typical, "plan"]);
  // With very few people a round there is no bound: anything may happen.
  if (plan && plan.bound !== null) rows.push(["Predicted bound", plan.bound, "plan"]);
  if (widths.length) rows.push(["Observed interval, latest round", widths[widths.length - 1], "seen"]);
  if (widths.length > 1) rows.push(["Observed interval, typical round", median(widths), "seen"]);
  const most = Math.max(...rows.map(([, value]) => value));
  bars("accuracy", rows.map(([label, value, kind]) => ({ label, shown: `± ${words.points(value)}`, part: value / most, kind })));
  const sure = words.sharePlain(1 - survey.beta, 1);
  const bound = plan && plan.bound !== null ? `; with probability ${sure} none exceeds the bound` : "";
  say(
    "accuracy-note",
    plan
      ? `In percentage points. Predicted from public numbers alone, for ${words.several(plan.users, "person", "people")}: the largest error of all rounds, on average${bound}.`
      : "In percentage points. A prediction follows when people have joined.",
  );
}

/** @param {Record<string, number>} refused */
export function refusals(refused) {
  const rows = Object.entries(refused)
    .filter(([, n]) => n > 0)
    .sort((a, b) => b[1] - a[1]);
  const total = sum(rows.map(([, n]) => n));
  const most = rows[0]?.[1] ?? 1;
  say("refused-title", total ? "Refused because they …" : "Refused");
  bars("refused", rows.map(([code, n]) => ({ label: words.reason(code), shown: words.count(n), part: n / most, kind: "refusal", code })));
  say(
    "refused-note",
    total ? `${words.several(total, "request")} in all. What is refused is not counted.` : "Nothing was refused so far.",
  );
}

/**
 * Labelled bars; the words carry the numbers, the bars only their proportions.
 * @param {string} id
 * @param {{label: string, shown: string, part: number, kind: string, code?: string}[]} rows
 */
function bars(id, rows) {
  const list = find(id);
  const told = JSON.stringify(rows);
  if (list.dataset.told === told) return;
  list.dataset.told = told;
  list.replaceChildren(
    ...rows.map(({ label, shown, part, kind, code }) => {
      const item = document.createElement("li");
      item.className = kind;
      if (code) item.dataset.code = code;
      const [name, value, bar] = ["span", "span", "meter"].map((tag) => document.createElement(tag));
      name.textContent = `${label} `;
      value.textContent = shown;
      value.className = "value";
      bar.setAttribute("value", part.toFixed(4));
      bar.setAttribute("aria-hidden", "true");
      item.append(name, value, bar);
      return item;
    }),
  );
  list.hidden = rows.length === 0;
}

/**
 * @param {Survey} survey
 * @param {Activity | undefined} activity
 * @param {import("./rounds.js").Rounds} rounds
 */
export function strip(survey, activity, rounds) {
  say("done", `${words.count(rounds.published)} of ${words.count(survey.rounds)}`);
  /** @type {HTMLProgressElement} */ (find("progress")).value = rounds.published / survey.rounds;
  if (!activity) return;
  // The last word on activity may be older than the last round: nothing is open after that.
  find("paused").hidden = !activity.paused;
  const now = rounds.published === survey.rounds ? null : activity.round;
  const over = now === null && rounds.length > 0;
  const heard = now === null ? rounds.reporters : (activity.reporters[now] ?? 0);
  say("heard-label", over ? "Reports counted" : "Reporters this round");
  say("heard", words.count(heard));
  say("heard-note", over ? "in all rounds" : now === null ? "no round is open yet" : `so far, in round ${words.count(now)}`);
  say("tickets", words.count(activity.tickets));
}

/** @param {number[]} values */
const sum = (values) => values.reduce((total, value) => total + value, 0);

/** @param {boolean} open */
export function enrolment(open) {
  say("enrolment", open ? "enrolment is open" : "enrolment is closed");
}

/**
 * When the next estimate is due.
 * @param {Survey} survey
 * @param {import("./api.js").Next | null | undefined} next
 * @param {number} now by the collector's clock
 */
export function countdown(survey, next, now) {
  if (next === undefined) return;
  const clock = words.clock(survey.round_seconds);
  if (next === null) {
    say("next-label", "Survey over");
    say("latest-title", "Last estimate");
    say("next", "All done");
    say("next-note", clock.both(Date.parse(survey.ends)));
    return;
  }
  const due = Date.parse(next.publishes);
  if (survey.round_seconds < 5) say("next", `every ${words.length(survey.round_seconds).replace(/^1 /, "")}`);
  else say("next", due > now ? `in ${words.countdown(due - now)}` : "any moment");
  say("next-note", `round ${words.count(next.round)}, at ${clock.time(due)}`);
}
