// Works out every case of the golden file again; prints what differs as JSON.
import { readFileSync } from "node:fs";
import { answer, digest, enrol, lawOf, pack, slotIn, surveyOf, total } from "./pages/rules.js";

const wrong = [];
for (const [number, expected] of JSON.parse(readFileSync(process.argv[2], "utf8")).entries()) {
  const survey = surveyOf(expected.survey);
  const { ticket } = expected;
  const law = lawOf(survey, ticket.level);
  const words = expected.words.map(BigInt);
  let used = 0;
  const tape = (count) => {
    if (used + count > words.length) throw new Error("too few words");
    return words.slice(used, (used += count));
  };
  let state = enrol(survey, ticket, tape);
  const { flips, coins } = state;
  const reports = [];
  for (const [round, bit] of expected.bits) {
    const slot = slotIn(survey, ticket, round);
    if (slot === null) continue;
    state = answer(survey, state, round, slot, bit);
    const json = { serial: ticket.serial, slot, bit: state.sent[slot], mark: ticket.mark };
    reports.push({ round, json, packed: Buffer.from(pack(json)).toString("hex") });
  }
  const found = {
    survey,
    digest: digest(survey),
    law: {
      slots: law.slots,
      threshold: law.threshold,
      near_weight: String(law.near_weight),
      far_weight: String(law.far_weight),
      total: String(total(law)),
    },
    flips,
    coins,
    reports,
    state: { sent: state.sent, round: state.round, bit: state.bit, moves: state.moves },
  };
  for (const [name, value] of Object.entries(found)) {
    const sorted = (x) => JSON.stringify(x, (_, v) => (isObject(v) ? inOrder(v) : v));
    if (sorted(value) !== sorted(expected[name])) wrong.push([number, name, value]);
  }
}
console.log(JSON.stringify(wrong));

function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function inOrder(value) {
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
