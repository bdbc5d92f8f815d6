// What means something else in Python: truth, equality by value, dictionaries with any key.
// The rules of a plan (translated from planner/*.py) lean on this and on nothing else.
const $ = (() => {
  class Fault {
    constructor(message, place, allowed) { this.message = message; this.allowed = allowed; }
    toString() { return this.message + (this.allowed ? ` (${this.allowed})` : ""); }
  }
  class PlanError extends Error {
    constructor(faults) {
      const all = Array.isArray(faults) ? faults : [faults];
      super(all.join("\n"));
      this.faults = all;
    }
  }
  class Absent extends Error {
    constructor(reason) { super(reason); this.reason = reason; }
  }
  class Sym { constructor(name) { this.name = name; } }
  class Expression { constructor(run) { this.run = run; } }

  const symbols = new Map();
  const sym = name => symbols.get(name) || (symbols.set(name, new Sym(name)), symbols.get(name));
  const numbers = new WeakMap();
  let objects = 0;
  const key = value => {
    if (value === null || value === undefined) return "N";
    switch (typeof value) {
      case "string": return "s" + value;
      case "number": return "n" + value;
      case "boolean": return "n" + Number(value);
    }
    if (value instanceof Sym) return "y" + value.name;
    if (Array.isArray(value)) return `(${value.map(key).join()})`;
    if (!numbers.has(value)) numbers.set(value, ++objects);
    return "o" + numbers.get(value);
  };
  class Dict {
    constructor(pairs = []) {
      this.held = new Map();
      for (const [k, v] of pairs) this.put(k, v);
    }
    put(k, v) {
      const found = this.held.get(key(k));
      if (found) found[1] = v; else this.held.set(key(k), [k, v]);
    }
    has(k) { return this.held.has(key(k)); }
    get(k, otherwise = null) { const found = this.held.get(key(k)); return found ? found[1] : otherwise; }
    items() { return [...this.held.values()].map(pair => [...pair]); }
    keys() { return [...this.held.values()].map(pair => pair[0]); }
    values() { return [...this.held.values()].map(pair => pair[1]); }
    setdefault(k, v = null) { if (!this.has(k)) this.put(k, v); return this.get(k); }
    update(other) { for (const [k, v] of pairs(other)) this.put(k, v); }
    pop(k, otherwise = null) { const v = this.get(k, otherwise); this.held.delete(key(k)); return v; }
  }
  class Set_ {
    constructor(values = []) { this.held = new Map(); for (const v of values) this.add(v); }
    add(v) { this.held.set(key(v), v); }
    has(v) { return this.held.has(key(v)); }
    update(...many) { for (const values of many) for (const v of iter(values)) this.add(v); }
    items() { return [...this.held.values()]; }
  }
  const iter = value => value instanceof Dict ? value.keys()
    : value instanceof Set_ ? value.items() : value;
  const list = value => [...iter(value)];
  const pairs = value => value instanceof Dict ? value.items() : list(value).map(list);
  const bool = value => {
    if (value === null || value === undefined) return false;
    if (Array.isArray(value)) return value.length > 0;
    if (value instanceof Dict || value instanceof Set_) return value.held.size > 0;
    return typeof value === "object" || typeof value === "function" ? true : Boolean(value);
  };
  const eq = (a, b) => {
    a = a === undefined ? null : a; b = b === undefined ? null : b;
    if (typeof a === "boolean") a = Number(a);
    if (typeof b === "boolean") b = Number(b);
    if (a === b) return true;
    if (Array.isArray(a) && Array.isArray(b)) {
      return a.length === b.length && a.every((v, i) => eq(v, b[i]));
    }
    if (a instanceof Dict && b instanceof Dict) {
      return a.held.size === b.held.size && a.items().every(([k, v]) => b.has(k) && eq(v, b.get(k)));
    }
    return false;
  };
  const within = (value, all) => typeof all === "string" ? all.includes(value)
    : all instanceof Dict || all instanceof Set_ ? all.has(value) : all.some(v => eq(v, value));
  const at = (all, k) => {
    if (all instanceof Dict) {
      if (!all.has(k)) throw new Error(`no ${k}`);
      return all.get(k);
    }
    return all.at(k);
  };
  const put = (all, k, v) => { if (all instanceof Dict) all.put(k, v); else all[k < 0 ? all.length + k : k] = v; };
  const text = value => value === null || value === undefined ? "None"
    : value === true ? "True" : value === false ? "False" : String(value);
  const run = (value, e, p) => value instanceof Sym ? e.symbol(value.name, p)
    : value instanceof Expression ? value.run(e, p) : value;
  const formula = value => value instanceof Sym || value instanceof Expression;
  class Named { constructor(values) { Object.assign(this, values); } }
  const extreme = better => (...given) => {
    const named = given.at(-1) instanceof Named ? given.pop() : {};
    const all = given.length === 1 ? list(given[0]) : given, by = named.key || (v => v);
    if (!all.length) return "default" in named ? named.default : undefined;
    return all.reduce((best, v) => better(by(v), by(best)) ? v : best);
  };
  const methods = {
    list: {
      append: (all, v) => { all.push(v); }, extend: (all, more) => { all.push(...iter(more)); },
      insert: (all, at, v) => { all.splice(at, 0, v); },
      index: (all, v) => all.findIndex(w => eq(w, v)),
      count: (all, v) => all.filter(w => eq(w, v)).length,
    },
    string: {
      startswith: (s, start) => [start].flat().some(t => s.startsWith(t)),
      endswith: (s, end) => [end].flat().some(t => s.endsWith(t)),
      join: (s, parts) => list(parts).join(s), replace: (s, a, b) => s.replaceAll(a, b),
      partition: (s, by) => {
        const i = s.indexOf(by);
        return i < 0 ? [s, "", ""] : [s.slice(0, i), by, s.slice(i + by.length)];
      },
      removeprefix: (s, start) => s.startsWith(start) ? s.slice(start.length) : s,
      removesuffix: (s, end) => end && s.endsWith(end) ? s.slice(0, -end.length) : s,
      format: (s, ...given) => {
        let next = 0;
        return s.replace(/\{(\d*)\}/g, (_, i) => text(given[i === "" ? next++ : Number(i)]));
      },
      split: (s, by) => s.split(by), lower: s => s.toLowerCase(), upper: s => s.toUpperCase(),
    },
  };
  const kinds = {
    Mapping: v => v instanceof Dict, dict: v => v instanceof Dict, list: Array.isArray,
    tuple: Array.isArray, str: v => typeof v === "string", bool: v => typeof v === "boolean",
    int: v => typeof v === "number" && Number.isInteger(v) || typeof v === "boolean",
    float: v => false, Fraction: v => typeof v === "number" && !Number.isInteger(v),
    Absent: v => v instanceof Absent,
  };
  // Rounding errors of a double must not lift a whole number to the next one.
  const settled = x => {
    const whole = Math.round(x);
    return Math.abs(x - whole) <= 4e-15 * Math.abs(x) + 1e-12 ? whole : null;
  };
  return {
    Fault, PlanError, Absent, Sym, Expression, Dict, Set_, sym, key, iter, list, pairs, bool, eq, at,
    put, run, str: text, repr: v => typeof v === "string" ? `'${v}'` : text(v), in: within, tuple: list, sorted: all => list(all).sort((a, b) => a < b ? -1 : a > b ? 1 : 0),
    expr: f => new Expression(f),
    named: values => new Named(values),
    is: (a, b) => (a === undefined ? null : a) === (b === undefined ? null : b),
    or: (...all) => { let v; for (const f of all) { v = f(); if (bool(v)) return v; } return v; },
    and: (...all) => { let v; for (const f of all) { v = f(); if (!bool(v)) return v; } return v; },
    slice: (all, a, b) => all.slice(a === null ? 0 : a, b === null ? undefined : b),
    add: (a, b) => Array.isArray(a) ? [...a, ...iter(b)] : a + b,
    mul: (a, b) => formula(a) || formula(b) ? new Expression((e, p) => run(a, e, p) * run(b, e, p))
      : Array.isArray(a) ? Array.from({ length: b * a.length }, (_, i) => a[i % a.length])
      : a * b,
    divmod: (a, b) => [Math.floor(a / b), a - b * Math.floor(a / b)],
    floordiv: (a, b) => Math.floor(a / b), mod: (a, b) => a - b * Math.floor(a / b),
    union: (a, b) => a instanceof Dict ? new Dict([...a.items(), ...pairs(b)])
      : new Set_([...iter(a), ...iter(b)]),
    intersection: (a, b) => new Set_(list(a).filter(v => within(v, b))),
    call: (owner, name, given) => {
      const table = Array.isArray(owner) ? methods.list : typeof owner === "string" ? methods.string : null;
      if (table && table[name]) return table[name](owner, ...given);
      if (owner !== null && owner !== undefined && typeof owner[name] === "function") return owner[name](...given);
      throw new Error(`no method ${name}`);
    },
    isinstance: (value, names) => names.some(name => {
      if (!(name in kinds)) throw new Error(`no type ${name}`);
      return kinds[name](value);
    }),
    dict: Object.assign(value => new Dict(value === undefined ? [] : pairs(value)), {
      fromkeys: (keys, value = null) => new Dict(list(keys).map(k => [k, value])),
    }),
    set: value => new Set_(value === undefined ? [] : iter(value)),
    frozenset: value => new Set_(value === undefined ? [] : iter(value)),
    len: value => value instanceof Dict || value instanceof Set_ ? value.held.size : value.length,
    range: (a, b, step = 1) => {
      const [start, stop] = b === undefined ? [0, a] : [a, b], all = [];
      for (let i = start; step > 0 ? i < stop : i > stop; i += step) all.push(i);
      return all;
    },
    sum: (all, start = 0) => list(all).reduce((total, v) => total + Number(v), start),
    min: extreme((a, b) => a < b), max: extreme((a, b) => a > b),
    any: all => list(all).some(bool), all: all => list(all).every(bool),
    map: (f, ...all) => list(all[0]).map((v, i) => f(v, ...all.slice(1).map(more => list(more)[i]))),
    enumerate: (all, start = 0) => list(all).map((v, i) => [i + start, v]),
    zip: (...all) => {
      if (all.at(-1) instanceof Named) all.pop();
      const lists = all.map(list);
      return lists[0].slice(0, Math.min(...lists.map(l => l.length))).map((_, i) => lists.map(l => l[i]));
    },
    reversed: all => list(all).reverse(),
    iterator: all => list(all)[Symbol.iterator](),
    next: (all, otherwise) => {
      const { value, done } = (Array.isArray(all) ? all[Symbol.iterator]() : all).next();
      if (done && otherwise === undefined) throw new Error("nothing is left");
      return done ? otherwise : value;
    },
    accumulate: all => { let total = 0; return list(all).map(v => total += v); },
    int: v => Math.trunc(Number(v)), abs: Math.abs, round: x => { const low = Math.floor(x); return x - low === 0.5 ? low + low % 2 : Math.round(x); }, ratio: (a, b = 1) => a / b,
    ceil: x => { const whole = settled(x); return whole === null ? Math.ceil(x) : whole; },
    floor: x => { const whole = settled(x); return whole === null ? Math.floor(x) : whole; },
    exp: x => { const power = Math.exp(x); if (!power || power === Infinity) throw new Absent(`e to the power of ${x.toFixed(0)} is beyond all numbers`); return power; },
    nonzero: x => { if (x === 0) throw new Absent("division by zero"); return x; },
  };
})();
