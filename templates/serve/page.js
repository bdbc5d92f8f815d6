// The page holds the texts of one plan or two; the server answers all that is shown of them.
import { bind, quick, save, start } from "./find.js";

const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const area = one("#text");
const texts = { A: area.value, B: null };
let side = "A", asked = 0, still = 0, waiting = 0;
let moved = {}; // what controls changed since the last answer that was shown
const brought = { A: {}, B: {} }; // keys that only followed a model, with what the text stated before
const opened = new Set(); // keys of the sections that somebody looked into

bind({
  text: () => texts[side],
  textA: () => (side === "B" ? texts.A : null),
  replace: (text) => put(text, true),
  toLine,
});

// The answer -----------------------------------------------------------------------------------

/** Ask what the text, with what controls changed, comes to. Only the last question is shown; what
 *  one before it was to change is part of it. */
async function ask(set = {}) {
  const number = ++asked;
  clearTimeout(still);
  clearTimeout(waiting);
  moved = { ...moved, ...set };
  const changes = Object.keys(moved).length > 0;
  one("#state").textContent = document.body.dataset.loading ?? "…";
  const said = await quick(changes ? "change" : "answer", { keys: [...opened], set: moved, brought: brought[side] });
  if (number !== asked) return;
  beside(Object.keys(moved), said.faults);
  if (said.brought && "model" in moved) brought[side] = said.brought;
  for (const key of Object.keys(moved)) delete brought[side][key];
  moved = {};
  if (said.faults && changes && said.text === undefined) {
    status(unanswered(said.faults, "not changed"));
    document.body.dataset.answered = number;
    return said; // the plan is what it was
  }
  if (said.text !== undefined && said.text !== texts[side]) {
    texts[side] = area.value = said.text;
    keep(true);
  }
  show(said);
  document.body.dataset.answered = number;
  return said;
}

/** Faults stand at the field that was changed. */
function beside(keys, faults = []) {
  for (const line of all(".control > .fault")) line.remove();
  for (const control of all(".control.wrong")) control.classList.remove("wrong");
  const control = faults.length && keys.length && one(`.control[data-key="${CSS.escape(keys[0])}"]`);
  if (!control) return;
  const line = document.createElement("small");
  line.className = "fault";
  line.setAttribute("role", "alert");
  line.textContent = faults[0].message.replace(`${keys[0]}: `, "").replace(`${keys[0]} is`, "This is");
  control.classList.add("wrong");
  control.append(line);
}

/** What faults come to: those of a document have a place. */
const unanswered = (faults, words) => (faults[0].place === undefined ? "no answer" : words);

/** The state of the page, on a desk and at the lower edge of a phone. */
function status(words) {
  one("#state").textContent = words;
  one("#answered-plan").classList.toggle("stale", words !== "");
  one("#strip").classList.toggle("stale", words !== "");
  one("#strip").dataset.state = words;
  if (words) document.title = `${words} · trainplan`;
}

/** A change that nobody typed, with why it was made and what puts it back. */
function chip(changed, why, undo) {
  const made = document.createElement("span"), back = document.createElement("button");
  const what = document.createElement("b");
  made.className = "chip";
  what.textContent = changed;
  back.type = "button";
  back.textContent = "Undo";
  back.setAttribute("aria-label", `Undo ${changed}`);
  back.onclick = undo;
  made.append(what, `: ${why} `, back);
  return made;
}

/** What followed a change so that the plan stays one. */
function follow(followed = []) {
  one("#followed").replaceChildren(...followed.map(({ label, changed, why, undo }) =>
    chip(`${label} ${changed}`, why, async () => {
      const text = texts[side];
      if (!(await ask(undo))?.faults) return;
      await put(text, true); // nothing else can follow
      one("#state").textContent = `not possible: ${why}`;
    })));
}

/** A row of advice is taken by a click. */
function advice() {
  one("#answer").addEventListener("click", async (event) => {
    const row = event.target.closest("[data-set]");
    if (!row || row.closest(".stale")) return;
    const before = texts[side], changed = one("button", row).textContent;
    const said = await ask(JSON.parse(row.dataset.set));
    if (!said || said.faults) return;
    one("#followed").prepend(chip(changed, "taken", () => put(before, true)));
    one("#followed").scrollIntoView({ block: "nearest" });
  });
}

