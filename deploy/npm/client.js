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

/**
 * The rules of a survey, as pure functions: its law in whole numbers, its digest, a user's secret
 * coins and answers. The same rules as `sudare.counting` in Python, bound to it by one file of test
 * cases. `client.js` is what a page uses.
 */

const METHODS = ["glance", "harmony", "harmony-signed", "rappor", "masks", "tree"];
const MAX_ROUNDS = 1_000_000;
const MAX_SLOTS = 30;
const MAX_TOTAL = 1n << 62n;
const WORDS = 1n << 64n;
const INSTANT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?Z$/;

/** What a caller can put right; `code` says what happened in one word. */
class SudareError extends Error {
  constructor(message, code = "invalid") {
    super(message);
    this.name = "SudareError";
    this.code = code;
  }
}

// The law of a user's coins, in whole numbers -----------------------------------------------------

/** The law that a survey's public fields call for; a tree may have one for each level. */
function lawOf(survey, level = 0) {
  if (survey.method === "rappor") return maskLaw(survey.epsilon / survey.rounds, 1, 0);
  if (survey.method === "tree") {
    const reports = slotsOf(survey, { level: survey.flips ? level : 0 });
    return bestLaw(survey.epsilon, Math.min(survey.changes, reports));
  }
  if (survey.threshold === null) return bestLaw(survey.epsilon, survey.slots);
  return maskLaw(survey.epsilon, survey.slots, survey.threshold);
}

/** The sum of all masks' weights. */
function total(law) {
  return ladder(law)[law.slots];
}

/** c as a fraction [numerator, denominator]: a report is right with probability (1 + c)/2. */
function attenuation(law) {
  const excess = law.near_weight - law.far_weight;
  return [excess * choose(law.slots - 1, law.threshold), total(law)];
}

function bestLaw(epsilon, slots) {
  let best = null;
  for (let threshold = 0; threshold < slots; threshold++) {
    const law = maskLaw(epsilon, slots, threshold);
    const [a, b] = attenuation(law);
    if (best === null || a * best.b > best.a * b) best = { law, a, b };
  }
  return best.law;
}

function maskLaw(epsilon, slots, threshold) {
  let near = 0n;
  for (let ones = 0; ones <= threshold; ones++) near += choose(slots, ones);
  const far = (1n << BigInt(slots)) - near;
  const [x, y] = expBelow(Math.min(nextBelow(epsilon - epsilon * 2 ** -43), 50));
  const limit = (MAX_TOTAL * y) / (near * x + far * y);
  const [near_weight, far_weight] = limit
    ? largestFraction(x, y, limit)
    : [(MAX_TOTAL - far) / near, 1n];
  return { slots, threshold, near_weight, far_weight };
}

/** A fraction [x, y] just below e^ε: 80 digits, rounded to even, less one part in 10^75. */
function expBelow(epsilon) {
  const bits = 420n;
  const one = 1n << bits;
  const [mantissa, exponent] = parts(epsilon);
  const shift = bits + BigInt(exponent) - 10n;
  const argument = shift >= 0n ? mantissa << shift : mantissa >> -shift; // ε·2^bits/2^10
  let value = one;
  for (let term = one, k = 1n; term > 0n; k++) {
    term = ((term * argument) >> bits) / k;
    value += term;
  }
  for (let k = 0; k < 10; k++) value = (value * value) >> bits;
  const digits = 80 - String(value >> bits).length;
  const scaled = value * 10n ** BigInt(digits);
  let whole = scaled >> bits;
  const rest = scaled - (whole << bits);
  if (rest * 2n > one || (rest * 2n === one && whole & 1n)) whole += 1n;
  const margin = 10n ** 75n;
  const [x, y] = [whole * (margin - 1n), 10n ** BigInt(digits) * margin];
  return x < y ? [1n, 1n] : [x, y];
}

