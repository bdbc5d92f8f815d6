// What is found for somebody: layouts, answers, charts, derivations, reports. All words and all
// numbers come from the server; here they are asked for, placed, and taken into the text.

let state;
const running = new Map(); // by the element that shows what comes: what ends it

const one = (selector, around = document) => around.querySelector(selector);

function post(path, body, signal) {
  return fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ text: state.text(), textA: state.textA(), ...body }),
    signal,
  });
}

/** What is answered at once. */
export async function quick(name, body) {
  try {
    return await (await post(`page/${name}`, body)).json();
  } catch {
    return { faults: [{ message: "The server does not answer." }] };
  }
}

/** The lines of an answer that is looked for at length. */
async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const all = (rest + value).split("\n");
    rest = all.pop();
    for (const line of all) if (line) yield JSON.parse(line);
  }
  if (rest) yield JSON.parse(rest);
}

/** What is looked for at length, with its progress and a way to end it; null where it was ended. */
async function look(name, body, place, form) {
  running.get(place)?.abort();
  const end = new AbortController();
  running.set(place, end);
  tell(form, []);
  const waiting = document.createElement("p");
  waiting.className = "waiting";
  const line = document.createElement("span");
  line.setAttribute("role", "status");
  line.textContent = "…";
  const cancel = document.createElement("button");
  cancel.type = "button";
  cancel.textContent = "Cancel";
  cancel.addEventListener("click", () => end.abort());
  waiting.append(line, cancel);
  place.replaceChildren(waiting);
  let result = { faults: [{ message: "The server ended before it had an answer." }] };
  try {
    const response = await post(`find/${name}`, body, end.signal);
    for await (const said of lines(response)) {
      if ("progress" in said) line.textContent = said.progress || "…";
      else result = said.done ?? said;
    }
  } catch (error) {
    result = end.signal.aborted ? null : { faults: [{ message: "The server does not answer." }] };
  }
  if (running.get(place) !== end) return null; // something later is looked for here
  running.delete(place);
  place.replaceChildren();
  if (result === null) return null;
  if (result.faults) {
    tell(form, result.faults);
    return null;
  }
  if (result.html) place.innerHTML = result.html;
  if (result.html) place.scrollIntoView({ block: "nearest" });
  return result;
}

/** Faults, each beside its field, or below the form. */
function tell(form, faults) {
  for (const place of form.querySelectorAll(".fault")) place.textContent = "";
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  for (const { field, message } of faults) {
    const input = field && form.querySelector(`input[name="${CSS.escape(field)}"]:not([type=checkbox])`);
    const shown = input && !input.closest("[hidden]");
    const place = shown ? one(`#${input.id}-fault`) : one(":scope > .fault", form);
    place.textContent = place.textContent ? `${place.textContent} ${message}` : message;
    if (shown) input.setAttribute("aria-invalid", "true");
  }
}

/** Put the keys of something into the text. */
async function take(found, place) {
  const made = await quick("take", { set: found.set });
  let said = one(":scope > .taken", place);
  if (!said) {
    said = document.createElement("p");
    said.className = "taken note";
    said.setAttribute("role", "status");
    place.append(said);
  }
  if (made.faults) {
    said.textContent = made.faults.map((fault) => fault.message).join(" ");
    return;
  }
  await state.replace(made.text);
  said.textContent = made.changed.length ? `Taken: ${made.changed.join(", ")}.` : "The plan has this already.";
}

/** Points and rows of a place take what they stand for; of points one is in the order of the
 *  keyboard, and the arrows go on. */
function takes(place, all) {
  place.onclick = (event) => {
    const chosen = event.target.closest("[data-take]");
    if (!chosen) return;
    for (const other of place.querySelectorAll(".chosen")) other.classList.remove("chosen");
    for (const same of place.querySelectorAll(`[data-take="${chosen.dataset.take}"]`)) same.classList.add("chosen");
    take(all[Number(chosen.dataset.take)], place);
  };
  place.onkeydown = (event) => {
    const dot = event.target.closest(".dot");
    if (!dot) return;
    const dots = [...dot.parentNode.querySelectorAll(".dot")];
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) {
      const next = dots[(dots.indexOf(dot) + step + dots.length) % dots.length];
      for (const other of dots) other.tabIndex = other === next ? 0 : -1;
      next.focus();
    } else if (event.key === "Enter" || event.key === " ") {
      dot.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    } else return;
    event.preventDefault();
  };
}

