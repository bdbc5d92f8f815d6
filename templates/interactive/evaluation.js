// The entries of the model: the report's own, with the counts and the values of a changed shape.
// A change of numbers keeps their kinds; one that does not is left to the planner.
const modelAxes = model => {
  if (typeof AXES === "undefined" || !AXES.part) return new $.Dict();
  const names = parts => parts.map(part => [part.name, ...part.blocks.map(block => block.name)].join()).join(";");
  const own = AXES.part.map(part => ({
    name: part.name, blocks: AXES.block.filter(block => block.parent === part),
  }));
  if (names(model.parts) !== names(own)) {
    throw new $.PlanError([new $.Fault("the layers of this shape are of other kinds: plan.py computes it")]);
  }
  const made = new Map(), blocks = model.parts.flatMap(part => part.blocks);
  const again = (one, title, bindings, settings) => {
    const entry = ENTRY(one.axis, one.name, title, made.get(one.parent) || null, bindings, settings);
    made.set(one, entry);
    return entry;
  };
  const part = AXES.part.map((one, i) =>
    again(one, model.parts[i].title, new $.Dict([[$.sym("L_k"), model.parts[i].count]]), one.settings));
  const block = AXES.block.map((one, i) => {
    const { kind, values } = blocks[i];
    const bound = OF_BLOCKS.filter(([, of, key]) => of === kind && (values.get(key) ?? null) !== null)
      .map(([name, , key]) => [$.sym(name), values.get(key)]);
    const said = [...values.items()].map(([key, value]) => ["block." + key, value]);
    return again(one, one.title, new $.Dict(bound), new $.Dict([...one.settings.items(), ...said]));
  });
  const kept = one => again(one, one.title, one.bindings, one.settings);
  const component = AXES.component.map(kept);
  AXES.now = AXES.product.map(kept);
  return new $.Dict([["part", part], ["block", block], ["component", component]]);
};
const productAxis = () => AXES.now || [];

// Evaluates quantities on demand, as planner/engine/evaluate.py does, with doubles in the place of exact
// numbers. A point names one entry of each axis; symbols are looked up in it, then in the plan.
class Evaluation {
  constructor(found) {
    this.case = found;
    this.memory = new Map();
    this.exact = true; // whether all that was used so far is exact, and not an estimate
    this.index = new Map();
  }
  value(id, point) {
    const quantity = BOOK[id];
    const key = id + "|" + quantity.per.map(axis => $.key(point[axis])).join();
    let found = this.memory.get(key);
    if (found === undefined) {
      const own = {}, outer = this.exact;
      for (const axis of quantity.per) own[axis] = point[axis];
      found = {};
      try {
        found.value = this.compute(quantity, widen(own));
      } catch (absent) {
        if (!(absent instanceof $.Absent)) throw absent;
        found.value = absent;
      }
      found.exact = this.exact;
      this.exact = outer;
      this.memory.set(key, found);
    }
    this.exact &&= found.exact;
    if (found.value instanceof $.Absent) throw found.value;
    return found.value;
  }
  compute(quantity, point) {
    const formula = this.formula(quantity, point);
    this.exact = formula.exact; // until something that it rests on is an estimate
    return formula.run(this, point);
  }
  isExact(id) {
    this.exact = true;
    this.value(id, {});
    return this.exact;
  }
  formula(quantity, point) {
    for (const formula of quantity.formulas) {
      if (formula.when.every(([key, wanted]) => $.in(this.setting(key, point), wanted))) return formula;
    }
    throw new $.Absent("the book has no formula for this combination of choices");
  }
  setting(name, point) {
    for (const axis in point) if (point[axis].settings.has(name)) return point[axis].settings.get(name);
    return this.case.settings.get(name);
  }
  symbol(name, point) {
    if (name in BOOK) return this.value(name, point);
    const value = this.bound(name, point);
    if (this.case.kinds.has($.sym(name))) this.exact = false;
    if (value instanceof $.Absent) throw value;
    return $.run(value, this, point);
  }
  bound(name, point) {
    const symbol = $.sym(name);
    for (const axis in point) if (point[axis].bindings.has(symbol)) return point[axis].bindings.get(symbol);
    const per = CROSSED[name];
    if (per) {
      const key = [symbol, point[per[0]], point[per[1]]];
      if (this.case.crossed.has(key)) return this.case.crossed.get(key);
    }
    return this.case.bindings.has(symbol) ? this.case.bindings.get(symbol)
      : new $.Absent(`${name} is not given`);
  }
  entries(axis, where, point) {
    const all = this.case.axes.get(axis), found = [];
    if (all instanceof $.Absent) throw all;
    for (const below of this.below(axis, all, point)) {
      if (Object.keys(below).some(a => point[a] && point[a] !== below[a])) continue;
      const merged = { ...point, ...below };
      if (Object.keys(where).every(k => $.str(this.setting(k, merged)) === where[k])) found.push(merged);
    }
    return found;
  }
  below(axis, all, point) {
    let index = this.index.get(axis);
    if (!index) {
      this.index.set(axis, index = new Map([[null, []]]));
      for (const entry of all) {
        const lineage = {};
        for (const e of entry.lineage()) lineage[e.axis] = e;
        for (const above of [null, ...Object.values(lineage)]) {
          if (!index.has(above)) index.set(above, []);
          index.get(above).push(lineage);
        }
      }
    }
    const every = index.get(null);
    let best = every;
    for (const a in point) {
      if (every.length && a in every[0]) {
        const list = index.get(point[a]) || [];
        if (list.length < best.length) best = list;
      }
    }
    return best;
  }
  total(axis, where, point, body) {
    let sum = 0;
    for (const below of this.entries(axis, where, point)) sum += body(below);
    return sum;
  }
  peak(axis, where, point, by) {
    let best = null;
    for (const below of this.entries(axis, where, point)) {
      const value = by(below);
      // Values that are equal but for rounding are equal: the first of them counts.
      if (best === null || value > best[1] + 1e-13 * Math.abs(best[1])) best = [below, value];
    }
    if (best === null) throw new $.Absent(`there is no ${axis}`);
    return best;
  }
  largest(axis, where, point, body) { return this.peak(axis, where, point, body)[1]; }
  atLargest(axis, where, point, body, by) { return body(this.peak(axis, where, point, by)[0]); }
  which(axis, where, point, body) { return this.peak(axis, where, point, body)[0][axis].title; }
}
function widen(point) {
  const wide = {};
  for (const axis in point) for (const entry of point[axis].lineage()) wide[entry.axis] ??= entry;
  return wide;
}
