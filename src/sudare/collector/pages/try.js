// A visitor's browser as one of the rehearsal's devices: the answer, the coin, and what is sent. The
// survey's own counts are not touched: its rehearsal has tickets and counts of its own.

import { BrowserStore, Client } from "../client.js";
import { answer, attenuation, lawOf, roundOf, slotIn, slotsOf, surveyOf, xor } from "./rules.js";
import * as words from "./words.js";

const BASE = new URL("../rehearsal", import.meta.url).href;
const OUTCOME_MS = 2_000;
const MOST_BARS = 150;
const yesNo = (bit) => (bit ? "Yes" : "No");
const $ = (id) => document.getElementById(id);

/** What the page knows: the collector's description, and the client once it takes part. */
const seen = { described: null, store: null, client: null, busy: false, announced: "", shown: -1 };

async function main() {
  try {
    const answered = await fetch(`${BASE}/v1/surveys`);
    [seen.described] = (await answered.json()).surveys;
  } catch {
    trouble("The collector does not answer. Is it running? This page tries again by itself.");
    setTimeout(main, 3000);
    return;
  }
  $("trouble").hidden = true;
  const survey = surveyOf(seen.described);
  $("question").textContent = survey.question || survey.name;
  if (survey.method === "tree") {
    $("lead").textContent =
      "Answer for yourself. Your browser tosses secret coins, and what leaves it is that your answer " +
      "changed, or the opposite, or nothing but a coin. Nobody who sees it can tell which.";
  }
  document.title = `${survey.name} · sudare`;
  $("answer").checked = remembered() === "1";
  explain(survey);
  showAnswer();
  toss();
  $("answer").addEventListener("change", changed);
  $("join").addEventListener("click", () => join());
  $("toss").addEventListener("click", toss);
  seen.store = new BrowserStore(seen.described.id);
  const known = await seen.store.load().catch(() => null);
  if (known !== null) await join();
  else invite();
  setInterval(step, Math.max(100, Math.min(500, survey.round_seconds * 100)));
}

/** Before taking part: whether that is possible, in words. */
function invite() {
  const over = Date.parse(seen.described.ends) <= Date.parse(seen.described.now);
  $("join").disabled = over;
  if (over) say("This survey is over. Its curve is on the dashboard.");
  else say("Nothing is sent before you take part.");
}

async function join() {
  $("join").disabled = true;
  try {
    seen.client = await Client.join(BASE, { store: seen.store, maxEpsilon: 40 });
  } catch (error) {
    trouble(`You could not take part. ${error.message}`);
    $("join").disabled = false;
    return;
  }
  $("trouble").hidden = true;
  $("join").hidden = true;
  $("turns").hidden = false;
  $("coin").classList.add("tossed");
  await step();
  outcome();
}

/** What time asks for: a report in our round, whatever the answer is; then show how things stand. */
async function step() {
  const { client } = seen;
  if (!client || seen.busy) return;
  seen.busy = true;
  try {
    await client.report(bit());
  } catch (error) {
    trouble(error.message);
  }
  seen.busy = false;
  show();
}

/** What all who rehearse have said together. */
async function outcome() {
  const wait = Math.max(OUTCOME_MS, Math.min(30_000, 500 * seen.client.survey.round_seconds));
  try {
    if (!document.hidden) {
      const url = `${BASE}/v1/surveys/${seen.described.id}/estimates`;
      const answered = await fetch(url, { cache: "no-store", credentials: "omit" });
      if (answered.ok) showOutcome(await answered.json());
    }
  } catch {
    // Out of reach: what was shown stays.
  }
  setTimeout(outcome, wait);
}

/** @param {{rounds: import("./api.js").Round[]}} told */
function showOutcome(told) {
  $("outcome").hidden = false;
  const heard = told.rounds.filter((each) => each.reporters > 0);
  $("outcome-scroller").hidden = !heard.length;
  $("outcome-words").textContent = heard.length
    ? "Of the few who rehearse, chance hides nearly everything: see how wide the intervals are. Of a whole survey it hides little."
    : "When a round is over, the estimate appears here that a survey would publish.";
  const rows = heard.reverse().map(({ round, reporters, share, low, high }) => {
    const row = document.createElement("tr");
    const texts = [words.count(round), words.count(reporters), words.share(share), words.interval(low, high)];
    for (const text of texts) row.insertCell().textContent = text;
    return row;
  });
  $("outcome-rows").replaceChildren(...rows);
}

