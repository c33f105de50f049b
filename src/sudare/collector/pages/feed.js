// Staying up to date: the live stream, and asking whenever the stream is silent longer than it should.
//
// The stream only ever says "something is new"; what is shown is what `estimates` says, asked for
// again after every (re)connection. So nothing is missed between the two, whatever the network does.

import { address, ask } from "./api.js";

/** @typedef {import("./api.js").Survey} Survey */
/** @typedef {"connecting" | "live" | "polling" | "reconnecting" | "over"} State */

const TICK_MS = 500;
const PATIENCE_MS = 2_000;
const LONGEST_WAIT_MS = 30_000;

/**
 * @typedef {object} Listener
 * @property {() => boolean} known whether it has any rounds
 * @property {() => number} since the first round that may be new or revised
 * @property {() => number} due when the next round should be known, on this machine's clock
 * @property {(rounds: import("./api.js").Round[]) => void} rounds
 * @property {(rounds: import("./api.js").Round[], reporters: number) => void} sum what a summary says
 * @property {(next: import("./api.js").Next | null) => void} next
 * @property {(activity: import("./api.js").Activity) => void} activity
 * @property {(state: State) => void} state
 * @property {() => boolean} over whether nothing more will come
 */

/**
 * Follow a survey until it is over.
 * @param {Survey} survey
 * @param {Listener} listener
 */
export function follow(survey, listener) {
  const pollMs = Math.min(LONGEST_WAIT_MS, Math.max(PATIENCE_MS, survey.round_seconds * 500));
  /** @type {EventSource | null} */
  let source = null;
  let opened = false;
  let asking = false;
  let again = false;
  let failures = 0;
  let notBefore = 0;
  let answered = false;
  let refusals = 0;
  let reopenAt = 0;
  let closedSince = Date.now();

  async function catchUp() {
    again = asking;
    if (asking) return;
    asking = true;
    try {
      const [estimates, activity] = await Promise.all([
        ask(
          listener.known()
            ? `${address(survey.id, "estimates")}?since=${listener.since()}`
            : address(survey.id, "summary"), // enough to draw all; details as they are looked at
        ),
        ask(address(survey.id, "activity")),
      ]);
      failures = 0;
      if (estimates.reporters !== undefined) listener.sum(estimates.rounds, estimates.reporters);
      listener.rounds(estimates.rounds);
      listener.next(estimates.next);
      listener.activity(activity);
      answered = true;
      if (opened) listener.state("live");
      notBefore = Date.now() + pollMs;
    } catch (problem) {
      failures += 1;
      answered = false;
      // Another survey may have taken this address: then everything shown is wrong.
      const { code } = /** @type {{code?: string}} */ (problem);
      // And without a session nothing more will come.
      if (code === "unknown_survey" || code === "unauthorised") location.reload();
      listener.state("reconnecting");
      notBefore = Date.now() + Math.min(LONGEST_WAIT_MS, 500 * 2 ** failures);
    } finally {
      asking = false;
    }
    // What was answered may be older than the stream that opened meanwhile.
    if (again) catchUp();
  }

  function open() {
    source = new EventSource(address(survey.id, "stream"));
    source.addEventListener("open", () => {
      opened = true;
      refusals = 0;
      catchUp();
    });
    source.addEventListener("error", () => {
      if (opened) {
        opened = answered = false;
        closedSince = Date.now();
        notBefore = 0;
        listener.state("reconnecting");
      }
      // The browser reopens a stream that broke off, but gives up on one that was refused.
      if (source?.readyState === EventSource.CLOSED) {
        source = null;
        refusals += 1;
        reopenAt = Date.now() + Math.min(2 * LONGEST_WAIT_MS, PATIENCE_MS * 2 ** refusals);
      }
    });
    source.addEventListener("round", (event) => listener.rounds([JSON.parse(event.data)]));
    source.addEventListener("activity", (event) => listener.activity(JSON.parse(event.data)));
  }

  function close() {
    source?.close();
    source = null;
    opened = false;
  }

  function tick() {
    if (document.hidden) return;
    if (listener.over()) {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", turn);
      close();
      listener.state("over");
      return;
    }
    if (!opened && answered && Date.now() - closedSince > 2 * PATIENCE_MS) listener.state("polling");
    const overdue = Date.now() > listener.due() + PATIENCE_MS;
    if ((!opened || overdue || failures > 0) && Date.now() >= notBefore) catchUp();
    if (source === null && failures === 0 && Date.now() >= reopenAt) open();
  }

  // A page nobody looks at holds no connection.
  function turn() {
    if (document.hidden) close();
    else tick();
  }

  document.addEventListener("visibilitychange", turn);
  const timer = setInterval(tick, TICK_MS);
  tick();
}
