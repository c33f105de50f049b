// Paths from rounds. Where there are more rounds than pixels, each column of pixels is drawn once, from
// the least to the largest it holds: the picture is the same, and ten thousand rounds stay smooth.

/** @typedef {import("./api.js").Round} Round */
/** @typedef {(value: number) => number} Scale */

const f = (/** @type {number} */ pixels) => pixels.toFixed(1);

/**
 * The rounds of each column of pixels, for as long as somebody reported: a gap starts a new run.
 * @param {Round[]} rounds
 * @param {Scale} x of a round's middle
 * @param {number} spacing pixels between rounds
 */
function* runs(rounds, x, spacing) {
  const perColumn = Math.max(1, Math.ceil(1.5 / spacing));
  /** @type {{x: number, rounds: Round[]}[]} */
  let run = [];
  let column = NaN;
  let expected = NaN;
  for (const round of rounds) {
    if (round.share === null || round.round !== expected) {
      if (run.length) yield run;
      run = [];
      column = NaN;
    }
    expected = round.round + 1;
    if (round.share === null) continue;
    const own = Math.floor(round.round / perColumn);
    if (own !== column) run.push({ x: x(round.round), rounds: [] });
    column = own;
    run[run.length - 1].rounds.push(round);
  }
  if (run.length) yield run;
}

/**
 * The band of intervals: its area, and its two edges.
 * @param {Round[]} rounds @param {Scale} x @param {Scale} y @param {number} spacing
 */
export function band(rounds, x, y, spacing) {
  let [area, edges] = ["", ""];
  for (const run of runs(rounds, x, spacing)) {
    const high = run.map((c) => ({ x: c.x, y: y(Math.max(...c.rounds.map((r) => r.high))) }));
    const low = run.map((c) => ({ x: c.x, y: y(Math.min(...c.rounds.map((r) => r.low))) }));
    if (run.length === 1) {
      // A round on its own gets a block of its own width.
      const half = Math.min(8, Math.max(1, spacing / 2));
      for (const line of [high, low]) line.push({ ...line[0], x: line[0].x + half });
      for (const line of [high, low]) line[0].x -= half;
    }
    const there = high.map((p) => `${f(p.x)} ${f(p.y)}`);
    const back = low.map((p) => `${f(p.x)} ${f(p.y)}`);
    area += `M${there.join("L")}L${[...back].reverse().join("L")}Z`;
    edges += `M${there.join("L")}M${back.join("L")}`;
  }
  return { area, edges };
}

/**
 * The smoothed curve, from the first report on: before it there is nothing to smooth.
 * @param {Round[]} rounds @param {Scale} x @param {Scale} y @param {number} spacing
 */
export function smooth(rounds, x, y, spacing) {
  let path = "";
  const begun = rounds.findIndex((r) => r.share !== null);
  const known = begun < 0 ? [] : rounds.slice(begun).filter((r) => r.smoothed !== null);
  const filled = known.map((r) => ({ ...r, share: r.share ?? r.smoothed }));
  for (const run of runs(filled, x, spacing)) {
    const spots = run.flatMap((column) => {
      const values = column.rounds.map((r) => /** @type {number} */ (r.smoothed));
      const ends = values.length > 1 ? [Math.min(...values), Math.max(...values)] : values;
      return ends.map((value) => `${f(column.x)} ${f(y(value))}`);
    });
    if (spots.length === 1) spots.push(spots[0]);
    path += `M${spots.join("L")}`;
  }
  return path;
}

/**
 * The raw estimates: a ring each, dots where it gets crowded, then a comb from least to largest.
 * @param {Round[]} rounds @param {Scale} x @param {Scale} y @param {number} spacing
 */
export function raw(rounds, x, y, spacing) {
  let path = "";
  const radius = spacing >= 9 ? 3.2 : spacing >= 5 ? 2.2 : 1.4;
  for (const run of runs(rounds, x, spacing)) {
    for (const column of run) {
      const shares = column.rounds.map((r) => /** @type {number} */ (r.share));
      if (shares.length > 1) {
        const [top, bottom] = [y(Math.max(...shares)), y(Math.min(...shares))];
        path += `M${f(column.x)} ${f(top)}V${f(Math.max(bottom, top + 1))}`;
      } else {
        path += ring(column.x, y(shares[0]), radius);
      }
    }
  }
  return { path, kind: spacing >= 5 ? "rings" : "crowd" };
}

/** @param {number} x @param {number} y @param {number} r */
export function ring(x, y, r) {
  return `M${f(x - r)} ${f(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
}

/**
 * Bars from the ground up, one for each [round, height].
 * @param {[number, number][]} heights
 * @param {Scale} x @param {Scale} y @param {number} spacing
 */
export function bars(heights, x, y, spacing) {
  const perColumn = Math.max(1, Math.ceil(1.5 / spacing));
  const width = Math.max(1, Math.min(spacing * perColumn * 0.7, spacing * perColumn - 1, 28));
  const ground = y(0);
  /** @type {Map<number, [number, number]>} */
  const columns = new Map();
  for (const [round, height] of heights) {
    const own = Math.floor(round / perColumn);
    const known = columns.get(own);
    if (!known || known[1] < height) columns.set(own, [known ? known[0] : round, height]);
  }
  let path = "";
  for (const [round, height] of columns.values()) {
    if (height > 0) {
      const top = Math.min(y(height), ground - 1);
      path += `M${f(x(round) - width / 2)} ${f(ground)}V${f(top)}h${f(width)}V${f(ground)}Z`;
    }
  }
  return path;
}
