// Numbers, times and reasons in the reader's words: their locale, their time zone.

const LOCALE = undefined; // the browser's
const whole = new Intl.NumberFormat(LOCALE);
const percent1 = new Intl.NumberFormat(LOCALE, {
  style: "percent",
  minimumFractionDigits: 1,
  maximumFractionDigits: 1,
});
const plain1 = new Intl.NumberFormat(LOCALE, {
  minimumFractionDigits: 1,
  maximumFractionDigits: 1,
});
const plain2 = new Intl.NumberFormat(LOCALE, { maximumSignificantDigits: 2 });
const DAY = 86_400;

/** @param {number} n */
export const count = (n) => whole.format(n);

/** @param {number | null} share */
export const share = (share) => (share === null ? "–" : percent1.format(share));

/** @param {number} share @param {number} digits */
export const sharePlain = (share, digits = 0) =>
  new Intl.NumberFormat(LOCALE, { style: "percent", maximumFractionDigits: digits }).format(share);

/** A difference of shares, in percentage points. @param {number} width */
export const points = (width) => plain1.format(100 * width);

/** @param {number} low @param {number} high */
export const interval = (low, high) => `${points(low)} – ${percent1.format(high)}`;

/** @param {number} n @param {string} one @param {string} many */
export const several = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** The name of the browser's time zone, as in "Europe/Berlin". */
export function zone() {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const short = new Intl.DateTimeFormat(LOCALE, { timeZoneName: "short" })
    .formatToParts()
    .find((part) => part.type === "timeZoneName")?.value;
  return short && short !== timeZone ? `${timeZone} (${short})` : timeZone;
}

/**
 * How to write the instants of a survey: no finer than its rounds ask for.
 * @param {number} roundSeconds
 */
export function clock(roundSeconds) {
  const seconds = roundSeconds < 60 ? /** @type {const} */ ("2-digit") : undefined;
  const time = new Intl.DateTimeFormat(LOCALE, {
    hour: "2-digit",
    minute: "2-digit",
    second: seconds,
  });
  const date = new Intl.DateTimeFormat(LOCALE, { month: "short", day: "numeric" });
  const weekday = roundSeconds >= 600 ? /** @type {const} */ ("short") : undefined;
  const day = new Intl.DateTimeFormat(LOCALE, { weekday, month: "short", day: "numeric" });
  const both = new Intl.DateTimeFormat(LOCALE, {
    weekday,
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: seconds,
  });
  const days = roundSeconds >= DAY;
  return {
    /** @param {number} ms */
    time: (ms) => time.format(ms),
    /** @param {number} ms */
    date: (ms) => date.format(ms),
    /** @param {number} ms */
    both: (ms) => both.format(ms),
    /** When a round was: "Mon, Nov 16, 14:00 – 15:00". @param {number} from @param {number} to */
    range: (from, to) =>
      days ? date.formatRange(from, to - 1) : `${both.format(from)} – ${time.format(to)}`,
    /** Its two halves: the day … @param {number} from @param {number} to */
    day: (from, to) => (days ? date.formatRange(from, to - 1) : day.format(from)),
    /** … and the hours. @param {number} from @param {number} to */
    hours: (from, to) => (days ? "" : `${time.format(from)} – ${time.format(to)}`),
  };
}

/** "1 hour", "90 seconds". @param {number} seconds */
export function length(seconds) {
  for (const [unit, size] of /** @type {[string, number][]} */ ([
    ["day", DAY],
    ["hour", 3600],
    ["minute", 60],
  ])) {
    if (seconds >= size && seconds % size === 0) return several(seconds / size, unit);
  }
  return seconds === 1 ? "1 second" : `${plain2.format(seconds)} seconds`;
}

/** What is left, as on a kitchen clock: "2 d 3 h", "1:05:09", "0:42". @param {number} ms */
export function countdown(ms) {
  const total = Math.max(0, Math.ceil(ms / 1000));
  const [days, rest] = [Math.floor(total / DAY), total % DAY];
  if (days) return `${days} d ${Math.floor(rest / 3600)} h`;
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const [hours, minutes, seconds] = [
    Math.floor(rest / 3600),
    Math.floor(rest / 60) % 60,
    rest % 60,
  ];
  return hours ? `${hours}:${two(minutes)}:${two(seconds)}` : `${minutes}:${two(seconds)}`;
}

/** @type {Record<string, string>} */
const REASONS = {
  too_late: "came after their round was over",
  too_early: "came before their round began",
  conflicting: "said something else than the first report of the same ticket, which counts",
  wrong_mark: "carried a forged or damaged ticket",
  unknown_slot: "answered a slot their ticket does not have",
  malformed: "could not be read",
  oversized: "were larger than any report",
  unknown_survey: "were meant for another survey",
  rate_limited: "asked too often and were told to wait",
  unauthorised: "lacked the operator’s token",
  enrolment_closed: "asked for a ticket after enrolment closed",
  unavailable: "met a collector too busy to answer",
  not_found: "asked for what is not here",
  wrong_method: "used a wrong method",
  wrong_type: "had a content type not understood here",
  too_slow: "took too long to arrive",
  internal: "met a fault of the collector",
};

/** Why something was refused, to follow a number. @param {string} code */
export const reason = (code) => REASONS[code] ?? code.replaceAll("_", " ");

/** @type {Record<string, string>} */
const METHODS = {
  glance: "Each person reports once, in a round chosen by chance",
  masks: "Each person reports in a few rounds chosen by chance",
  rappor: "Each person reports in every round",
  harmony: "Each person reports once, in a round chosen by chance",
  "harmony-signed": "Each person reports once, in a round chosen by chance",
  tree: "Each person reports on the changes of their answer",
};

/** How a survey asks, in a sentence without its end. @param {{method: string, slots: number}} survey */
export const method = ({ method, slots }) =>
  method === "masks" && slots > 1
    ? `Each person reports in ${slots} rounds chosen by chance`
    : (METHODS[method] ?? `Method ${method}`);
