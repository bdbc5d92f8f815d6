// A graph worked out in doubles: the operations of planner/engine/run.py. A node that has no value
// is an Absent with its reason, as is all that rests on it.
const GRAPH = (() => {
  const LEAVES = new Set(["const", "input", "name", "absent", "is", "present"]);
  // Values that are equal but for rounding are equal: the first of them is the largest.
  const largest = values => values.reduce((best, value, i) =>
    value > values[best] + 1e-13 * Math.abs(values[best]) ? i : best, 0);
  // Rounding errors of a double must not lift a whole number to the next one.
  const rounded = (value, round) => {
    const whole = Math.round(value);
    return Math.abs(value - whole) <= 4e-15 * Math.abs(value) + 1e-12 ? whole : round(value);
  };
  const lacks = reason => { throw new $.Absent(reason); };
  const OPERATIONS = {
    quantity: value => value,
    add: (...terms) => terms.reduce((sum, term) => sum + term, 0),
    mul: (...factors) => factors.reduce((product, factor) => product * factor, 1),
    div: (above, below) => below === 0 ? lacks("division by zero") : above / below,
    pow: (base, exponent) => base === 0 && exponent < 0 ? lacks("division by zero") : base ** exponent,
    exp: value => [0, Infinity].includes(Math.exp(value)) ? lacks("a power of e in it is beyond all numbers") : Math.exp(value),
    tanh: Math.tanh,
    log: value => value > 0 ? Math.log(value) : lacks("there is no logarithm of what is not above 0"),
    max: Math.max,
    min: Math.min,
    ceil: value => rounded(value, Math.ceil),
    floor: value => rounded(value, Math.floor),
    pick: (...pairs) => pairs[2 * largest(pairs.filter((_, i) => i % 2 === 0)) + 1],
    which: (...values) => values.pop()[largest(values)],
  };
  // The arguments that an operation uses: a divisor first, of bodies the one that is picked.
  const used = ([operation, given], values) => {
    if (operation === "div") return [given[1], given[0]];
    if (operation !== "pick") return given;
    const by = given.filter((_, i) => i % 2 === 0), compared = by.map(place => values[place]);
    return compared.some(value => value instanceof $.Absent) ? by : [...by, given[2 * largest(compared) + 1]];
  };
  const worth = (node, values, input) => {
    const [operation, given] = node;
    if (operation === "absent") return new $.Absent(given[0]);
    if (LEAVES.has(operation)) return operation === "input" ? input() : given[0];
    const held = given.map(place => values[place]);
    if (!held.some(value => value instanceof $.Absent)) return OPERATIONS[operation](...held);
    const lacking = used(node, values).find(place => values[place] instanceof $.Absent);
    return lacking === undefined ? OPERATIONS[operation](...held) : values[lacking];
  };
  const run = (graph, places, values, input, checked) => {
    for (const place of places) {
      const node = graph.nodes[place];
      let value;
      try {
        value = worth(node, values, () => input(place));
        if (typeof value === "number" && !Number.isFinite(value)) lacks("its numbers are beyond those of a double");
        if (node[0] === "quantity") value = checked(graph.nodes[node[1][1]][1][0], value);
      } catch (absent) {
        if (!(absent instanceof $.Absent)) throw absent;
        value = absent;
      }
      values[place] = value;
    }
  };
  // Whether arithmetic alone gives a quantity, from choices and from facts with a source.
  const exact = (evaluation, place, known = new Map()) => {
    if (!known.has(place)) {
      const { graph, values } = evaluation, node = graph.nodes[place], [operation, given] = node;
      known.set(place, operation === "input" ? !evaluation.case.kinds.has(given[0])
        : LEAVES.has(operation) || used(node, values).every(below => exact(evaluation, below, known))
          && (operation !== "quantity" || evaluation.chosen.get(graph.nodes[given[1]][1][0]).exact));
    }
    return known.get(place);
  };
  return { run, exact };
})();
