// What the browser's client does with a state that is damaged, foreign or gone: prints what failed.
import assert from "node:assert/strict";
import { MemoryStore, SudareError } from "./client.js";
import { answer, checkState, xor } from "./pages/rules.js";
import { Pretend, run, SURVEY } from "./pretend.mjs";

const MORE = {
  glance: {},
  harmony: {},
  "harmony-signed": {},
  rappor: {},
  masks: { slots: 3 },
  tree: { changes: 2 },
};
const METHODS = Object.keys(MORE);
const surveyWith = (method, more = {}) => ({ ...SURVEY, method, ...MORE[method], ...more });
const NO_BITS = [undefined, null, 2, -1, 0.5, NaN, "0", "1", "", [], [1], {}, 1n, new Number(1)];

/** Keeps values as IndexedDB does, so that lists may have gaps; `kept` is there to be damaged. */
class OpenStore {
  constructor(kept = null) {
    this.kept = kept;
  }
  async load() {
    return structuredClone(this.kept);
  }
  async save(state, seen) {
    const known = this.kept === null ? null : this.kept?.revision;
    if (known !== seen) return false;
    this.kept = structuredClone(state);
    return true;
  }
}

/** A state after three rounds, of which every method has answered or will answer some. */
async function savedBy(pretend) {
  const store = new OpenStore();
  const client = await pretend.join(store);
  for (let t = 0; t < 3; t++) {
    pretend.at(t + 0.5);
    await client.report(Number(t !== 1));
  }
  pretend.asked.length = pretend.heard.length = 0;
  return store.kept;
}

const sparse = (list) => new Array(list.length);
const lists = (list) => [
  undefined,
  null,
  list.slice(1),
  [...list, 0],
  [],
  sparse(list),
  list.join(""),
  { ...list },
  Uint8Array.from(list),
  ...[2, -1, "1", true, null, undefined, 0.5, NaN].map((x) => [x, ...list.slice(1)]),
];

/** Every field, made wrong in every way; what is left as it was is not yielded. */
function* damages(state) {
  const { survey, ticket, flips, coins, sent } = state;
  const wrong = {
    flips: lists(flips),
    coins: coins.length ? lists(coins) : [undefined, null, [0], "", {}],
    sent: [undefined, null, [], [0], "", 5, { ...sent, 0: 2 }, { ...sent, 0: "1" }],
    round: [undefined, null, NaN, -2, 6, 0.5, "1", 3],
    bit: [undefined, null, 2, "1", true, NaN],
    moves: [undefined, null, -1, 7, 0.5, "0", NaN],
    ticket: [undefined, null, {}, "", { ...ticket, survey: "00".repeat(32) }, { ...ticket, serial: "7" }],
    survey: [undefined, null, {}, { ...survey, name: "other" }, { ...survey, epsilon: 2 }, { ...survey, start: null }],
    settled: [undefined, -1, 7, 0.5, "0", 6],
    lost: [undefined, -1, 7, "0"],
    revision: [undefined, null, -1, 0.5, "1", NaN],
    grace: [undefined, null, NaN, -1, "6"],
    late: [undefined, null, NaN, -1, "0"],
  };
  wrong.sent.push({ ...sent, 0: true }, { ...sent, 6: 0 }, { ...sent, "-1": 0 }, { ...sent, "00": 0 });
  wrong.sent.push({ ...sent, 0: null }, { ...sent, x: 1 });
  wrong.ticket.push({ ...ticket, rounds: [...ticket.rounds, 5] }, { ...ticket, rounds: undefined });
  if (ticket.rounds.length) {
    wrong.ticket.push({ ...ticket, rounds: new Array(ticket.rounds.length) });
    wrong.ticket.push({ ...ticket, rounds: ticket.rounds.slice(1) });
  }
  if (survey.method === "tree") for (const level of [1, 9, -1, "0", undefined]) wrong.ticket.push({ ...ticket, level });
  if (Object.keys(sent).length) wrong.sent.push({}); // it forgot what it said, and would say it again
  for (const [field, values] of Object.entries(wrong)) {
    for (const [i, value] of values.entries()) yield [`${field} ${i}`, { ...state, [field]: value }];
    const less = { ...state };
    delete less[field];
    yield [`no ${field}`, less];
  }
  for (const whole of [{}, [], "", 0, false, "text", { revision: 0 }]) yield [JSON.stringify(whole), whole];
}

