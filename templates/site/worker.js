// A web worker that runs the planner's Python package under Pyodide and answers as a server does.

let ready = null;

/** The bytes of a file beside the page. */
async function bytes(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address}: ${response.status}`);
  return response.arrayBuffer();
}

/** Load Pyodide and the package; the result answers a request. */
async function begin({ pyodide: from, packages }) {
  const archive = bytes(packages.planner);
  archive.catch(() => {}); // awaited below
  const { loadPyodide } = await import(`${from}pyodide.mjs`);
  const pyodide = await loadPyodide({ indexURL: from });
  pyodide.unpackArchive(await archive, "zip", { extractDir: "/planner" });
  const python = pyodide.runPython(`
import gc, sys
gc.disable()
sys.path.insert(0, "/planner")
sys.dont_write_bytecode = True
from planner.serve import browser
browser.begin()
browser`);
  const tried = new Set();

  /** Load a package that an answer turned out to need; whether it may be there now. */
  async function load(name) {
    if (tried.has(name)) return false;
    tried.add(name);
    try {
      if (packages[name]) pyodide.unpackArchive(await bytes(packages[name]), "zip", { extractDir: "/planner" });
      else await pyodide.loadPackage(name);
    } catch (error) {
      console.warn(String(error));
    }
    pyodide.runPython("import importlib; importlib.invalidate_caches()");
    return true;
  }

  return async (address, body, hear) => {
    for (;;) {
      try {
        return listed(python.answer(address, body, hear));
      } catch (error) {
        const [, name] = /^ModuleNotFoundError: No module named '(\w+)/m.exec(error.message) ?? [];
        if (!name) throw error;
        if (!(await load(name))) return listed(python.report_missing(name));
      }
    }
  };
}

/** A tuple of Python as an array. */
function listed(tuple) {
  const made = tuple.toJs();
  tuple.destroy();
  return made;
}

onmessage = async ({ data }) => {
  ready ??= begin(data);
  const { number, address, body } = data;
  try {
    const answer = await ready;
    const [status, text] = await answer(address, body, (line) => postMessage({ number, line }));
    postMessage({ number, status, text });
  } catch (error) {
    postMessage({ number, failed: String(error?.message ?? error).trim().split("\n").pop() });
  }
};
