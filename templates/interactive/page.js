// The page: reads the controls, computes the changed plan, writes numbers and bars.
(() => {
  const GROUP = ",", find = id => document.getElementById(id);
  const controls = PAGE.controls, form = find("what-if-controls");

  // Numbers for people, rounded as the report rounds them.
  const grouped = whole => whole.replace(/\B(?=(\d{3})+$)/g, GROUP);
  const fixed = (value, decimals) => {
    // Halves go to the even digit, as in the report.
    const scaled = Math.abs(value) * 10 ** decimals, below = Math.floor(scaled);
    const half = scaled - below === 0.5 && scaled < 2 ** 50;
    const near = half ? (below + below % 2) / 10 ** decimals : Math.abs(value);
    const [whole, part] = near.toFixed(decimals).split(".");
    const text = grouped(whole) + (part ? "." + part : "");
    return value < 0 && /[1-9]/.test(text) ? "\u2212" + text : text;
  };
  const power = (value, digits) => Number(Math.abs(value).toExponential(digits - 1).split("e")[1]);
  const significant = (value, digits = 3) => value === 0 ? "0"
    : fixed(value, Math.max(0, digits - 1 - power(value, digits)));
  const scientific = value => value === 0 ? "0" : value.toExponential(2).replace("e+", "e").replace("-", "\u2212");
  const percent = share => {
    // One decimal, below one per cent two digits, and more where it would read as all.
    const size = Math.abs(share), rest = Math.abs(1 - size);
    const decimals = [[size, 2], [rest, 1]].map(([near, least]) => near >= 1e-6 ? least - 1 - power(near * 100, least) : 1);
    return `${fixed(share * 100, Math.max(1, ...decimals))} %`;
  };
  const count = (value, short) => {
    const size = Math.abs(value);
    if (short) {
      for (const [name, one] of [["T", 1e12], ["B", 1e9], ["M", 1e6]]) {
        if (size >= one) return significant(value / one) + name;
      }
    }
    if (Number.isInteger(value) && size < 2 ** 53) return fixed(value, 0);
    return size >= 1e21 || size > 0 && size < 1e-4 ? scientific(value) : significant(value);
  };
  const prefixed = (value, steps, plain, small = count) => {
    for (const [name, size] of steps) {
      if (value !== 0 && power(value / size, 3) >= 0) return `${significant(value / size)} ${name}`;
    }
    return `${small(value)} ${plain}`;
  };
  // As planner/base/numbers.py has them.
  const LARGE_UNITS = {
    "USD": [["billion USD", 1e9], ["million USD", 1e6]],
    "kWh": [["TWh", 1e9], ["GWh", 1e6], ["MWh", 1e3]],
    "kgCO2e": [["MtCO2e", 1e9], ["ktCO2e", 1e6], ["tCO2e", 1e3]],
    "tokens/s": [["M tokens/s", 1e6], ["k tokens/s", 1e3]],
  };
  const duration = seconds => {
    const size = Math.abs(seconds);
    if (size === 0) return "0 s";
    for (const [name, one] of [["days", 86400], ["h", 3600], ["min", 60]]) {
      if (size >= 2 * one) return `${significant(seconds / one)} ${name}`;
    }
    if (size >= 1) return `${significant(seconds)} s`;
    const [name, one] = [["ms", 1e-3], ["\u00b5s", 1e-6], ["ns", 1e-9]].find(s => size >= s[1]) || ["ns", 1e-9];
    return `${significant(seconds / one)} ${name}`;
  };
  const rates = ["P", "T", "G", "M", "k"].map((name, i) => [name, 10 ** (15 - 3 * i)]);
  const shown = (value, id) => {
    const [unit, share] = PAGE.quantities[id];
    if (typeof value === "string") return value;
    if (share) return percent(value);
    if (unit === "bytes") return prefixed(value, [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]], "bytes");
    if (["bytes/s", "FLOP/s", "W"].includes(unit)) {
      const own = unit.replace("bytes", "B");
      return prefixed(value, rates.map(([name, size]) => [name + own, size]), own);
    }
    if (unit === "FLOP") return `${scientific(value)} FLOP`;
    if (unit === "h" && value >= 1) return value >= 1e6 ? `${significant(value / 1e6)} million h` : `${significant(value)} h`;
    if (unit === "s" || unit === "h" || unit === "days") return duration(value * { s: 1, h: 3600, days: 86400 }[unit]);
    if (LARGE_UNITS[unit]) return prefixed(value, LARGE_UNITS[unit], unit, significant);
    const text = count(value, unit === "parameters" || unit === "tokens");
    return ["1", "–", "", "parameters"].includes(unit) ? text : `${text} ${unit}`;
  };

  // The plan.
  const changed = (data, steps, value) => {
    const copy = new $.Dict(data.items());
    copy.put(steps[0], steps.length > 1 ? changed(data.get(steps[0]) || new $.Dict(), steps.slice(1), value) : value);
    return copy;
  };
  globalThis.changedDocument = changes => {
    let data = DOCUMENT;
    for (const [key, value] of changes) {
      const whole = key === "cluster.accelerator" ? ACCELERATORS.get(value) : value;
      data = changed(data, key.split("."), whole);
    }
    return { data, place: () => null };
  };
  const wrong = (control, value) => {
    if (value === null) return control.optional ? null : `${control.key} has no value`;
    if (control.options.length) return null;
    if (!Number.isFinite(value)) return `${control.key} is not a number`;
    const out = control.whole && !Number.isInteger(value) || control.least !== null && value < control.least
      || control.most !== null && value > control.most || control.above !== null && value <= control.above;
    return out ? `${control.key}: ${value} is not allowed` : null;
  };
  const evaluated = changes => {
    const evaluation = planned(changes), values = {}, absent = {}, rough = {}, open = {};
    for (const id in PAGE.quantities) {
      try {
        values[id] = evaluation.value(id);
        if (!Number.isFinite(values[id]) && typeof values[id] !== "string") throw new $.Absent("no finite number");
        if (typeof values[id] !== "string") open[id] = intervalOf(id, values[id], evaluation);
        rough[id] = typeof values[id] !== "string" && !GRAPH.exact(evaluation, evaluation.instance(id, new $.Dict()));
      } catch (error) {
        if (!(error instanceof $.Absent)) throw error;
        delete values[id];
        absent[id] = error.reason;
      }
    }
    return { evaluation, values, absent, rough, open, predicted: null };
  };
  // With an assumed utilisation, the same plan with its time predicted stands beside.
  const besidePrediction = changes => {
    const found = evaluated(changes);
    if (!found.evaluation.case.settings.get("time.assumed")) return found;
    const free = evaluated([...changes, ["time.mfu", null]]);
    return free.values["time.step_seconds"] === undefined ? found : { ...found, predicted: free };
  };

  // The controls.
  const input = control => find(control.id), slider = control => find(control.id + "-slider");
  const LARGE = [["T", 1e12], ["B", 1e9], ["M", 1e6]];
  const textOf = value => {
    const short = typeof value === "number" && LARGE.find(([, one]) => value >= one && value % (one / 1000) === 0);
    return value === null ? "" : short ? String(value / short[1]) + short[0] : String(value);
  };
  const numberOf = text => {
    const large = LARGE.find(([name]) => text.endsWith(name));
    return large && text.length > 1 ? Math.round(Number(text.slice(0, -1)) * large[1]) : Number(text);
  };
  const nearest = (steps, value) => steps.reduce((best, step, i) =>
    Math.abs(Math.log((step || 1e-9) / value)) < Math.abs(Math.log((steps[best] || 1e-9) / value)) ? i : best, 0);
  const place = (control, value) => {
    input(control).value = textOf(value);
    if (!control.options.length && value) slider(control).value = nearest(control.steps, value);
  };
  const read = control => {
    const text = input(control).value.trim();
    if (text === "") return null;
    if (!control.options.length) return numberOf(text);
    return control.options.find(option => String(option) === text);
  };
  const named = (control, value) => {
    const text = value === null ? "null" : String(value) + (control.unit ? ` ${control.unit}` : "");
    return /^[\w.+-]*$/.test(text) ? `${control.key}=${text}` : `'${control.key}=${text}'`;
  };
  const quoted = word => /^[\w.\/=+:-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

  // What is written.
  const make = (name, attributes = {}, text = "") => {
    const element = /^(rect|path)$/.test(name) ? document.createElementNS("http://www.w3.org/2000/svg", name)
      : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };
  const mark = (found, id) => (found.rough[id] ? "~" : "") + shown(found.values[id], id);
  // What published runs leave open, to three digits, and its unit, as report/facts.py has it.
  const bounds = (found, id) => {
    if (!found.open[id]) return ["", ""];
    const [low, high] = found.open[id].map(bound => shown(bound, id));
    const unit = high.includes(" ") ? high.slice(high.indexOf(" ")) : "";
    return low.endsWith(unit) ? [low.slice(0, low.length - unit.length) + " to " + high.slice(0, high.length - unit.length), unit]
      : [`${low} to ${high}`, ""];
  };
  const range = (found, id) => bounds(found, id).join("");
  const withRange = (found, id) => {
    const value = shown(found.values[id], id), [text, unit] = bounds(found, id);
    return text ? `${value} (${text}${value.endsWith(unit) ? "" : unit})` : value;
  };
  // What is predicted of a quantity whose value rests on an assumption; nothing of any other.
  const expected = (found, id) => {
    const value = found.predicted?.values[id];
    if (typeof value !== "number" || typeof found.values[id] !== "number") return "";
    return Math.abs(value - found.values[id]) <= 1e-9 * Math.abs(value) ? "" : withRange(found.predicted, id);
  };
  const write = found => {
    for (const row of document.querySelectorAll("#what-if tr[data-row]")) {
      const id = row.dataset.row, now = row.querySelector(".now");
      const change = row.querySelector(".change"), between = row.querySelector(".between");
      const value = found.values[id], before = PAGE.planned[id];
      row.hidden = value === undefined && before === undefined;
      if (value === undefined) {
        now.textContent = "–"; now.title = found.absent[id]; delete now.dataset.value;
        change.textContent = between.textContent = between.dataset.low = between.dataset.high = "";
        continue;
      }
      now.title = String(value); now.dataset.value = String(value);
      now.textContent = mark(found, id);
      const free = expected(found, id);
      between.textContent = range(found, id) || free && `predicted ${free}`;
      [between.dataset.low, between.dataset.high] = found.open[id] || ["", ""];
      change.textContent = typeof value === "string" || typeof before !== "number"
        ? (value === before ? "" : "new") : change_(value, before);
    }
    verdict(found);
    warning(found);
    for (const id of PAGE.bars) bar(id, found);
    stages(found);
  };
  const change_ = (value, before) => {
    if (Math.abs(value - before) <= 1e-9 * Math.abs(before)) return "";
    if (before === 0) return "new";
    const share = (value - before) / Math.abs(before);
    const text = percent(Math.abs(share));
    return share > 10 ? `× ${significant(value / before)}` : (share > 0 ? "+" : "\u2212") + text;
  };
  const verdict = found => {
    const { values } = found, free = values["memory.headroom"], worst = values["memory.headroom_p95"], parts = [];
    const status = free === undefined ? "unknown" : free < 0 ? "bad" : PAGE.shape ? worst < 0 ? "tight" : "ok" : "unknown";
    const word = { unknown: `Not enough input (memory: ${PAGE.shape ? found.absent["memory.headroom"]?.split(" is not given")[0] : "model shape"} missing)`, ok: "Fits", tight: "Tight", bad: "Does not fit" }[status];
    if (free !== undefined) {
      const size = value => shown(Math.abs(value), "memory.headroom"), all = shown(values["memory.capacity"], "memory.capacity");
      const where = stageEntries(found).length > 1 ? ` (${values["memory.stage"]})` : "";
      parts.push(free < 0 ? `${size(free)} more than the ${all} of a device${where}`
        : status === "unknown" ? `${size(free)} of ${all} free beside the states`
        : `${size(free)} of ${all} free on the fullest device${where}, ${size(worst)} ${worst < 0 ? "too little " : ""}at worst`);
    } else parts.push(`what decides is not stated: ${found.absent["memory.headroom"]}`);
    const told = ["time.training_days", "cost.total"].filter(id => values[id] !== undefined);
    const assumed = !found.evaluation.case.settings.get("time.assumed") ? "" : `at an assumed utilisation of ${shown(values["time.mfu"], "time.mfu")} `;
    told.forEach((id, i) => parts.push((i ? "" : assumed) + withRange(found, id)));
    const beside = told.map(id => expected(found, id)).filter(Boolean);
    beside.forEach((text, i) => parts.push((i ? "" : "predicted are ") + text));
    const box = find("what-if-verdict");
    box.className = `status ${status}`;
    box.querySelector("strong").textContent = word;
    box.querySelector("span").textContent = parts.join("; ");
  };
  // That no published run bears the assumed utilisation out, where none does.
  const warning = ({ values, predicted }) => {
    const id = "time.mfu", open = predicted?.open[id], box = find("what-if-warning");
    const text = open ? warningOf(values[id], open, shown(values[id], id), withRange(predicted, id)) : "";
    box.hidden = !text;
    box.textContent = text && `${text} (${id})`;
  };
  const terms = (id, evaluation) => {
    const none = new $.Dict(), worth = (term, point) => evaluation.compute(term, point);
    let sum = evaluation.chosen.get([id, []])?.expression;
    while (sum && ["ceil", "floor"].includes(sum.op)) sum = sum.args[0];
    try {
      const found = sum?.op === "total"
        ? evaluation.entries(sum.axis, none, sum.where).map(point => [point.get(sum.axis).title, worth(sum.body, point)])
        : (TERMS.get(sum) || []).map(([label, term]) => [label, worth(term, none)]);
      return found.filter(term => term[1] > 0);
    } catch (error) {
      if (error instanceof $.Absent) return [];
      throw error;
    }
  };
  const places = new Map();
  const bar = (id, found) => {
    const figure = document.querySelector(`figure[data-bar="${id}"]`), value = found.values[id];
    const parts = value === undefined ? [] : terms(id, found.evaluation);
    figure.hidden = parts.length === 0;
    if (figure.hidden) return;
    let whole = value, limit = null;
    for (const part of parts) {
      if (!places.has(part[0])) places.set(part[0], places.size % (PAGE.colours - 1));
    }
    const placed = parts.map(([label, size]) => [label, size, places.get(label)]);
    const { "memory.process": process, "memory.capacity": capacity } = found.values;
    if (id === "memory.total" && process !== undefined && capacity !== undefined) {
      placed.push(["cache and context", process - value, PAGE.colours - 1]);
      whole = Math.max(process, capacity);
      if (process > capacity) limit = capacity / whole * 1000;
      else if (capacity > process) placed.push(["free", capacity - process, null]);
    }
    const group = figure.querySelector("g"), legend = figure.querySelector(".legend");
    group.replaceChildren(make("rect", { class: "track", width: 1000, height: 36 }));
    legend.replaceChildren();
    let x = 0;
    for (const [label, size, colour] of placed) {
      const width = size / whole * 1000;
      if (colour !== null) {
        group.append(make("rect", { class: `c${colour}`, x, width, height: 36 }));
        if (colour) group.append(make("rect", { fill: `url(#hatch${colour})`, x, width, height: 36 }));
        group.append(make("path", { class: "edge", d: `M${x + width} 0V36` }));
      }
      x += width;
      const item = make("li");
      item.append(make("span", { class: colour === null ? "swatch track" : `swatch c${colour}` }),
        `${label} ${shown(size, id)}`);
      item.dataset.term = label; item.dataset.value = String(size);
      legend.append(item);
    }
    if (limit !== null) group.append(make("path", { class: "limit", d: `M${limit} 0V36` }));
    figure.querySelector("desc").textContent = placed.map(([label, size]) => `${label} ${shown(size, id)}`).join(", ");
    figure.querySelector(".amount").textContent = `: ${mark(found, id)}`;
  };
  const stageEntries = found => {
    const all = found.evaluation.case.axes.get("stage");
    return Array.isArray(all) ? all : [];
  };
  const stages = found => {
    const figure = document.querySelector("figure[data-stages]"), all = stageEntries(found);
    const capacity = found.values["memory.capacity"];
    figure.hidden = all.length < 2 || found.values["memory.total"] === undefined;
    if (figure.hidden) return;
    const peaks = all.map(stage => found.evaluation.value("memory.peak", new $.Dict([["stage", stage]])));
    const whole = Math.max(capacity || 0, ...peaks);
    figure.querySelector("ul").replaceChildren(...all.map((stage, i) => {
      const item = make("li"), svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      for (const [k, v] of [["viewBox", "0 0 1000 14"], ["preserveAspectRatio", "none"], ["height", "14"], ["aria-hidden", "true"]]) svg.setAttribute(k, v);
      svg.append(make("rect", { class: "track", width: 1000, height: 14 }),
        make("rect", { class: "c0", width: peaks[i] / whole * 1000, height: 14 }));
      item.dataset.stage = stage.name; item.dataset.value = String(peaks[i]);
      item.append(make("span", {}, stage.title), svg, make("span", {}, shown(peaks[i], "memory.total")));
      return item;
    }));
  };

  const update = () => {
    const changes = [], faults = [];
    for (const control of controls) {
      const value = read(control), fault = wrong(control, value);
      const moved = value !== control.value, box = form.querySelector(`[data-key="${control.key}"]`);
      box.classList.toggle("moved", moved);
      box.classList.toggle("wrong", fault !== null);
      input(control).setAttribute("aria-invalid", String(fault !== null));
      if (!control.options.length && value) slider(control).setAttribute("aria-valuetext", textOf(value));
      if (fault !== null) faults.push(fault);
      if (moved) changes.push([control, value]);
    }
    let found = null;
    if (!faults.length) {
      try {
        found = besidePrediction(changes.map(([control, value]) => [control.key, value]));
      } catch (error) {
        if (!(error instanceof $.PlanError)) throw error;
        faults.push(...error.faults.map(String));
      }
    }
    const list = find("what-if-faults");
    list.hidden = faults.length === 0;
    list.replaceChildren(...faults.map(fault => make("li", {}, fault)));
    find("what-if-results").classList.toggle("stale", found === null);
    if (found) write(found);
    const words = changes.map(([control, value]) => named(control, value));
    const kept = PAGE.overrides.filter(text => !changes.some(([control]) => text.startsWith(control.key + "=")));
    find("what-if-command").textContent = ["python plan.py", quoted(PAGE.plan),
      ...kept.map(text => `--set ${quoted(text)}`), ...words.map(text => `--set ${text}`)].join(" ");
    const query = new URLSearchParams(changes.map(([control, value]) => [control.key, textOf(value)]));
    find("what-if-link").href = changes.length ? `#what-if?${query}` : "#what-if";
  };
  const fromAddress = () => {
    const [anchor, query] = location.hash.split("?");
    if (anchor !== "#what-if" || !query) return;
    const asked = new URLSearchParams(query);
    for (const control of controls) {
      place(control, control.value);
      if (asked.has(control.key)) {
        input(control).value = asked.get(control.key);
        const value = read(control);
        if (!control.options.length && value) slider(control).value = nearest(control.steps, value);
      }
    }
    update();
    find("what-if").scrollIntoView();
  };

  // The page trusts itself only if it finds the numbers of the report.
  const own = evaluated([]).values;
  const differs = Object.keys(PAGE.planned).filter(id => typeof PAGE.planned[id] === "string"
    ? own[id] !== PAGE.planned[id]
    : !(Math.abs(own[id] - PAGE.planned[id]) <= 1e-9 * Math.abs(PAGE.planned[id])));
  if (differs.length) {
    const box = find("what-if-broken");
    box.hidden = false;
    box.textContent = `This page could not reproduce ${differs.join(", ")} and stays as it is.`;
    return;
  }
  for (const fieldset of form.querySelectorAll("fieldset")) fieldset.disabled = false;
  for (const control of controls) {
    place(control, control.value);
    input(control).addEventListener("input", () => {
      const value = read(control);
      if (!control.options.length && value) slider(control).value = nearest(control.steps, value);
      update();
    });
    if (!control.options.length) slider(control).addEventListener("input", () => {
      input(control).value = textOf(control.steps[Number(slider(control).value)]);
      update();
    });
  }
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("reset", event => {
    event.preventDefault();
    for (const control of controls) place(control, control.value);
    update();
  });
  addEventListener("hashchange", fromAddress);
  update();
  fromAddress();
})();