/** The largest near/far ≤ x/y with far ≤ limit, by a walk down the Stern–Brocot tree. */
function largestFraction(x, y, limit) {
  let low = [x / y, 1n];
  let high = [1n, 0n];
  for (;;) {
    let gapLow = x * low[1] - y * low[0];
    if (gapLow <= 0n) return low;
    const gapHigh = y * high[0] - x * high[1];
    let steps = gapLow / gapHigh;
    if (high[1]) steps = smaller(steps, (limit - low[1]) / high[1]);
    low = [low[0] + steps * high[0], low[1] + steps * high[1]];
    gapLow -= steps * gapHigh;
    const back = smaller(gapLow ? (gapHigh - 1n) / gapLow : 0n, (limit - high[1]) / low[1]);
    if (!steps && !back) return low;
    high = [high[0] + back * low[0], high[1] + back * low[1]];
  }
}

function ladder(law) {
  const sums = [];
  let sum = 0n;
  for (let ones = 0; ones <= law.slots; ones++) {
    sum += choose(law.slots, ones) * (ones <= law.threshold ? law.near_weight : law.far_weight);
    sums.push(sum);
  }
  return sums;
}

function choose(n, k) {
  let ways = 1n;
  for (let i = 1; i <= k; i++) ways = (ways * BigInt(n - i + 1)) / BigInt(i);
  return ways;
}

const smaller = (a, b) => (a < b ? a : b);

/** A positive double as mantissa·2^exponent. */
function parts(value) {
  const raw = new BigUint64Array(new Float64Array([value]).buffer)[0];
  const field = Number(raw >> 52n);
  const fraction = raw & ((1n << 52n) - 1n);
  return field ? [fraction | (1n << 52n), field - 1075] : [fraction, -1074];
}

function nextBelow(value) {
  const raw = new BigUint64Array(new Float64Array([value]).buffer);
  if (raw[0]) raw[0] -= 1n;
  return new Float64Array(raw.buffer)[0];
}

// The survey and its digest -----------------------------------------------------------------------

/** The survey in a collector's description, checked. */
function surveyOf(described) {
  const { name, question, rounds, epsilon, method, slots, threshold, changes } = described ?? {};
  const { start, round_seconds, flips, marks } = described ?? {};
  const whole = (x, low, high) => Number.isInteger(x) && x >= low && x <= high;
  const masks = method === "masks";
  const sound =
    typeof name === "string" &&
    typeof question === "string" &&
    METHODS.includes(method) &&
    whole(rounds, 1, MAX_ROUNDS) &&
    typeof epsilon === "number" &&
    epsilon > 0 &&
    epsilon <= 40 &&
    (masks ? whole(slots, 1, Math.min(rounds, MAX_SLOTS)) : slots === 1) &&
    (threshold === null || (masks && whole(threshold, 0, slots - 1))) &&
    (method === "tree" ? whole(changes, 1, MAX_SLOTS) : changes === null) &&
    (flips === undefined || (method === "tree" && flips === "stretches")) &&
    (marks === undefined || marks === "slots") &&
    (start === null
      ? round_seconds === null
      : INSTANT.test(start) && typeof round_seconds === "number" && round_seconds > 0);
  if (!sound) throw new SudareError("The collector describes a survey that cannot be.");
  const survey = { name, question, rounds, epsilon, method, slots, threshold, changes };
  const chosen = { ...(flips && { flips }), ...(marks && { marks }) };
  return { ...survey, ...chosen, start: start && canonical(start), round_seconds };
}

/** An instant as Python's encoder writes it: with all six digits of a fraction, or none. */
function canonical(start) {
  const [, whole, fraction] = INSTANT.exec(start);
  return Number(fraction ?? 0) ? `${whole}.${fraction.padEnd(6, "0")}Z` : `${whole}Z`;
}

/** What identifies a survey: the SHA-256 of its fields as JSON, sorted by name, in hex digits. */
function digest(survey) {
  const real = (x) => (x === null ? "null" : decimal(x));
  const text =
    `{"changes":${survey.changes},"epsilon":${real(survey.epsilon)},` +
    (survey.flips === undefined ? "" : `"flips":"${survey.flips}",`) +
    (survey.marks === undefined ? "" : `"marks":"${survey.marks}",`) +
    `"method":"${survey.method}","name":${JSON.stringify(survey.name)},` +
    `"question":${JSON.stringify(survey.question)},` +
    `"round_seconds":${real(survey.round_seconds)},"rounds":${survey.rounds},` +
    `"slots":${survey.slots},"start":${JSON.stringify(survey.start)},` +
    `"threshold":${survey.threshold}}`;
  return sha256(new TextEncoder().encode(text));
}

