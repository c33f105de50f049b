// A collector that a script plays, and how a script's tests are run and told.
import { Client, MemoryStore } from "./client.js";
import { digest, lawOf, surveyOf } from "./pages/rules.js";

export const START = 1_796_083_200; // 2026-12-01T00:00:00Z
export const SURVEY = {
  name: "s",
  question: "",
  rounds: 6,
  epsilon: 1.0,
  method: "rappor",
  slots: 1,
  threshold: null,
  changes: null,
  start: "2026-12-01T00:00:00Z",
  round_seconds: 60.0,
};

export class Pretend {
  constructor(survey = SURVEY, grace = 6) {
    Object.assign(this, { survey, grace, time: START, ahead: 0, offline: false });
    Object.assign(this, { asked: [], heard: [], faults: [], lies: {}, ticket: {} });
  }
  at(round) {
    this.time = START + 60 * round;
  }
  async join(store = new MemoryStore(), more = {}) {
    const clock = () => this.time;
    return Client.join("http://collector/", { store, clock, fetch: (...a) => this.fetch(...a), ...more });
  }
  describe() {
    const law = lawOf(surveyOf(this.survey));
    return {
      ...this.survey,
      digest: digest(surveyOf(this.survey)),
      law: { ...law, near_weight: String(law.near_weight), far_weight: String(law.far_weight) },
      now: new Date(1000 * (this.time + this.ahead)).toISOString(),
      grace_seconds: this.grace,
      late_seconds: 0,
      ...this.lies,
    };
  }
  async fetch(url, { method = "GET", body } = {}) {
    const what = url.split("/").at(-1);
    this.asked.push(`${method} ${what}`);
    if (this.offline) throw new TypeError("offline");
    const id = digest(surveyOf(this.survey)).slice(0, 16);
    if (method === "GET" && what === "surveys") return json(200, { surveys: [this.describe()] });
    if (method === "GET") return what === id ? json(200, this.describe()) : refusal(404, "unknown_survey");
    if (what === "tickets") {
      const rounds = { masks: [1, 3, 4], rappor: [], tree: [] }[this.survey.method] ?? [3];
      const issued = { survey: digest(surveyOf(this.survey)), serial: 7, mark: "AAECAwQFBgcICQoLDA0ODw", rounds, level: 0 };
      return json(201, { tickets: [{ ...issued, ...this.ticket }] });
    }
    this.heard.push(JSON.parse(body));
    const fault = this.faults.shift() ?? 204;
    if (fault === "lost") throw new TypeError("lost");
    return fault === 204 ? new Response(null, { status: 204 }) : refusal(...fault);
  }
}

export const json = (status, value, headers = {}) => new Response(JSON.stringify(value), { status, headers });
export const refusal = (status, code, headers) => json(status, { error: { code, message: `It was ${code}.` } }, headers);

/** Run every test; print how many passed, and what failed. */
export async function run(tests) {
  const failed = {};
  for (const [name, test] of Object.entries(tests)) {
    await test().catch((error) => (failed[name] = String(error.stack)));
  }
  console.log(JSON.stringify({ passed: Object.keys(tests).length - Object.keys(failed).length, failed }));
}