const tests = {
  async "a state that is damaged or foreign is refused, and nothing is sent"() {
    for (const method of METHODS) {
      const pretend = new Pretend(surveyWith(method));
      const state = await savedBy(pretend);
      checkState(state);
      for (const [name, damaged] of damages(state)) {
        for (pretend.offline of [false, true]) {
          const store = new OpenStore(damaged);
          const joining = pretend.join(store).then((client) => client.report(1));
          await assert.rejects(joining, { name: "SudareError", code: "state" }, `${method}, ${name}`);
          assert.deepEqual(pretend.asked, [], `${method}, ${name}`);
          assert.deepEqual(store.kept, damaged, `${method}, ${name}: drawn again`);
        }
      }
    }
  },
  async "a state of another survey or ticket is refused"() {
    const states = {};
    for (const method of METHODS) states[method] = await savedBy(new Pretend(surveyWith(method)));
    for (const [one, other] of METHODS.flatMap((a) => METHODS.map((b) => [a, b]))) {
      if (one === other) continue;
      // Coins of one survey under the name of another.
      const { survey, ticket } = states[other];
      const pretend = new Pretend(surveyWith(other));
      const store = new OpenStore({ ...states[one], ticket });
      await assert.rejects(pretend.join(store), { code: "state" });
      store.kept = { ...states[one], survey };
      await assert.rejects(pretend.join(store), { code: "state" });
      assert.deepEqual(pretend.asked, []);
    }
    const long = await savedBy(new Pretend(surveyWith("tree", { changes: 3 })));
    const { survey, ticket } = states.tree;
    assert.throws(() => checkState({ ...long, survey, ticket }), { code: "state" });
  },
  async "what another tab left damaged, or put back, is not taken over"() {
    for (const method of METHODS) {
      for (const bit of [0, 1]) {
        const pretend = new Pretend(surveyWith(method));
        const store = new OpenStore();
        const client = await pretend.join(store);
        const fresh = structuredClone(store.kept);
        const flips = fresh.flips.map((flip) => 1 - flip);
        const bad = [
          { ...fresh, revision: 9, flips: undefined },
          { ...fresh, revision: 9, flips }, // sound, and not the coins that were drawn here
          { ...fresh, revision: 9, ticket: { ...fresh.ticket, serial: 8 } },
          { ...fresh, revision: undefined },
          {},
          undefined,
        ];
        pretend.at(3.5);
        for (store.kept of bad) {
          await assert.rejects(client.report(bit), SudareError);
          assert.deepEqual(pretend.heard, []);
        }
        store.kept = structuredClone(fresh);
        const said = await client.report(bit);
        store.kept = structuredClone(fresh); // forgets what was said
        pretend.at(5.5);
        if (method === "rappor" || method === "tree") await assert.rejects(client.report(bit), { code: "state" });
        for (const report of pretend.heard) assert.deepEqual(report, said);
      }
    }
  },
  async "what could not be saved is not said"() {
    for (const method of METHODS) {
      const pretend = new Pretend(surveyWith(method));
      const store = new OpenStore();
      const full = async () => {
        throw new SudareError("This browser could not save.", "storage");
      };
      store.save = full;
      await assert.rejects(pretend.join(store), { code: "storage" });
      // A store that keeps half and says that it kept all.
      const half = async (state) => ((store.kept = { ...state, flips: state.flips.slice(1) }), true);
      store.save = half;
      await assert.rejects(pretend.join(store), { code: "state" });
      const kept = structuredClone(store.kept);
      await assert.rejects(pretend.join(store), { code: "state" });
      assert.deepEqual(store.kept, kept);
      store.save = async () => true;
      store.kept = null;
      await assert.rejects(pretend.join(store), { code: "storage" });
      delete store.save;
      const client = await pretend.join(store);
      pretend.at(3.5);
      for (const bit of [0, 1]) {
        store.save = full;
        await assert.rejects(client.report(bit), { code: "storage" });
        assert.deepEqual(pretend.heard, []);
        assert.deepEqual(client.reports(), []);
      }
      delete store.save;
      await client.report(1);
      assert.equal(pretend.heard.length, 1);
    }
  },
  async "two tabs, one of which wakes up late, answer every slot once"() {
    for (const method of METHODS) {
      const pretend = new Pretend(surveyWith(method));
      const store = new OpenStore();
      const [early, late] = [await pretend.join(store), await pretend.join(store)];
      for (let t = 0; t < 6; t++) {
        pretend.at(t + 0.5);
        await early.report(t % 2);
        if (t > 2) await late.report(1 - (t % 2));
      }
      const bits = new Map(pretend.heard.map((r) => [r.slot, r.bit]));
      for (const r of pretend.heard) assert.equal(r.bit, bits.get(r.slot), "a slot answered in two ways");
      assert.deepEqual(early.reports(), late.reports());
      assert.deepEqual(early.state.flips, late.state.flips);
    }
  },
  async "only 0 and 1, or false and true, are bits"() {
    const pretend = new Pretend();
    const client = await pretend.join();
    for (const wrong of NO_BITS) await assert.rejects(client.report(wrong), SudareError);
    assert.deepEqual(client.reports(), []);
    for (const [t, bit] of [0, 1, false, true, -0].entries()) {
      pretend.at(t + 0.5);
      const report = await client.report(bit);
      assert.equal(report.bit, Number(bit) ^ client.state.flips[t]);
      assert.ok(Object.is(client.state.bit, Number(bit) + 0), "saved as a number");
    }
  },
  async "no bit is formed without a coin"() {
    for (const [a, b] of [[0, 0], [0, 1], [1, 0], [1, 1]]) assert.equal(xor(a, b), Number(a !== b));
    for (const wrong of [...NO_BITS, true, false]) {
      for (const bit of [0, 1, wrong]) {
        assert.throws(() => xor(bit, wrong), SudareError);
        assert.throws(() => xor(wrong, bit), SudareError);
      }
    }
    for (const method of METHODS) {
      const state = await savedBy(new Pretend(surveyWith(method)));
      for (const wrong of [...NO_BITS, true, false]) {
        // Both bits fail alike: that nothing was said says nothing, either.
        const without = { ...state, flips: state.flips.map(() => wrong) };
        if (method === "tree") {
          without.moves = 0;
          for (const bit of [0, 1]) assert.throws(() => answer(state.survey, without, 3, 3, bit), SudareError);
        }
        const bare = { ...without, flips: state.flips, coins: state.coins.map(() => wrong) };
        const told = method === "tree" ? bare : without;
        for (const bit of [0, 1]) assert.throws(() => answer(state.survey, told, 3, 0, bit), SudareError);
      }
    }
  },
  async "what the memory store has lost is not begun afresh"() {
    const pretend = new Pretend();
    const store = new MemoryStore();
    const client = await pretend.join(store);
    assert.equal(await store.save({ ...client.state, revision: undefined }, 0), true);
    assert.equal(await store.save(client.state, null), false);
    await assert.rejects(pretend.join(store), { code: "state" });
    await assert.rejects(client.report(1), { code: "state" });
    assert.deepEqual(pretend.heard, []);
  },
};

await run(tests);
