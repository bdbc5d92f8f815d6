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
  // What is never thrown here: a missing key is undefined, a number over zero no number.
  class Never extends Error {}

  // Expressions, as planner/book/expressions.py has them.
  class Tree {
    constructor(op, args, data = null) { this.op = op; this.args = args; this.data = data; }
    get name() { return this.data; }
    get symbol() { return this; }
    get body() { return this.args[0]; }
    get by() { return this.args[1]; }
    get axis() { return this.data[0]; }
    get where() { return kept(this, "where", () => new Dict(this.data[1])); }
  }
  const trees = nodes => {
    const found = [];
    for (const [op, places, data] of nodes) found.push(new Tree(op, places.map(place => found[place]), data));
    return found;
  };
  const tree = value => value instanceof Tree ? value : new Tree("number", [], value);
  const operation = (op, ...given) => new Tree(op, given.map(tree));
  // Python's operators, of numbers or of expressions.
  const operator = (numbers, trees) => (a, b) => a instanceof Tree || b instanceof Tree ? trees(a, b) : numbers(a, b);
  const kept = (owner, name, make) => {
    const value = make();
    Object.defineProperty(owner, name, { value });
    return value;
  };
  // What a Map finds a key by: itself, what is equal to it, or of a tuple its parts in one text.
  const numbers = new WeakMap();
  let objects = 0;
  const key = value => {
    if (Array.isArray(value)) {
      let text = "\u0000";
      for (const each of value) text += part(each) + ",";
      return text;
    }
    return typeof value === "boolean" ? Number(value) : value === undefined ? null : value;
  };
  const part = value => {
    if (typeof value === "number") return value;
    if (Array.isArray(value)) return `(${key(value)})`;
    if (typeof value !== "object" || value === null) return typeof value + value;
    if (!numbers.has(value)) numbers.set(value, ++objects);
    return "o" + numbers.get(value);
  };
  class Dict {
    constructor(pairs = []) {
      this.held = new Map();
      for (const [k, v] of pairs) this.put(k, v);
    }
    put(k, v) { this.held.set(key(k), [k, v]); }
    has(k) { return this.held.has(key(k)); }
    get(k, otherwise = null) { const found = this.held.get(key(k)); return found ? found[1] : otherwise; }
    items() { return [...this.held.values()]; }
    keys() { return Array.from(this.held.values(), pair => pair[0]); }
    values() { return Array.from(this.held.values(), pair => pair[1]); }
    setdefault(k, v = null) { if (!this.has(k)) this.put(k, v); return this.get(k); }
    update(other) { for (const [k, v] of pairs(other)) this.put(k, v); }
    pop(k, otherwise = null) { const v = this.get(k, otherwise); this.held.delete(key(k)); return v; }
  }
  class Set_ {
    constructor(values = []) { this.held = new Map(); for (const v of values) this.add(v); }
    add(v) { this.held.set(key(v), v); }
    has(v) { return this.held.has(key(v)); }
    isdisjoint(other) { return !list(other).some(v => this.has(v)); }
    intersection(other) { return new Set_(this.items().filter(v => within(v, other))); }
    discard(v) { this.held.delete(key(v)); }
    union(...many) { const all = new Set_(this.items()); all.update(...many); return all; }
    update(...many) { for (const values of many) for (const v of each(values)) this.add(v); }
    items() { return [...this.held.values()]; }
  }
  const each = value => value instanceof Dict ? value.keys()
    : value instanceof Set_ ? value.items() : value;
  const list = value => [...each(value)];
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
    if (typeof k === "function") return k(all);
    if (all instanceof Dict) {
      if (!all.has(k)) throw new Error(`no ${k}`);
      return all.get(k);
    }
    return all.at(k);
  };
  const put = (all, k, v) => { if (all instanceof Dict) all.put(k, v); else all[k < 0 ? all.length + k : k] = v; };
  const text = value => value === null || value === undefined ? "None"
    : value === true ? "True" : value === false ? "False" : String(value);
  const less = (a, b) => {
    if (!Array.isArray(a)) return a < b;
    const at = a.findIndex((v, i) => !eq(v, b[i]));
    return at >= 0 && less(a[at], b[at]);
  };
  class Named { constructor(values) { Object.assign(this, values); } }
  const extreme = better => (...given) => {
    const named = given.at(-1) instanceof Named ? given.pop() : {};
    const all = given.length === 1 ? list(given[0]) : given, by = named.key || (v => v);
    if (!all.length) return "default" in named ? named.default : undefined;
    return all.reduce((best, v) => better(by(v), by(best)) ? v : best);
  };
  const methods = {
    list: {
      append: (all, v) => { all.push(v); }, extend: (all, more) => { all.push(...each(more)); },
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
      rpartition: (s, by) => {
        const i = s.lastIndexOf(by);
        return i < 0 ? ["", "", s] : [s.slice(0, i), by, s.slice(i + by.length)];
      },
      removeprefix: (s, start) => s.startsWith(start) ? s.slice(start.length) : s,
      removesuffix: (s, end) => end && s.endsWith(end) ? s.slice(0, -end.length) : s,
      format: (s, ...given) => {
        let next = 0;
        return s.replace(/\{(\d*)\}/g, (_, i) => text(given[i === "" ? next++ : Number(i)]));
      },
      isdigit: s => /^\d+$/.test(s), split: (s, by) => s.split(by), lower: s => s.toLowerCase(), upper: s => s.toUpperCase(),
    },
  };
  const library = {
    Fault, PlanError, Absent, Never, Tree, Dict, Set_, trees, operation, key, each, list, pairs, bool, eq, at,
    put, kept, str: text, in: within, tuple: list, sorted: all => list(all).sort((a, b) => less(a, b) ? -1 : less(b, a) ? 1 : 0),
    named: pairs => new Named(Object.fromEntries(pairs)),
    is: (a, b) => (a === undefined ? null : a) === (b === undefined ? null : b),
    or: (...all) => { let v; for (const f of all) { v = f(); if (bool(v)) return v; } return v; },
    and: (...all) => { let v; for (const f of all) { v = f(); if (!bool(v)) return v; } return v; },
    slice: (a, b, step) => all => all.slice(a === null ? 0 : a, b === null ? undefined : b)
      .filter((_, i) => i % (step || 1) === 0),
    place: (all, k) => ({ set value(v) { put(all, k, v); } }),
    add: operator((a, b) => Array.isArray(a) ? [...a, ...each(b)] : a + b, (a, b) => operation("add", a, b)),
    sub: operator((a, b) => a - b, (a, b) => operation("add", a, operation("mul", -1, b))),
    mul: operator((a, b) => Array.isArray(a) ? Array.from({ length: Math.max(b, 0) * a.length }, (_, i) => a[i % a.length])
      : a * b, (a, b) => operation("mul", a, b)),
    div: operator((a, b) => a / b, (a, b) => operation("mul", a, operation("pow", b, -1))),
    pow: (a, b) => a ** b,
    divmod: (a, b) => [Math.floor(a / b), a - b * Math.floor(a / b)],
    floordiv: (a, b) => Math.floor(a / b), mod: (a, b) => a - b * Math.floor(a / b),
    union: (a, b) => a instanceof Dict ? new Dict([...a.items(), ...pairs(b)])
      : new Set_([...each(a), ...each(b)]),
    difference: (a, b) => new Set_([...list(a).filter(v => !within(v, b)), ...list(b).filter(v => !within(v, a))]),
    // What += does: a list stays the one that it is.
    grown: (a, b) => {
      if (!Array.isArray(a)) return a + b;
      for (const v of each(b)) a.push(v);
      return a;
    },
    UNKNOWN: Object.freeze({}),
    intersection: (a, b) => new Set_(list(a).filter(v => within(v, b))),
    call: (owner, name, given) => {
      const table = Array.isArray(owner) ? methods.list : typeof owner === "string" ? methods.string : null;
      if (table && table[name]) return table[name](owner, ...given);
      if (owner !== null && owner !== undefined && typeof owner[name] === "function") return owner[name](...given);
      throw new Error(`no method ${name}`);
    },
    // The arguments of a call by position, those by name in their places; the last takes the others.
    ordered: (names, given, pairs) => {
      const held = new Dict(pairs), all = [...given];
      for (const name of names.slice(given.length)) if (held.has(name)) all[names.indexOf(name)] = held.pop(name);
      if (held.held.size) all[names.length - 1] = held;
      return all;
    },
    replace: (value, changes) => Object.assign(Object.create(Object.getPrototypeOf(value)), value, changes),
    // What functions of the planner read from files, by an argument; of a document by its name.
    table: found => given => given === undefined ? found : at(found, given instanceof Dict ? given.get("name") : given),
    book: (type, quantities, notes) => Object.assign(Object.create(type.prototype), {
      quantities: new Dict(quantities.map(each => [each.id, each])),
      notation: new Dict(notes.map(each => [each.symbol, each])),
      symbols: new Dict(quantities.map(each => [each.symbol, each.id])),
    }),
    row: (type, names) => (...given) => names.reduce((made, name, i) =>
      Object.defineProperty(made, name, { value: given[i] }), Object.create(type.prototype)),
    dict: Object.assign(value => new Dict(value === undefined ? [] : pairs(value)), {
      fromkeys: (keys, value = null) => new Dict(list(keys).map(k => [k, value])),
    }),
    set: Object.assign(value => new Set_(value === undefined ? [] : each(value)), {
      intersection: (first, ...others) => new Set_(list(first).filter(v => others.every(other => other.has(v)))),
    }),
    frozenset: value => new Set_(value === undefined ? [] : each(value)),
    len: value => value instanceof Dict || value instanceof Set_ ? value.held.size : value.length,
    range: (a, b, step = 1) => {
      const [start, stop] = b === undefined ? [0, a] : [a, b], all = [];
      for (let i = start; step > 0 ? i < stop : i > stop; i += step) all.push(i);
      return all;
    },
    sum: (all, start = 0) => list(all).reduce((total, v) => total + Number(v), start),
    min: extreme(less), max: extreme((a, b) => less(b, a)),
    any: all => list(all).some(bool), all: all => list(all).every(bool),
    map: (f, ...all) => list(all[0]).map((v, i) => f(v, ...all.slice(1).map(more => list(more)[i]))),
    enumerate: (all, start = 0) => list(all).map((v, i) => [i + start, v]),
    zip: (...all) => {
      if (all.at(-1) instanceof Named) all.pop();
      const lists = all.map(list);
      return lists[0].slice(0, Math.min(...lists.map(l => l.length))).map((_, i) => lists.map(l => l[i]));
    },
    reversed: all => list(all).reverse(),
    iter: all => list(all)[Symbol.iterator](),
    next: (all, otherwise) => {
      const { value, done } = (Array.isArray(all) ? all[Symbol.iterator]() : all).next();
      if (done && otherwise === undefined) throw new Error("nothing is left");
      return done ? otherwise : value;
    },
    accumulate: all => { let total = 0; return list(all).map(v => total += v); },
    format: (value, how) => how === null ? text(value)
      : how === "r" ? (typeof value === "string" ? `'${value}'` : text(value))
      : String(Number(value.toPrecision(Number(how.match(/^\.(\d+)g$/)[1])))),
    type: value => value !== null && typeof value === "object" ? value.constructor : null,
    float: Number, int: v => Math.trunc(Number(v)), abs: Math.abs, round: x => { const low = Math.floor(x); return x - low === 0.5 ? low + low % 2 : Math.round(x); }, ratio: (a, b = 1) => a / b,
  };
  const whole = Number.isInteger, kinds = new Map([
    [library.dict, v => v instanceof Dict], [library.set, v => v instanceof Set_],
    [library.frozenset, v => v instanceof Set_], [library.list, Array.isArray],
    [library.str, v => typeof v === "string"], [library.bool, v => typeof v === "boolean"],
    [library.int, v => whole(v) || typeof v === "boolean"], [library.float, v => false],
    [library.ratio, v => typeof v === "number" && !whole(v)],
  ]);
  library.isinstance = (value, type) => Array.isArray(type) ? type.some(each => library.isinstance(value, each))
    : kinds.has(type) ? kinds.get(type)(value) : value instanceof type;
  return library;
})();