function changed() {
  try {
    localStorage.setItem(memory(), String(bit()));
  } catch {
    // A browser that keeps nothing: the switch starts at no the next time.
  }
  showAnswer();
  toss();
  if (seen.client) show();
}

function showAnswer() {
  $("answer-word").textContent = yesNo(bit());
}

function show() {
  const { client } = seen;
  const { survey, ticket, state } = client;
  const now = client.roundAt(client.now());
  const slots = slotsOf(survey, ticket);
  const current = now >= 0 && now < survey.rounds ? slotIn(survey, ticket, now) : null;
  const coming = nextSlot(client);
  // The report to look at: the one of this round, else the next, else the last.
  const slot = current ?? coming ?? slots - 1;
  showCoin(survey, state, slot, coming);
  showSent(client, slot, coming);
  showTurns(client, now, coming);
  showLog(client);
}

function showCoin(survey, state, slot, coming) {
  const face = faceOf(survey, state, slot);
  $("coin").dataset.face = face;
  const said = { truth: "Tell the truth", opposite: "Say the opposite", fair: "A fair coin" };
  $("coin-word").textContent = said[face];
  const chance = words.sharePlain(truthChance(survey, state.ticket.level));
  const kept = "It fell when you took part, and never falls again.";
  $("coin-note").textContent =
    survey.method === "tree"
      ? `${kept} A change of your answer is told truly with a chance of ${chance}; where nothing changed, a fair coin is sent.`
      : `${kept} The chance of “tell the truth” is ${chance}${coming === null ? "" : ", in each of your rounds"}.`;
}

function showSent(client, slot, coming) {
  const { survey, ticket, state } = client;
  const said = state.sent[slot];
  const round = roundOf(survey, ticket, slot);
  if (said !== undefined) {
    const waiting = slot >= state.settled;
    $("sent-word").textContent = wordFor(survey, said);
    $("sent-note").textContent = waiting
      ? `Said in round ${words.count(round)}, and kept until the collector has it.`
      : `Sent in round ${words.count(round)}. Changing your answer does not change it.`;
    announce(
      waiting
        ? "The collector cannot be reached. Your report is kept, and sent later."
        : `Round ${words.count(round)}: your report has arrived.`,
    );
    return;
  }
  if (coming === null) {
    $("sent-word").textContent = "Nothing";
    $("sent-note").textContent = "Your rounds were over before you came.";
    return;
  }
  const wait = words.countdown(1000 * (client.opens(round) - client.now()));
  const after = answer(survey, state, round, slot, bit());
  $("sent-word").textContent = wordFor(survey, after.sent[slot]);
  $("sent-note").textContent = `Will be sent in round ${words.count(round)}, in ${wait}, if your answer stays.`;
  announce("You take part. Leave this page open: it reports by itself when it is your turn.");
}

function showTurns(client, now, coming) {
  const { survey, ticket, state } = client;
  const many = slotsOf(survey, ticket);
  const own = Array.from({ length: Math.min(many, 5) }, (_, slot) =>
    words.count(roundOf(survey, ticket, slot)),
  );
  const listed =
    many > 5 ? words.several(many, "round") : `round${many > 1 ? "s" : ""} ${own.join(", ")}`;
  const open =
    now < 0
      ? `The survey begins in ${words.countdown(1000 * (client.opens(0) - client.now()))}.`
      : now >= survey.rounds
        ? "The survey is over."
        : `Round ${words.count(now)} is open.`;
  const rest =
    coming === null
      ? client.pending.length
        ? "One more report is on its way."
        : "You have nothing more to say: thank you."
      : "";
  const lost = state.lost ? `${words.several(state.lost, "report")} came too late.` : "";
  $("turns-words").textContent =
    `Your ticket says: ${listed} of ${words.count(survey.rounds)}. ${open} ${rest} ${lost}`.trim();
  if (survey.rounds > MOST_BARS) return;
  const bars = Array.from({ length: survey.rounds }, (_, round) => {
    const bar = document.createElement("i");
    bar.classList.toggle("mine", slotIn(survey, ticket, round) !== null);
    bar.classList.toggle("past", round < now);
    bar.classList.toggle("now", round === now);
    return bar;
  });
  $("strip").replaceChildren(...bars);
}