/** A double as Python's encoder writes it: the shortest digits, with a point or an exponent. */
function decimal(value) {
  const [mantissa, power] = value.toExponential().split("e");
  const exponent = Number(power);
  if (exponent < -5 || exponent > 15) return `${mantissa}e${exponent}`;
  const digits = mantissa.replace(".", "");
  if (exponent < 0) return `0.${"0".repeat(-exponent - 1)}${digits}`;
  const padded = digits.padEnd(exponent + 2, "0");
  return `${padded.slice(0, exponent + 1)}.${padded.slice(exponent + 1)}`;
}

// Written out because crypto.subtle is missing on pages that came without TLS.
function sha256(bytes) {
  const [roots, state] = sha256Constants();
  const length = (bytes.length + 72) & ~63;
  const data = new DataView(new ArrayBuffer(length));
  bytes.forEach((byte, i) => data.setUint8(i, byte));
  data.setUint8(bytes.length, 128);
  data.setBigUint64(length - 8, BigInt(bytes.length) * 8n);
  const turn = (x, n) => (x >>> n) | (x << (32 - n));
  const w = new Uint32Array(64);
  for (let block = 0; block < length; block += 64) {
    for (let i = 0; i < 16; i++) w[i] = data.getUint32(block + 4 * i);
    for (let i = 16; i < 64; i++) {
      const [p, q] = [w[i - 15], w[i - 2]];
      const s0 = turn(p, 7) ^ turn(p, 18) ^ (p >>> 3);
      const s1 = turn(q, 17) ^ turn(q, 19) ^ (q >>> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      const big1 = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25);
      const big0 = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22);
      const first = (h + big1 + ((e & f) ^ (~e & g)) + roots[i] + w[i]) | 0;
      const second = (big0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((x, i) => (state[i] += x));
  }
  return [...state].map((x) => x.toString(16).padStart(8, "0")).join("");
}

/** The first 32 bits after the point of cube roots and square roots of the first primes. */
function sha256Constants() {
  const primes = [];
  for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p)) primes.push(n);
  const root = (prime, power) => {
    const target = BigInt(prime) << BigInt(32 * power);
    let low = 0n;
    for (let bit = 1n << 36n; bit; bit >>= 1n) {
      if ((low + bit) ** BigInt(power) <= target) low += bit;
    }
    return Number(low & 0xffffffffn);
  };
  const cubes = Uint32Array.from(primes, (p) => root(p, 3));
  return [cubes, Uint32Array.from(primes.slice(0, 8), (p) => root(p, 2))];
}

// Coins and answers -------------------------------------------------------------------------------

/** How many reports a ticket makes at most. */
function slotsOf(survey, ticket) {
  if (survey.method === "tree") return Math.floor(survey.rounds / 2 ** ticket.level);
  return survey.method === "rappor" ? survey.rounds : ticket.rounds.length;
}

/** Which of its reports a ticket owes in a round; null if none. */
function slotIn(survey, ticket, round) {
  if (survey.method === "rappor") return round;
  if (survey.method !== "tree") {
    const slot = ticket.rounds.indexOf(round);
    return slot < 0 ? null : slot;
  }
  const length = 2 ** ticket.level;
  return (round + 1) % length ? null : (round + 1) / length - 1;
}

/** In which round a slot's report is due. */
function roundOf(survey, ticket, slot) {
  if (survey.method === "rappor") return slot;
  return survey.method === "tree" ? (slot + 1) * 2 ** ticket.level - 1 : ticket.rounds[slot];
}

