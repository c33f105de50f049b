// The browser's client under node, against a collector that this script plays: prints what failed.
import assert from "node:assert/strict";
import { MemoryStore, SudareError } from "./client.js";
import { digest, enrol, lawOf, surveyOf } from "./pages/rules.js";
import { json, Pretend, run, START, SURVEY } from "./pretend.mjs";

const tests = {
  async "reports once in every round, by coins drawn when it joined"() {
    for (const method of ["rappor", "masks", "tree"]) {
      const more = { masks: { slots: 3 }, tree: { changes: 2 } }[method] ?? {};
      const pretend = new Pretend({ ...SURVEY, method, ...more });
      const client = await pretend.join();
      const { flips } = client.state;
      const bits = [1, 0, 1, 1, 0, 1];
      for (let t = 0; t < 6; t++) {
        pretend.at(t + 0.5);
        await client.report(bits[t]);
        await client.report(1 - bits[t]); // says nothing new
      }
      const rounds = method === "masks" ? [1, 3, 4] : [0, 1, 2, 3, 4, 5];
      assert.deepEqual(pretend.heard.map((r) => r.slot), rounds.map((_, i) => i));
      if (method !== "tree") {
        assert.deepEqual(pretend.heard.map((r) => r.bit), rounds.map((t, i) => bits[t] ^ flips[i]));
      }
      assert.deepEqual(client.state.flips, flips);
      pretend.at(6.2);
      assert.ok(client.finished);
    }
  },
  async "sends the same report until it is acknowledged"() {
    const pretend = new Pretend();
    const client = await pretend.join();
    pretend.at(0.1);
    pretend.faults = ["lost", [503, "unavailable"], [429, "rate_limited"], [425, "too_early"]];
    await client.report(1);
    for (let i = 0; i < 8 && client.pending.length; i++) {
      assert.equal(await client.send(), false, "not before the pause is over");
      pretend.time += 6.1;
      await client.report(0);
    }
    assert.equal(pretend.heard.length, 5);
    for (const report of pretend.heard) assert.deepEqual(report, pretend.heard[0]);
    assert.equal(client.pending.length, 0);
  },
  async "keeps the collector's wish to be left alone"() {
    const pretend = new Pretend();
    const client = await pretend.join();
    pretend.faults = [[503, "unavailable", { "retry-after": "20" }]];
    await client.report(1);
    pretend.time += 19;
    assert.equal(await client.send(), false);
    pretend.time += 2;
    assert.equal(await client.send(), true);
    assert.equal(pretend.heard.length, 2);
  },
  async "gives up when its round can no longer be counted"() {
    const pretend = new Pretend();
    const client = await pretend.join();
    pretend.at(0.5);
    pretend.offline = true;
    await client.report(1);
    pretend.offline = false;
    pretend.at(1.2);
    await client.report(1);
    assert.deepEqual(pretend.heard.map((r) => r.slot), [1]);
    assert.equal(client.state.lost, 1);
    pretend.at(2.5);
    pretend.faults = [[403, "wrong_mark"]];
    await client.report(1);
    assert.equal(client.state.lost, 2);
    assert.equal(client.pending.length, 0);
  },
  async "takes up where it was, also offline"() {
    const pretend = new Pretend();
    const store = new MemoryStore();
    let client = await pretend.join(store);
    pretend.at(0.5);
    pretend.offline = true;
    const said = await client.report(1);
    client = await pretend.join(store);
    assert.deepEqual(client.pending, [said]);
    pretend.offline = false;
    client = await pretend.join(store);
    assert.deepEqual(await client.report(0), said);
    assert.deepEqual(pretend.heard, [said]);
    assert.equal(pretend.asked.filter((a) => a === "POST tickets").length, 1);
  },
  async "two tabs on one store are one client"() {
    const pretend = new Pretend();
    const store = new MemoryStore();
    const [one, two] = [await pretend.join(store), await pretend.join(store)];
    for (let t = 0; t < 6; t++) {
      pretend.at(t + 0.5);
      const said = await Promise.all([one.report(0), two.report(1)]);
      assert.deepEqual(said[0], said[1]);
    }
    const bits = new Map(pretend.heard.map((r) => [r.slot, r.bit]));
    for (const r of pretend.heard) assert.equal(r.bit, bits.get(r.slot), "a slot answered in two ways");
    assert.equal(bits.size, 6);
  },
  async "joining twice at once draws coins once"() {
    const pretend = new Pretend();
    const store = new MemoryStore();
    const [one, two] = await Promise.all([pretend.join(store), pretend.join(store)]);
    assert.deepEqual(one.state, two.state);
    assert.deepEqual(one.state, await store.load());
  },
  async "a wrong clock is put right, a clock put back says nothing new"() {
    const pretend = new Pretend();
    pretend.ahead = 7200;
    const client = await pretend.join();
    pretend.time = START + 150 - 7200;
    assert.equal((await client.report(1)).slot, 2);
    pretend.time -= 60;
    assert.equal(await client.report(1), null);
  },
  async "bits of the past, and none of the future"() {
    const pretend = new Pretend(SURVEY, 59);
    const client = await pretend.join();
    pretend.at(2.1);
    assert.equal((await client.report(1, START + 90)).slot, 1);
    await assert.rejects(client.report(1, START + 190), SudareError);
    assert.equal(await client.report(1, START - 90), null);
  },
  async "refuses lies, and sends nothing"() {
    const law = new Pretend().describe().law;
    const lies = [
      { digest: "00".repeat(32) },
      { epsilon: 0.5 },
      { rounds: 7 },
      { start: "2026-12-01T00:00:01Z" },
      { law: { ...law, far_weight: "1" } },
      { law: { ...law, threshold: 1 } },
      { law: undefined },
    ];
    for (const lie of lies) {
      const pretend = new Pretend();
      pretend.lies = lie;
      await assert.rejects(pretend.join(), { code: "law" });
      assert.deepEqual(pretend.asked, ["GET surveys"]);
    }
    for (const lie of [{ rounds: 0 }, { epsilon: 41 }, { method: "x" }, { start: 5 }]) {
      const pretend = new Pretend();
      pretend.lies = lie;
      await assert.rejects(pretend.join(), SudareError);
    }
    const greedy = new Pretend({ ...SURVEY, epsilon: 11 });
    await assert.rejects(greedy.join(), { code: "epsilon" });
    const kept = new MemoryStore();
    await greedy.join(kept, { maxEpsilon: 11 });
    for (greedy.offline of [false, true]) await assert.rejects(greedy.join(kept), { code: "epsilon" });
    for (const lie of [{ survey: "00" }, { serial: -1 }, { mark: "x" }, { rounds: [1] }]) {
      const pretend = new Pretend();
      pretend.ticket = lie;
      await assert.rejects(pretend.join(), { code: "ticket" });
    }
  },
  async "a tree's flips are as many as the survey says, and no lie about them is believed"() {
    const plain = { ...SURVEY, method: "tree", changes: 4 };
    const few = { ...plain, flips: "stretches" };
    for (const [survey, level, many] of [[plain, 2, 4], [few, 0, 4], [few, 1, 3], [few, 2, 1]]) {
      const pretend = new Pretend(survey);
      pretend.ticket = { level };
      const store = new MemoryStore();
      const client = await pretend.join(store);
      assert.equal(client.state.flips.length, many);
      assert.deepEqual((await pretend.join(store)).state, client.state);
    }
    for (const [survey, flips] of [[plain, "stretches"], [few, undefined], [few, "x"], [few, null], [SURVEY, "stretches"]]) {
      const pretend = new Pretend(survey);
      pretend.lies = { flips };
      await assert.rejects(pretend.join(), SudareError);
      assert.deepEqual(pretend.asked, ["GET surveys"]);
    }
  },
  async "takes a ticket from others"() {
    const pretend = new Pretend();
    const issued = { survey: digest(surveyOf(SURVEY)), serial: 9, mark: "AAECAwQFBgcICQoLDA0ODw" };
    const client = await pretend.join(new MemoryStore(), { ticket: { ...issued, rounds: [], level: 0 } });
    assert.equal(client.ticket.serial, 9);
    assert.deepEqual(pretend.asked, ["GET surveys"]);
    const wrong = { ...issued, rounds: [], level: 0, survey: "00" };
    await assert.rejects(pretend.join(new MemoryStore(), { ticket: wrong }), { code: "ticket" });
  },
  async "stays with its survey"() {
    const store = new MemoryStore();
    await new Pretend().join(store);
    const other = new Pretend({ ...SURVEY, name: "other" });
    await assert.rejects(other.join(store), { code: "survey" });
    assert.ok(!other.asked.includes("POST tickets"));
    // Somebody else's answers are as good as none.
    for (const answered of [json(503, { error: { code: "unavailable" } }), new Response("<html>")]) {
      const gone = new Pretend();
      gone.fetch = async () => answered.clone();
      assert.equal((await gone.join(store)).ticket.serial, 7);
      await assert.rejects(gone.join(new MemoryStore()), SudareError);
    }
  },
  async "whether it sends tells nothing of the bit"() {
    const seen = [];
    for (const opposite of [0, 1]) {
      const pretend = new Pretend();
      pretend.faults = ["lost", 204, [410, "too_late"], [503, "unavailable"]];
      const client = await pretend.join();
      for (let i = 0; i < 40; i++) {
        pretend.time += 9.7;
        pretend.offline = i % 7 === 3;
        await client.report((i % 3 === 0) ^ opposite);
      }
      seen.push([pretend.asked, pretend.heard.map((r) => r.slot)]);
    }
    assert.deepEqual(seen[0], seen[1]);
  },
  async "coins come from the system's generator and follow the law"() {
    const survey = surveyOf({ ...SURVEY, method: "glance", rounds: 1 });
    const law = lawOf(survey);
    let flipped = 0;
    const words = (n) => crypto.getRandomValues(new BigUint64Array(n));
    for (let i = 0; i < 20000; i++) flipped += enrol(survey, { rounds: [0] }, words).flips[0];
    const q = Number((law.far_weight * 1_000_000n) / (law.near_weight + law.far_weight)) / 1e6;
    const z = (flipped - 20000 * q) / Math.sqrt(20000 * q * (1 - q));
    assert.ok(Math.abs(z) < 6, `${z}`);
  },
  async "goes to its collector only, without cookies, and not for ever"() {
    const pretend = new Pretend();
    const asked = [];
    const fetch = (url, request) => (asked.push(request), pretend.fetch(url, request));
    await (await pretend.join(new MemoryStore(), { fetch })).report(1);
    assert.equal(asked.length, 3);
    for (const { redirect, credentials, signal } of asked) {
      assert.deepEqual([redirect, credentials], ["error", "omit"]);
      assert.ok(signal instanceof AbortSignal);
    }
  },
  async "an answer that does not end is not read"() {
    let sent = 0;
    const pull = (flow) => (sent++, flow.enqueue(new Uint8Array(1 << 16)));
    const endless = async () => new Response(new ReadableStream({ pull }), { status: 200 });
    await assert.rejects(new Pretend().join(new MemoryStore(), { fetch: endless }), { code: "offline" });
    assert.ok(sent < 40, `${sent}`);
  },
  async "a wish to be left alone for good is not heeded"() {
    const pretend = new Pretend();
    const client = await pretend.join();
    pretend.faults = [[503, "unavailable", { "retry-after": "1e12" }]];
    await client.report(1);
    pretend.at(1.5);
    await client.report(1);
    assert.deepEqual(pretend.heard.map((r) => r.slot), [0, 1]);
  },
  async "what was saved and is gone is not begun afresh"() {
    const pretend = new Pretend();
    const store = new MemoryStore();
    const client = await pretend.join(store);
    Object.assign(store, { load: async () => null, save: async () => false });
    await assert.rejects(client.report(1), { code: "storage" });
    await assert.rejects(client.report(0), { code: "storage" });
    assert.deepEqual(pretend.heard, []);
  },
  async "nonsense is an error in words, or as good as no answer"() {
    const store = new MemoryStore();
    await new Pretend().join(store);
    const pretend = new Pretend();
    const nothing = async () => json(404, null);
    assert.equal((await pretend.join(store, { fetch: nothing })).ticket.serial, 7);
    for (const lie of [{ grace_seconds: "x" }, { late_seconds: -1 }, { late_seconds: null }]) {
      pretend.lies = lie;
      await assert.rejects(pretend.join(), SudareError);
    }
    pretend.lies = {};
    const fetch = (url, asked) => (asked.method ? json(201, {}) : pretend.fetch(url, asked));
    await assert.rejects(pretend.join(new MemoryStore(), { fetch }), { code: "ticket" });
  },
  async "many coins at once"() {
    const pretend = new Pretend({ ...SURVEY, method: "tree", rounds: 1_000_000, changes: 2 });
    const client = await pretend.join();
    assert.equal(client.state.coins.length, 1_000_000);
    const ones = client.state.coins.reduce((a, b) => a + b);
    assert.ok(Math.abs(ones - 500_000) < 3_000, `${ones}`);
  },
};

await run(tests);