function showLog(client) {
  const { survey, ticket, state } = client;
  const reports = client.reports();
  $("log-scroller").hidden = !reports.length;
  const rows = reports.map(({ slot, bit: said }) => {
    const face = faceOf(survey, state, slot);
    const told = { truth: "truth", opposite: "opposite", fair: "–" }[face];
    const round = roundOf(survey, ticket, slot);
    const answered = face === "fair" ? "–" : yesNo(xor(said, Number(face === "opposite")));
    const arrived = slot < state.settled ? "has it" : "not yet";
    const row = document.createElement("tr");
    for (const text of [words.count(round), answered, told, wordFor(survey, said), arrived]) {
      row.insertCell().textContent = text;
    }
    return row;
  });
  if (rows.length !== $("log").rows.length || state.revision !== seen.shown) {
    $("log").replaceChildren(...rows.reverse().slice(0, 50));
    const sent = reports.slice(-5).map((report) => JSON.stringify(report));
    $("bytes").textContent = sent.join("\n") || "Nothing yet.";
    seen.shown = state.revision;
  }
}

function explain(survey) {
  const chance = truthChance(survey);
  const [much, little] = [chance, 1 - chance].map((p) => words.sharePlain(p, p > 0.99 ? 1 : 0));
  const tree = survey.method === "tree";
  const [yes, no] = tree ? ["“up”", "“down”"] : ["yes", "no"];
  const [those, others] = tree
    ? ["whose answer turned to yes", "whose answer turned to no"]
    : ["who answer yes", "who answer no"];
  $("why-odds").textContent =
    `Of all ${those}, ${much} send ${yes}. Of all ${others}, ${little} send ${yes}, too` +
    `${tree ? ", and of those whose answer stayed, half" : ""}. So a message that says ${yes}, or ` +
    `${no}, may be anybody’s: the coin is your excuse, and it is a good one.`;
  $("promise").textContent = seen.described.promise;
}

/** A hundred people with the visitor's answer, their coins tossed here and now; nothing is sent. */
function toss() {
  const survey = surveyOf(seen.described);
  const chance = truthChance(survey);
  const drawn = crypto.getRandomValues(new Uint32Array(100));
  const said = [...drawn].map((word) => (word / 2 ** 32 < chance ? bit() : 1 - bit()));
  const circles = said.map((one, i) => {
    const circle = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    circle.setAttribute("cx", 10 + 20 * (i % 10));
    circle.setAttribute("cy", 10 + 20 * Math.floor(i / 10));
    circle.setAttribute("r", 7);
    circle.classList.toggle("yes", one === 1);
    return circle;
  });
  $("dots").replaceChildren(...circles);
  const ones = said.reduce((sum, one) => sum + one, 0);
  const tree = survey.method === "tree";
  const answer = `${tree ? "just turned to" : "is"} ${yesNo(bit()).toLowerCase()}`;
  const [yes, no] = tree ? ["“up”", "“down”"] : ["yes", "no"];
  $("crowd-words").textContent =
    `A hundred people whose answer ${answer}: ${ones} would send ${yes} (filled), ${100 - ones} ${no}.`;
}

function nextSlot({ survey, ticket, state, nextDue }) {
  if (nextDue === null) return null;
  for (let slot = 0; slot < slotsOf(survey, ticket); slot++) {
    const open = !(slot in state.sent) && roundOf(survey, ticket, slot) >= state.round;
    if (open && roundOf(survey, ticket, slot) >= seen.client.roundAt(seen.client.now())) return slot;
  }
  return null;
}

/** Which side of its coin a slot shows. Of a tree's report only the coming one's is known. */
function faceOf(survey, state, slot) {
  if (survey.method !== "tree") return state.flips[slot] ? "opposite" : "truth";
  const told = !(slot in state.sent) && bit() !== state.bit && state.moves < state.flips.length;
  if (!told) return "fair";
  return state.flips[state.moves] ? "opposite" : "truth";
}

function wordFor(survey, said) {
  if (survey.method === "tree") return said ? "Up" : "Down";
  return yesNo(said);
}

/** Where levels differ, the least of them, unless one is given. */
function truthChance(survey, level = 0) {
  const [a, b] = attenuation(lawOf(survey, level));
  return (1 + Number((a * 10n ** 15n) / b) / 1e15) / 2;
}

const bit = () => Number($("answer").checked);
const memory = () => `sudare-answer-${seen.described.id}`;

function remembered() {
  try {
    return localStorage.getItem(memory());
  } catch {
    return null;
  }
}

/** Said once: a screen reader should not hear the same every half second. */
function announce(text) {
  if (text === seen.announced) return;
  seen.announced = text;
  say(text);
}

function say(text) {
  $("status").textContent = text;
}

function trouble(text) {
  $("trouble").textContent = text;
  $("trouble").hidden = false;
}

main();
