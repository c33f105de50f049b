/**
 * One user's side of a survey, for browsers. No dependency; node runs it as well.
 *
 *     import { Client } from "https://count.example/client.js";
 *     const client = await Client.join("https://count.example");
 *     await client.report(1); // in every round, whatever the bit
 *
 * All that is ever sent is together ε-locally private for the user. The secret coins are drawn once,
 * when the client joins, from the browser's cryptographic generator, and saved before anything is
 * sent; what is said is saved before it is sent, and never said in two ways. Whether something is
 * sent depends on the ticket and the clock alone, never on the bit.
 */

import {
  answer,
  checkState,
  checkTicket,
  digest,
  enrol,
  isSeconds,
  lawOf,
  markOf,
  roundOf,
  slotIn,
  slotsOf,
  SudareError,
  surveyOf,
} from "./pages/rules.js";

export { SudareError };

/** Refusals that sending again cannot change. */
const FINAL = new Set(["too_late", "wrong_mark", "unknown_slot", "malformed"]);
const MOST_WORDS = 8192; // what crypto.getRandomValues gives at once
const LONGEST_ANSWER = 1 << 20;
const LONGEST_SECONDS = 30;

// Where the state is kept -------------------------------------------------------------------------

/** Gone with the page: for tests. A store saves only over the revision its caller has seen. */
export class MemoryStore {
  #saved = null;
  async load() {
    return this.#saved && JSON.parse(this.#saved);
  }
  async save(state, seen) {
    const known = this.#saved && JSON.parse(this.#saved).revision;
    if (known !== seen) return false;
    this.#saved = JSON.stringify(state);
    return true;
  }
}

/** IndexedDB, one entry a name; all tabs of a site share it, and none overwrites another. */
export class BrowserStore {
  #open;
  constructor(name = "default") {
    this.name = name;
    this.#open = new Promise((done, fail) => {
      const request = indexedDB.open("sudare", 1);
      request.onupgradeneeded = () => request.result.createObjectStore("clients");
      request.onsuccess = () => done(request.result);
      request.onerror = () => fail(new SudareError("This browser keeps nothing.", "storage"));
    });
  }
  async load() {
    return (await this.#change(() => undefined)) ?? null;
  }
  async save(state, seen) {
    // An entry that lost its revision is not an empty one: it is never written over.
    const expected = (saved) => (saved === undefined ? null : saved?.revision) === seen;
    return expected(await this.#change((saved) => (expected(saved) ? state : undefined)));
  }
  /** What was saved; `next(it)` is put in its place, in one transaction, unless undefined. */
  async #change(next) {
    const database = await this.#open;
    return new Promise((done, fail) => {
      const change = database.transaction("clients", "readwrite", { durability: "strict" });
      const entry = change.objectStore("clients");
      const saved = entry.get(this.name);
      saved.onsuccess = () => {
        const state = next(saved.result);
        if (state !== undefined) entry.put(state, this.name);
      };
      change.oncomplete = () => done(saved.result);
      change.onabort = () => fail(new SudareError("This browser could not save.", "storage"));
    });
  }
}

// The client --------------------------------------------------------------------------------------

/** A device in one survey. Make it with `Client.join`. */
export class Client {
  #tries = 0;
  #notBefore = 0;
  #sending = null;

  /**
   * Join the collector's survey, or take up where the store left off.
   * `maxEpsilon`: a survey that asks for more is refused. `ticket`: one that was handed out by
   * others; without it the collector is asked for one. The other options are for tests.
   */
  static async join(url, options = {}) {
    const { store = new BrowserStore(), maxEpsilon = 10, fetch = globalThis.fetch } = options;
    const { clock = () => Date.now() / 1000, words = randomWords } = options;
    const client = new Client();
    const base = String(url).replace(/\/+$/, "");
    Object.assign(client, { base, store, clock, offset: 0, fetch: fetch.bind(globalThis) });
    client.state = await client.#saved();
    const described = await client.#describe();
    if (described !== null) client.#check(described);
    const { epsilon } = described ?? client.survey;
    if (epsilon > maxEpsilon) {
      throw new SudareError(`The survey asks for more than ε = ${maxEpsilon}.`, "epsilon");
    }
    if (!client.state) await client.#enrol(described, options.ticket, words);
    return client;
  }

