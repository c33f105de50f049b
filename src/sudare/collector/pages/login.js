// The door of a private dashboard. The token goes to the collector once, in a request's body; what lets
// this browser in from then on is a cookie that no script can read.

import { address, ask } from "./api.js";
import { find, say } from "./panels.js";

/** Whether this browser may read. @param {import("./api.js").Survey} survey */
export async function admitted(survey) {
  try {
    await ask(address(survey.id, "activity"));
  } catch (problem) {
    if (/** @type {{code?: string}} */ (problem).code === "unauthorised") return false;
    throw problem;
  }
  find("session").hidden = false;
  find("leave").addEventListener("click", async () => {
    await ask(address(survey.id, "session"), { method: "DELETE" });
    location.reload();
  });
  return true;
}

/** Ask for the token, and go on with `next`. @param {import("./api.js").Survey} survey @param {() => void} next */
export function unlock(survey, next) {
  const form = /** @type {HTMLFormElement} */ (find("login"));
  const input = /** @type {HTMLInputElement} */ (find("viewer-token"));
  const main = find("main");
  main.dataset.locked = "";
  form.hidden = false;
  say("connection-words", "Private");
  form.onsubmit = async (event) => {
    event.preventDefault();
    const body = JSON.stringify({ token: input.value.trim() });
    try {
      await ask(address(survey.id, "session"), {
        method: "PUT",
        body,
        headers: { "Content-Type": "application/json" },
      });
    } catch (problem) {
      const { code, message } = /** @type {{code?: string, message: string}} */ (problem);
      say("login-words", code === "unauthorised" ? "This is no token for it." : code ? message : "The collector cannot be reached.");
      return;
    }
    input.value = "";
    form.hidden = true;
    delete main.dataset.locked;
    next();
  };
}