function show(said) {
  const wrong = new Set();
  follow(said.followed);
  one("#faults").replaceChildren(...(said.faults ?? []).map((fault) => {
    const line = document.createElement("p");
    if (fault.line) {
      wrong.add(fault.line);
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `line ${fault.line}`;
      button.onclick = () => toLine(fault.line);
      line.append(button, ": ");
    }
    line.append(fault.message);
    return line;
  }));
  number(wrong);
  one("#further").classList.toggle("stale", true);
  if (said.faults) {
    status(unanswered(said.faults, "not a plan yet"));
    // What the text states is shown; what follows from it is known once it is a plan.
    for (const [key, shown] of Object.entries(said.controls ?? {})) if (shown.value !== null) place(key, { ...shown, rule: null });
    return;
  }
  one("#answered-plan").innerHTML = said.html;
  one("#strip").innerHTML = said.strip;
  status("");
  one("#title").textContent = said.title;
  document.title = `${said.verdict} · ${said.title} · trainplan`;
  one("#model-size").textContent = said.model;
  for (const [key, shown] of Object.entries(said.controls)) place(key, shown);
  const differ = new Set(said.differ);
  for (const control of all(".control")) control.classList.toggle("differs", differ.has(control.dataset.key));
  one("#changed").hidden = side !== "B";
  one("#changed").open = false;
  still = setTimeout(further, 350);
}

/** What takes longer, once the page is still. */
async function further() {
  const number = asked;
  one("#state").textContent = "looking for better …";
  const said = await quick("more", {});
  if (number !== asked) return;
  const missing = said.faults && unanswered(said.faults, "");
  if (missing) return status(missing);
  one("#state").textContent = "up to date";
  if (said.faults) return;
  one("#advice").innerHTML = said.advice;
  one("#further").innerHTML = said.html;
  one("#further").classList.remove("stale");
  for (const [key, refused] of Object.entries(said.refused)) {
    for (const label of all(`[data-key="${CSS.escape(key)}"] .segments label`)) {
      const why = refused[one("input", label).value];
      label.classList.toggle("refused", why?.startsWith("does not fit") ?? false);
      label.classList.toggle("impossible", why !== undefined && !why.startsWith("does not fit"));
      label.title = why ?? "";
      one("input", label).setAttribute("aria-label", one("span", label).textContent + (why ? `, ${why}` : ""));
    }
  }
  document.body.dataset.settled = number;
}

// Controls -------------------------------------------------------------------------------------

function place(key, { value, rule, sizes, idle }) {
  const control = one(`.control[data-key="${CSS.escape(key)}"]`);
  control.classList.toggle("idle", idle);
  const segments = one(".segments", control), now = value ?? (rule ?? "").split(" ")[0];
  if (segments) {
    if (sizes) {
      const words = sizes.map(String);
      const there = all("input", segments).map((input) => input.value);
      if (words.join() !== there.join()) {
        segments.replaceChildren(...words.map((word) => {
          const label = document.createElement("label"), input = document.createElement("input");
          const span = document.createElement("span");
          Object.assign(input, { type: "radio", name: segments.id, value: word });
          span.textContent = word;
          label.append(input, span);
          return label;
        }));
      }
    }
    const focused = segments.contains(document.activeElement);
    for (const input of all("input", segments)) {
      input.checked = input.value === now;
      if (input.checked && focused) input.focus();
    }
    return;
  }
  const field = one("input, select", control);
  if (field.tagName === "SELECT") {
    field.options[0].textContent = rule && value === null ? rule : "default";
    field.value = value ?? "";
  } else {
    if (document.activeElement !== field || field.dataset.typing !== "1") field.value = value ?? "";
    if (rule !== null) field.placeholder = rule;
  }
}

function controls() {
  const form = one("#controls");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => (event.target.dataset.typing = "1"));
  form.addEventListener("change", (event) => {
    const control = event.target.closest(".control");
    if (!control) return;
    event.target.dataset.typing = "";
    const typed = event.target.value.trim();
    ask({ [control.dataset.key]: typed === "" ? null : typed });
  });
  one("#more").addEventListener("toggle", (event) => {
    const section = event.target;
    if (!section.open || !section.classList.contains("section")) return;
    for (const control of all(".control", section)) opened.add(control.dataset.key);
    ask();
  }, true);
  one("#filter").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const section of all(".section")) {
      let some = false;
      for (const control of all(".control", section)) {
        const said = `${control.dataset.key} ${control.textContent}`.toLowerCase();
        control.hidden = !words.every((word) => said.includes(word));
        control.style.display = control.hidden ? "none" : "";
        some ||= !control.hidden;
      }
      section.hidden = !some;
      if (words.length) section.open = some;
    }
  });
}

// The text -------------------------------------------------------------------------------------

async function put(text, control = false) {
  brought[side] = {};
  texts[side] = area.value = text;
  keep(control);
  await ask();
}

function number(wrong = new Set()) {
  const rows = area.value.split("\n"), own = new Set((side === "B" ? texts.A : area.value).split("\n"));
  one("#lines").replaceChildren(...rows.map((row, i) => {
    const line = document.createElement("span");
    line.textContent = i + 1;
    line.className = wrong.has(i + 1) ? "wrong" : own.has(row) ? "" : "changed-line";
    return line;
  }));
  area.rows = Math.min(rows.length + 1, 28);
  one("#lines").scrollTop = area.scrollTop;
}