  get survey() {
    return this.state.survey;
  }
  get ticket() {
    return this.state.ticket;
  }
  /** Reports that were said and are not acknowledged yet, oldest first. */
  get pending() {
    return this.reports().filter((report) => report.slot >= this.state.settled);
  }
  /** Whether there is nothing left to do, now or later. */
  get finished() {
    return !this.pending.length && this.nextDue === null;
  }
  /** When the next report is due, in seconds since 1970; null after the last. */
  get nextDue() {
    const { survey, ticket, sent, round } = this.state;
    for (let slot = 0; slot < slotsOf(survey, ticket); slot++) {
      const due = roundOf(survey, ticket, slot);
      if (!(slot in sent) && due >= round && this.now() < this.#deadline(due)) {
        return this.opens(due) - this.offset;
      }
    }
    return null;
  }
  /** The collector's time, in seconds since 1970. */
  now() {
    return this.clock() + this.offset;
  }
  opens(round) {
    return startOf(this.survey) + round * this.survey.round_seconds;
  }
  roundAt(time) {
    return Math.floor((time - startOf(this.survey)) / this.survey.round_seconds);
  }
  /** Everything said so far. */
  reports() {
    const { serial } = this.ticket;
    const sent = Object.entries(this.state.sent);
    return sent.map(([slot, bit]) => ({
      serial,
      slot: Number(slot),
      bit,
      mark: markOf(this.survey, this.ticket, slot),
    }));
  }

  /**
   * Say what is due, if it is this client's turn: call it in every round, whatever the bit. `at`:
   * when the bit was true, in seconds since 1970, if that was not now. The report, or null.
   */
  async report(bit, at = null) {
    if (![0, 1, false, true].includes(bit)) throw new SudareError("Expected bit to be 0 or 1.");
    const round = this.roundAt((at ?? this.clock()) + this.offset);
    if (round > this.roundAt(this.now())) throw new SudareError("Expected a time that has been.");
    let said = null;
    while (round >= 0 && round < this.survey.rounds && this.now() <= this.#deadline(round)) {
      const slot = slotIn(this.survey, this.ticket, round);
      const passed = round < this.state.round && !(slot in this.state.sent);
      if (slot === null || passed) break;
      if (!(slot in this.state.sent)) {
        const after = answer(this.survey, this.state, round, slot, bit ? 1 : 0);
        if (!(await this.#save(after))) continue; // another tab was first: look again
      }
      said = this.reports().find((report) => report.slot === slot);
      break;
    }
    await this.send();
    return said;
  }

  /** Try to send what is pending; whether nothing is left. */
  async send() {
    this.#sending ??= this.#sendAll().finally(() => (this.#sending = null));
    return this.#sending;
  }

  async #sendAll() {
    for (const report of this.pending) {
      const lost = this.now() > this.#deadline(roundOf(this.survey, this.ticket, report.slot));
      if (!lost && this.clock() < this.#notBefore) return false;
      const outcome = lost ? "lost" : await this.#post(report);
      if (outcome === "later") return false;
      while (this.state.settled <= report.slot) {
        const refused = this.state.lost + Number(outcome === "lost");
        await this.#save({ ...this.state, settled: report.slot + 1, lost: refused });
      }
    }
    return true;
  }

  async #post(report) {
    const headers = { "content-type": "application/json" };
    const request = { method: "POST", headers, body: JSON.stringify(report) };
    let wait = 0;
    try {
      const response = await this.#ask("/reports", request);
      if (response.status === 204) {
        this.#tries = this.#notBefore = 0;
        return "counted";
      }
      if (FINAL.has((await read(response)).error.code)) return "lost";
      wait = Number(response.headers.get("retry-after")) || 0;
    } catch {
      // Offline, cut off, or an answer from somebody else: the same report again, later.
    }
    const length = this.survey.round_seconds;
    const first = Math.min(1, Math.max(0.05, length / 100));
    const longest = Math.max(first, Math.min(60, length / 10));
    const pause = Math.min(longest, first * 2 ** this.#tries++) * (0.5 + Math.random() / 2);
    // A wish to be left alone for good is not heeded: the next round's report is due.
    this.#notBefore = this.clock() + Math.max(pause, Math.min(wait, length));
    return "later";
  }

  /** What the collector says of its survey; null if it is out of reach and not needed. */
  async #describe() {
    const before = this.clock();
    let status, told;
    try {
      const answered = await (this.state ? this.#ask("") : this.#fetch("/v1/surveys"));
      status = answered.status;
      told = await read(answered);
    } catch {
      status = 0; // offline, or somebody else answered
    }
    if (status === 404 && told?.error?.code === "unknown_survey") {
      throw new SudareError("This store belongs to another survey than the collector's.", "survey");
    }
    if (status !== 200) {
      if (this.state) return null; // what was saved is enough
      throw new SudareError("The collector cannot be reached.", "offline");
    }
    const described = this.state ? told : told?.surveys?.[0];
    // Only a clock that is off by more than the answer took is put right.
    const took = this.clock() - before;
    const offset = Date.parse(described?.now) / 1000 - (before + took / 2);
    if (Math.abs(offset) > took + 0.001) this.offset = offset;
    return described;
  }

  #check(described) {
    const survey = surveyOf(described);
    const law = lawOf(survey);
    const { slots, threshold, near_weight, far_weight } = described.law ?? {};
    const same =
      digest(survey) === described.digest &&
      (!this.state || digest(this.survey) === described.digest) &&
      slots === law.slots &&
      threshold === law.threshold &&
      near_weight === String(law.near_weight) &&
      far_weight === String(law.far_weight);
    if (!same) throw new SudareError("The collector's survey is not what it says.", "law");
    if (survey.start === null) throw new SudareError("The survey has no beginning yet.");
    if (!isSeconds(described.grace_seconds) || !isSeconds(described.late_seconds)) {
      throw new SudareError("The collector describes a survey that cannot be.");
    }
  }

  async #enrol(described, given, words) {
    const survey = surveyOf(described);
    this.state = { survey };
    const ticket = given ?? (await this.#issue());
    checkTicket(survey, ticket);
    const { grace_seconds: grace, late_seconds: late } = described;
    const fresh = { ...enrol(survey, ticket, words), survey, ticket, grace, late };
    await this.store.save({ ...fresh, settled: 0, lost: 0, revision: 0 }, null);
    // What counts is what the store holds, which may be another tab's.
    this.state = await this.#saved();
    if (this.state === null) throw gone();
    // A browser that clears what it keeps would have new coins drawn, and another budget spent.
    globalThis.navigator?.storage?.persist?.().catch(() => {});
  }

  async #issue() {
    const answered = await this.#ask("/tickets", { method: "POST" });
    const told = await read(answered).catch(() => null);
    const { message = "The collector gave no ticket.", code = "offline" } = told?.error ?? {};
    if (!answered.ok) throw new SudareError(message, code);
    return told?.tickets?.[0] ?? {};
  }

