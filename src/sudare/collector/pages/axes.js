// Where an axis gets its marks: round numbers of percent, people and time.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 7, 14, 28, 91, 182, 364].map((n) => n * DAY),
];

/**
 * A scale from values to pixels.
 * @param {number} low @param {number} high @param {number} from @param {number} to
 */
export function scale(low, high, from, to) {
  const slope = (to - from) / (high - low || 1);
  return (/** @type {number} */ value) => from + (value - low) * slope;
}

/** The next larger of 1, 2, 5, 10, 20, … @param {number} least */
function roundStep(least) {
  const unit = 10 ** Math.floor(Math.log10(least));
  return unit * ([1, 2, 5].find((n) => n * unit >= least * (1 - 1e-9)) ?? 10);
}

/**
 * About `most` round numbers that span low … high.
 * @param {number} low @param {number} high @param {number} most
 */
export function ticks(low, high, most) {
  const step = roundStep((high - low) / most);
  const [first, last] = [Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9)];
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toFixed(9)));
}

/**
 * The shares to show: all that was estimated, never less than a fifth of the whole, within 0 … 1.
 * @param {import("./api.js").Round[]} rounds
 * @returns {[number, number]}
 */
export function shareRange(rounds) {
  let [low, high] = [1, 0];
  for (const round of rounds) {
    if (round.share === null) continue;
    low = Math.min(low, round.low, round.smoothed ?? 1);
    high = Math.max(high, round.high, round.smoothed ?? 0);
  }
  if (high < low || high - low > 0.6) return [0, 1];
  const missing = Math.max(0, 0.2 - (high - low)) / 2;
  [low, high] = [low - missing, high + missing];
  const shift = Math.max(0, -low) - Math.max(0, high - 1);
  const marks = ticks(Math.max(0, low + shift), Math.min(1, high + shift), 5);
  return [Math.max(0, marks[0]), Math.min(1, marks.at(-1) ?? 1)];
}

/**
 * Instants at round local times, at most `most` of them.
 * @param {number} from milliseconds
 * @param {number} to
 * @param {number} most
 * @returns {{at: number, step: number, day: boolean}[]} `day`: a new day begins here
 */
export function timeTicks(from, to, most) {
  const wanted = (to - from) / Math.max(1, most);
  const step = STEPS.find((each) => each >= wanted) ?? Math.ceil(wanted / DAY) * DAY;
  const found = [];
  // Aligned to local midnight, and again on each new day: clocks may have been put forward.
  let day = new Date(from);
  day.setHours(0, 0, 0, 0);
  if (step >= DAY) {
    for (; day.getTime() <= to; day.setDate(day.getDate() + Math.round(step / DAY))) {
      if (day.getTime() >= from) found.push({ at: day.getTime(), step, day: true });
    }
    return found;
  }
  while (day.getTime() <= to) {
    const next = new Date(day);
    next.setDate(next.getDate() + 1);
    const skipped = Math.max(0, Math.ceil((from - day.getTime()) / step));
    for (let at = day.getTime() + skipped * step; at < next.getTime() && at <= to; at += step) {
      found.push({ at, step, day: at === day.getTime() });
    }
    day = next;
  }
  return found;
}