function toLine(line) {
  const rows = area.value.split("\n"), from = rows.slice(0, line - 1).join("\n").length + (line > 1);
  area.focus();
  area.setSelectionRange(from, from + (rows[line - 1] ?? "").length);
  area.scrollTop = (area.scrollHeight / rows.length) * Math.max(0, line - 6);
  area.scrollIntoView({ block: "nearest" });
}

function editor() {
  area.addEventListener("input", () => {
    asked += 1; // an answer to what stood here before would undo what is typed
    texts[side] = area.value;
    brought[side] = {};
    number();
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      keep(false);
      ask();
    }, 150);
  });
  area.addEventListener("scroll", () => (one("#lines").scrollTop = area.scrollTop));
  one("#copy").onclick = () => navigator.clipboard.writeText(area.value);
  one("#save").onclick = () => save("plan.yaml", "application/yaml", area.value);
}

// The address holds the texts --------------------------------------------------------------------

async function packed(text, stream) {
  const piped = new Blob([text]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(piped).arrayBuffer());
}

async function link() {
  const bytes = await packed(JSON.stringify(texts.B === null ? [texts.A] : [texts.A, texts.B, side]), new CompressionStream("deflate-raw"));
  const plain = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `#p=${plain.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

async function unlink(hash) {
  if (!hash.startsWith("#p=")) return false;
  try {
    const plain = atob(hash.slice(3).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
    const raw = await packed(bytes, new DecompressionStream("deflate-raw"));
    const [a, b, shown] = JSON.parse(new TextDecoder().decode(raw));
    if (typeof a !== "string") return false;
    texts.A = a;
    texts.B = typeof b === "string" ? b : null;
    side = texts.B !== null && shown === "B" ? "B" : "A";
    return true;
  } catch {
    return false;
  }
}

/** The address follows the texts: a change of a control is a step that "back" takes again. */
async function keep(step) {
  const hash = await link();
  if (hash === location.hash) return;
  if (step) history.pushState(null, "", hash);
  else history.replaceState(null, "", hash);
}

// Two plans, files -------------------------------------------------------------------------------

function sides() {
  one("#tabs").hidden = texts.B === null;
  one("#compare").textContent = texts.B === null ? "Compare with a copy" : "Drop B";
  for (const tab of all("#tabs button")) tab.setAttribute("aria-pressed", String(tab.dataset.side === side));
  one("#yaml-head").textContent = texts.B === null ? "YAML" : `YAML of ${side}`;
  area.value = texts[side];
}

async function turn(to) {
  side = to;
  sides();
  await keep(false);
  await ask();
}

async function take(file) {
  const text = await file.text();
  const said = await quick("open", { file: text, called: file.name });
  one("#opening").close();
  if (said.faults) show(said);
  else await put(said.text, true);
}

function files() {
  one("#tabs").addEventListener("click", (event) => event.target.dataset.side && turn(event.target.dataset.side));
  one("#compare").onclick = () => {
    if (texts.B === null) {
      texts.B = texts.A;
      turn("B");
    } else {
      texts.B = null;
      turn("A");
    }
  };
  one("#open").onclick = () => one("#opening").showModal();
  one("#plans").onchange = async (event) => {
    const said = await quick("open", { name: event.target.value });
    one("#opening").close();
    event.target.value = "";
    if (said.text) await put(said.text, true);
  };
  one("#file").onchange = (event) => event.target.files[0] && take(event.target.files[0]);
  for (const name of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(name, (event) => {
      event.preventDefault();
      document.body.classList.toggle("dropping", name === "dragover");
      if (name === "drop" && event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
    });
  }
  one("#link").onclick = async () => {
    await keep(false);
    try {
      await navigator.clipboard.writeText(location.href);
      one("#state").textContent = "link copied";
    } catch {
      one("#state").textContent = "the address is the link";
    }
  };
  one("#report").onclick = () => one('[data-report="html"]')?.click();
  one("#find-it").onclick = () => {
    one("#find").scrollIntoView({ block: "start" });
    one("#search")?.requestSubmit();
  };
  one("#changed").addEventListener("toggle", async () => {
    if (!one("#changed").open) return;
    const said = await quick("diff", {});
    one("#changed > div").innerHTML = said.html ?? "";
  });
  const first = area.value;
  addEventListener("popstate", async () => {
    if (location.hash === "") Object.assign(texts, { A: first, B: null }), (side = "A");
    else if (!(await unlink(location.hash))) return;
    sides();
    ask();
  });
}

controls();
advice();
editor();
files();
await unlink(location.hash);
sides();
await ask();
await start();
document.body.dataset.ready = "1";