  #deadline(round) {
    return this.opens(round + 1) + Math.max(this.state.grace, this.state.late);
  }

  /** Save a state made from the one we know; if another tab was first, take over its state. */
  async #save(state) {
    const next = { ...state, revision: this.state.revision + 1 };
    const saved = await this.store.save(next, this.state.revision);
    const known = saved ? next : await this.#saved();
    if (known === null) throw gone();
    if (!saved && !follows(known, this.state)) {
      throw new SudareError("What was saved was put back, or is another device's.", "state");
    }
    this.state = known;
    return saved;
  }

  /** What the store holds, checked; null if that is nothing. */
  async #saved() {
    const state = (await this.store.load()) ?? null;
    if (state !== null) checkState(state);
    return state;
  }

  #ask(path, request) {
    const id = digest(this.survey).slice(0, 16);
    return this.#fetch(`/v1/surveys/${id}${path}`, request);
  }

  /** To this collector and no other, without cookies, and not for ever. */
  #fetch(path, request = {}) {
    return this.fetch(`${this.base}${path}`, {
      ...request,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(1000 * LONGEST_SECONDS),
    });
  }
}

const gone = () =>
  new SudareError("What was saved is gone: this ticket cannot be used again.", "storage");

/** Whether a state is a later one of the same device: with its ticket, its coins, all it said. */
function follows(later, state) {
  const same = (field) => JSON.stringify(later[field]) === JSON.stringify(state[field]);
  const kept = Object.entries(state.sent).every(([slot, bit]) => later.sent[slot] === bit);
  return later.revision > state.revision && ["ticket", "flips", "coins"].every(same) && kept;
}

/** An answer's JSON; one that does not end is not read. */
async function read(response) {
  const parts = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (let part; reader && !(part = await reader.read()).done; parts.push(part.value)) {
    size += part.value.length;
    if (size > LONGEST_ANSWER) {
      await reader.cancel();
      throw new SudareError("The collector's answer does not end.", "offline");
    }
  }
  return JSON.parse(await new Blob(parts).text());
}

function randomWords(count) {
  const words = new BigUint64Array(count);
  for (let i = 0; i < count; i += MOST_WORDS) {
    crypto.getRandomValues(words.subarray(i, i + MOST_WORDS));
  }
  return words;
}

function startOf(survey) {
  const [whole, fraction] = survey.start.replace("Z", "").split(".");
  return Date.parse(`${whole}Z`) / 1000 + Number(`0.${fraction ?? 0}`);
}