/** A new state: all secret coins for a ticket, from `words(n)`, which gives n random words. */
function enrol(survey, ticket, words) {
  const slots = slotsOf(survey, ticket);
  const law = lawOf(survey, ticket.level);
  const coins = [];
  if (survey.method === "tree") {
    const drawn = words(Math.ceil(slots / 64));
    for (let i = 0; i < slots; i++) coins.push(Number((drawn[i >> 6] >> BigInt(i & 63)) & 1n));
  }
  const stream = streamOf(words, law.slots);
  const sums = ladder(law);
  const flips = [];
  for (let run = survey.method === "rappor" ? slots : 1; run > 0; run--) {
    flips.push(...drawMask(law.slots, sums, stream));
  }
  return { flips, coins, sent: {}, round: -1, bit: 0, moves: 0 };
}

function drawMask(slots, sums, stream) {
  const drawn = below(sums[slots], stream);
  const ones = sums.findIndex((sum) => drawn < sum);
  const mask = Array.from({ length: slots }, (_, i) => Number(i < ones));
  for (let i = slots - 1; i > 0; i--) {
    const j = Number(below(BigInt(i + 1), stream));
    [mask[i], mask[j]] = [mask[j], mask[i]];
  }
  return mask;
}

function below(bound, stream) {
  for (;;) {
    const word = stream.next().value;
    if (word < WORDS - (WORDS % bound)) return word % bound;
  }
}

function* streamOf(words, atOnce) {
  for (;;) yield* words(atOnce);
}

/** Of two bits, whether they differ. JavaScript's own `bit ^ undefined` is the bit in the clear. */
function xor(bit, coin) {
  if (!isBit(bit) || !isBit(coin)) {
    throw new SudareError("Expected a bit and a coin of 0 or 1: nothing was said.", "state");
  }
  return bit ^ coin;
}

const isBit = (x) => x === 0 || x === 1;

/** The state after a slot has been answered for this bit; what was said is in its `sent`. */
function answer(survey, state, round, slot, bit) {
  let { moves } = state;
  let said;
  if (survey.method !== "tree") {
    said = xor(bit, state.flips[slot]);
  } else {
    // Both coins are looked at, whatever the bit: which of them is missing must not show.
    const still = xor(0, state.coins[slot]);
    const used = moves === state.flips.length;
    const moved = used ? still : xor(Number(bit > state.bit), state.flips[moves]);
    said = xor(bit, state.bit) ? moved : still;
    moves += used ? 0 : xor(bit, state.bit);
  }
  return { ...state, sent: { ...state.sent, [slot]: said }, round, bit, moves };
}

/**
 * Refuse a saved state that does not fit its survey and its ticket: a coin that is missing, or of
 * another survey, would tell the bit. Nothing is put right, for coins are drawn once.
 */
function checkState(state) {
  let sound = false;
  try {
    const { start } = surveyOf(state.survey);
    checkTicket(state.survey, state.ticket);
    sound = start !== null && fits(state);
  } catch {
    // Not even of the right shape.
  }
  if (!sound) {
    const gone = "What was saved is damaged, and its coins cannot be drawn again";
    throw new SudareError(`${gone}: this ticket is lost, and nothing was sent.`, "state");
  }
}

function fits({ survey, ticket, flips, coins, sent, round, bit, moves, ...rest }) {
  const slots = slotsOf(survey, ticket);
  const many = survey.method === "rappor" ? slots : lawOf(survey, ticket.level).slots;
  const answered = Object.keys(sent).map(Number); // in order, as JavaScript keeps such keys
  const last = answered.length ? roundOf(survey, ticket, answered.at(-1)) : -1;
  return (
    typeof sent === "object" &&
    !Array.isArray(sent) &&
    areBits(flips, many) &&
    areBits(coins, survey.method === "tree" ? slots : 0) &&
    areBits(Object.values(sent), answered.length) &&
    Object.keys(sent).every((slot, i) => slot === String(answered[i])) &&
    answered.every((slot) => isWhole(slot, slots)) &&
    round === last &&
    isBit(bit) &&
    isWhole(moves, Math.min(many, answered.length) + 1) &&
    isWhole(rest.settled, slots + 1) &&
    (rest.settled === 0 || rest.settled - 1 in sent) &&
    isWhole(rest.lost, slots + 1) &&
    isWhole(rest.revision, Number.MAX_SAFE_INTEGER) &&
    isSeconds(rest.grace) &&
    isSeconds(rest.late)
  );
}