export function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

// Search ---------------------------------------------------------------------------------------

function searching() {
  const form = one("#search"), place = one("#found");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const said = new FormData(form);
    const body = { ...Object.fromEntries(said), fixed: said.getAll("fixed") };
    const result = await look("search", body, place, form);
    if (result) takes(place, result.takes);
  });
}

// Questions ------------------------------------------------------------------------------------

function asking() {
  const form = one("#ask"), place = one("#answered"), single = one("#one"), own = one("#own");
  const value = one("#value");
  let asked = null; // the button of a question that waits for its value
  const ask = async (body) => {
    if (one("#unbounded").checked) body.unbounded = "true";
    const result = await look("solve", body, place, form);
    if (result) takes(place, result.takes);
  };
  form.addEventListener("click", (event) => {
    const button = event.target.closest("[data-question]");
    if (!button) return;
    const { question, option, example } = button.dataset;
    tell(form, []);
    single.hidden = !option;
    own.hidden = Boolean(question);
    asked = button;
    if (option) {
      one("#value-label").textContent = button.textContent;
      value.name = option;
      value.value = "";
      value.placeholder = example;
      value.focus();
    } else if (question) ask({ question });
    else one("#vary").focus();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!own.hidden) return ask({ vary: one("#vary").value, until: one("#until").value });
    if (asked?.dataset.option) {
      ask({ question: asked.dataset.question, [asked.dataset.option]: value.value || value.placeholder });
    }
  });
}

// A chart --------------------------------------------------------------------------------------

function drawing() {
  const form = one("#draw"), place = one("#drawn");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const result = await look("chart", Object.fromEntries(new FormData(form)), place, form);
    if (!result) return;
    takes(place, result.takes);
    one("[data-save]", place).addEventListener("click", () => save("study.yaml", "application/yaml", result.study));
  });
}

// Reports --------------------------------------------------------------------------------------

function reporting() {
  one("#find").addEventListener("click", async (event) => {
    const kind = event.target.closest("[data-report]")?.dataset.report;
    if (!kind) return;
    // A tab that is opened later than the click is none that somebody asked for.
    const tab = kind === "html" ? window.open("about:blank", "_blank") : null;
    const result = await look("report", { kind }, one("#reported"), one("#reports"));
    if (!result) tab?.close();
    else if (tab) tab.location = URL.createObjectURL(new Blob([result.text], { type: `${result.type};charset=utf-8` }));
    else save(result.file, result.type, result.text);
  });
}

// Why ------------------------------------------------------------------------------------------

const trail = [];

async function explain(id) {
  const box = one("#why");
  if (!one(".why-bar", box)) {
    box.innerHTML = '<form method="dialog" class="why-bar"><button type="button" id="why-back">Back</button><button>Close</button></form><div id="why-body"></div>';
    box.setAttribute("aria-labelledby", "why-head");
    one("#why-back").addEventListener("click", () => {
      trail.pop();
      explain(trail.pop());
    });
    box.addEventListener("click", (event) => {
      const link = event.target.closest('a[href^="#"]');
      const line = event.target.closest("[data-line]")?.dataset.line;
      if (link) {
        event.preventDefault();
        explain(decodeURIComponent(link.hash.slice(1)));
      } else if (line) {
        box.close();
        state.toLine(Number(line));
      }
    });
    box.addEventListener("close", () => (trail.length = 0));
  }
  trail.push(id);
  const body = one("#why-body"), said = await quick("why", { id });
  if (said.faults) {
    body.replaceChildren(...said.faults.map(({ message }) => {
      const line = document.createElement("p");
      line.textContent = message;
      return line;
    }));
  } else body.innerHTML = said.html;
  one("#why-back").disabled = trail.length < 2;
  if (!box.open) box.showModal();
  box.scrollTop = 0;
}

function explaining() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.why[data-id]");
    const link = event.target.closest('a[href^="#why="]');
    if (!button && !link) return;
    event.preventDefault();
    explain(button ? button.dataset.id : decodeURIComponent(link.hash.slice(5)));
  });
}

/** What the page gives: the text that is shown and the one beside it, a way to replace it, and one
 *  to a line of it. */
export function bind(given) {
  state = given;
}

export async function start() {
  explaining();
  const panel = await quick("panel", {});
  if (panel.faults) return;
  one("#find").innerHTML = panel.find;
  one("#chart").innerHTML = panel.chart;
  searching();
  asking();
  drawing();
  reporting();
}
