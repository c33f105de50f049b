// The operator's corner: opening and closing enrolment, and tickets to hand out. The token lives in a
// variable of this tab, is sent in a header to this collector only, and is stored nowhere.

import { address, ask } from "./api.js";
import { find, say } from "./panels.js";
import * as words from "./words.js";

/**
 * @param {import("./api.js").Survey} survey
 * @param {(open: boolean) => void} onEnrolment
 */
export function operate(survey, onEnrolment) {
  let token = "";
  let open = survey.enrolment === "open";
  const input = /** @type {HTMLInputElement} */ (find("token"));
  const count = /** @type {HTMLInputElement} */ (find("count"));

  /** @param {string} name @param {string} [method] @param {object} [body] */
  const asOperator = (name, method = "GET", body = undefined) =>
    ask(address(survey.id, name), {
      method,
      body: body && JSON.stringify(body),
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    });

  /** Do it, say how it went. @param {HTMLButtonElement} button @param {() => Promise<string>} work */
  async function attempt(button, work) {
    button.disabled = true;
    const place = find("operator-words");
    try {
      place.textContent = await work();
      place.className = "good";
    } catch (problem) {
      const { code, message } = /** @type {{code?: string, message: string}} */ (problem);
      place.className = "bad";
      if (code === "unauthorised") lock();
      place.textContent =
        code === "unauthorised" ? "This is not the operator’s token." : code ? message : "The collector cannot be reached.";
    } finally {
      button.disabled = false;
    }
  }

  function show() {
    say("enrolment-state", open ? "Enrolment is open" : "Enrolment is closed");
    say("enrolment-help", open ? "Anyone who reaches this collector may take part." : "Nobody new can take part; those who hold a ticket go on.");
    say("enrolment-toggle", open ? "Close enrolment" : "Open enrolment");
    onEnrolment(open);
  }

  function lock() {
    token = "";
    find("controls").hidden = true;
    find("unlock").hidden = false;
  }

  on("unlock", (button) =>
    attempt(button, async () => {
      token = input.value.trim();
      await asOperator("operator");
      input.value = "";
      find("unlock").hidden = true;
      find("controls").hidden = false;
      find("enrolment-toggle").focus();
      return "Unlocked.";
    }),
  );
  on("mint", (button) =>
    attempt(button, async () => {
      const { tickets } = await asOperator("tickets", "POST", { count: Number(count.value) });
      const lines = tickets.map((/** @type {object} */ ticket) => `${JSON.stringify(ticket)}\n`);
      download(`tickets-${survey.name}-${tickets[0].serial}.jsonl`, lines.join(""));
      return `${words.several(tickets.length, "ticket")} downloaded. Give each to one person only, and keep no copy.`;
    }),
  );
  const toggle = /** @type {HTMLButtonElement} */ (find("enrolment-toggle"));
  toggle.addEventListener("click", () =>
    attempt(toggle, async () => {
      await asOperator("enrolment", "PUT", { open: !open });
      open = !open;
      show();
      return open ? "Enrolment is now open." : "Enrolment is now closed.";
    }),
  );
  find("lock").addEventListener("click", () => {
    lock();
    say("operator-words", "Locked; the token is forgotten.");
    input.focus();
  });
  show();
  return {
    /** Somebody else may have opened or closed it. @param {boolean} now */
    enrolment(now) {
      open = now;
      show();
    },
  };
}

/** @param {string} id @param {(button: HTMLButtonElement) => void} submit */
function on(id, submit) {
  const form = /** @type {HTMLFormElement} */ (find(id));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit(/** @type {HTMLButtonElement} */ (form.querySelector("button")));
  });
}

/** @param {string} name @param {string} content */
function download(name, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "application/jsonl" }));
  link.download = name.replaceAll(/[^\w.-]+/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