// A gap in a list is no item to `every`; here it is.
const areBits = (list, many) =>
  Array.isArray(list) && list.length === many && Array.from(list).every(isBit);
const isWhole = (x, end) => Number.isInteger(x) && x >= 0 && x < end;

/** How long a collector may wait for reports. */
const isSeconds = (x) => typeof x === "number" && x >= 0 && x <= 1e9;

/** What the report in a slot carries: the ticket's mark, or a keyed function of the slot under it. */
function markOf(survey, ticket, slot) {
  if (survey.marks === undefined) return ticket.mark;
  const letters = atob(ticket.mark.replaceAll("-", "+").replaceAll("_", "/"));
  const words = [0, 8].map((at) =>
    [...letters.slice(at, at + 8)].reduceRight((word, letter) => (word << 8n) | BigInt(letter.charCodeAt(0)), 0n),
  );
  const bytes = siphash(words, [BigInt(slot), 8n << 56n]).flatMap((word) =>
    Array.from({ length: 8 }, (_, i) => Number((word >> BigInt(8 * i)) & 255n)),
  );
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** SipHash-2-4 of 128 bits, as two words; the last block holds the length. */
function siphash([first, second], blocks) {
  const turned = (word, places) => ((word << places) | (word >> (64n - places))) % WORDS;
  let v0 = first ^ 0x736f6d6570736575n;
  let v1 = second ^ 0x646f72616e646f6dn ^ 0xeen;
  let v2 = first ^ 0x6c7967656e657261n;
  let v3 = second ^ 0x7465646279746573n;
  const rounds = (count) => {
    for (let i = 0; i < count; i++) {
      v0 = (v0 + v1) % WORDS;
      v2 = (v2 + v3) % WORDS;
      v1 = turned(v1, 13n) ^ v0;
      v3 = turned(v3, 16n) ^ v2;
      v0 = turned(v0, 32n);
      v2 = (v2 + v1) % WORDS;
      v0 = (v0 + v3) % WORDS;
      v1 = turned(v1, 17n) ^ v2;
      v3 = turned(v3, 21n) ^ v0;
      v2 = turned(v2, 32n);
    }
  };
  for (const block of blocks) {
    v3 ^= block;
    rounds(2);
    v0 ^= block;
  }
  v2 ^= 0xeen;
  rounds(4);
  const low = v0 ^ v1 ^ v2 ^ v3;
  v1 ^= 0xddn;
  rounds(4);
  return [low, v0 ^ v1 ^ v2 ^ v3];
}

/** The record of 29 bytes that relays send. */
function pack(report) {
  const record = new DataView(new ArrayBuffer(29));
  record.setBigUint64(0, BigInt(report.serial), true);
  record.setUint32(8, report.slot, true);
  record.setUint8(12, report.bit);
  const mark = atob(report.mark.replaceAll("-", "+").replaceAll("_", "/"));
  [...mark].forEach((letter, i) => record.setUint8(13 + i, letter.charCodeAt(0)));
  return new Uint8Array(record.buffer);
}

/** What a device can check without the collector's key: its slots are rounds, each once. */
function checkTicket(survey, ticket) {
  const { survey: bound, serial, mark, rounds, level } = ticket;
  const several = survey.method !== "tree" && survey.method !== "rappor";
  const due = (each, i, all) => isWhole(each, survey.rounds) && (!i || each > all[i - 1]);
  const sound =
    bound === digest(survey) &&
    isWhole(serial, 2 ** 48) &&
    /^[\w-]{22}$/.test(mark) &&
    Array.isArray(rounds) &&
    rounds.length === (several ? survey.slots : 0) &&
    Array.from(rounds).every(due) &&
    (survey.method !== "tree" || isWhole(level, Math.floor(Math.log2(survey.rounds)) + 1));
  if (!sound) throw new SudareError("The collector issued a ticket of another survey.", "ticket");
}

export { pack };
