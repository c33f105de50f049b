// The collector's HTTP, as any script would use it. Addresses are relative to this file, so that the
// pages also work below a prefix of somebody's proxy.

/**
 * @typedef {object} Survey
 * @property {string} id
 * @property {string} digest
 * @property {string} name
 * @property {string} question
 * @property {number} rounds
 * @property {number} epsilon
 * @property {string} method
 * @property {number} slots
 * @property {string} start
 * @property {number} round_seconds
 * @property {string} ends
 * @property {string} now
 * @property {number} grace_seconds
 * @property {number} late_seconds
 * @property {number} beta
 * @property {"open" | "closed"} enrolment
 * @property {string} promise
 * @property {"private"} [dashboard]
 * @property {{users: number, typical: number, bound: number | null} | null} predicted_error
 */

/**
 * @typedef {object} Round
 * @property {number} round
 * @property {string} opens
 * @property {string} closes
 * @property {string} published
 * @property {number} reporters
 * @property {number | null} share
 * @property {number | null} raw
 * @property {number} low
 * @property {number} high
 * @property {number | null} smoothed
 * @property {number} revision
 */

/** @typedef {{round: number, publishes: string}} Next */
/** @typedef {{survey: string, rounds: Round[], next: Next | null, beta: number, reporters?: number}} Estimates */

/**
 * @typedef {object} Activity
 * @property {string} now
 * @property {number | null} round
 * @property {Record<string, number>} reporters
 * @property {number} tickets
 * @property {Record<string, number>} refused
 * @property {boolean} collecting
 * @property {boolean} paused
 */

const ROOT = new URL("../v1/surveys", import.meta.url).href;

/** What the collector refused, in its own words. */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} message
   */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/**
 * @param {string} id
 * @param {string} name
 * @returns {string}
 */
export function address(id, name = "") {
  return `${ROOT}/${id}${name && "/"}${name}`;
}

/**
 * The JSON at an address, or null where there is nothing to say.
 * @param {string} url
 * @param {RequestInit} [options]
 * @returns {Promise<any>}
 */
export async function ask(url, options = {}) {
  const answer = await fetch(url, { cache: "no-store", credentials: "same-origin", ...options });
  if (!answer.ok) {
    const told = await answer.json().catch(() => null);
    const { code = "unavailable", message = `The collector answered ${answer.status}.` } =
      told?.error ?? {};
    throw new Refused(answer.status, code, message);
  }
  return answer.status === 204 ? null : answer.json();
}

/** @returns {Promise<Survey | undefined>} the one survey that this collector serves */
export async function survey() {
  return (await ask(ROOT)).surveys[0];
}
