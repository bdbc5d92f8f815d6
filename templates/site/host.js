// What the page asks of a server is answered in the browser: requests go to web workers that run
// the planner, at the same addresses and with the same bodies as over HTTP.

const { pyodide, planner, sympy } = document.querySelector("script[data-pyodide]").dataset;
const from = Object.fromEntries(
  Object.entries({ pyodide, planner, sympy }).map(([name, path]) => [name, new URL(path, document.baseURI).href]),
);
const beside = new URL(".", document.baseURI).pathname;

/** A worker, begun with its first request. It answers one request after another. */
class Host {
  asked = new Map(); // by number: what is done with each message
  number = 0;

  begin() {
    const made = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    made.onmessage = ({ data }) => this.asked.get(data.number)?.(data);
    made.onerror = (event) => {
      for (const heard of [...this.asked.values()]) heard({ failed: event.message ?? "the worker does not start" });
    };
    return made;
  }

  /** The status and the text of an answer; `hear` receives progress. */
  ask(address, body, signal, hear = () => {}) {
    this.worker ??= this.begin();
    const number = ++this.number;
    return new Promise((resolve, reject) => {
      const end = () => {
        this.asked.delete(number);
        signal?.removeEventListener("abort", abort);
      };
      const abort = () => {
        end();
        this.stop();
        reject(signal.reason);
      };
      this.asked.set(number, ({ line, status, text, failed }) => {
        if (line !== undefined) return hear(line);
        end();
        resolve(failed ? [500, JSON.stringify({ faults: [{ message: `The planner does not run here: ${failed}` }] })] : [status, text]);
      });
      signal?.addEventListener("abort", abort);
      this.worker.postMessage({ number, address, body, pyodide: from.pyodide, packages: from });
    });
  }

  /** Nothing in a worker hears that it should stop, so it is ended; other requests are lost. */
  stop() {
    this.worker.terminate();
    this.worker = undefined;
    for (const heard of [...this.asked.values()]) heard({ failed: "cancelled" });
  }
}

const quick = new Host(), long = new Host();
const SLOW = new Set(["page/more"]); // what takes longer than a control may
const json = { "Content-Type": "application/json" };

/** The lines of an answer that is looked for at length, as a server streams them. */
function streamed(address, body, signal) {
  const encoder = new TextEncoder();
  const stream = new ReadableStream({
    async start(to) {
      const line = (text) => to.enqueue(encoder.encode(`${text}\n`));
      try {
        const [status, text] = await long.ask(address, body, signal, (progress) => line(JSON.stringify({ progress })));
        line(status === 200 ? `{"done": ${text}}` : text);
        to.close();
      } catch (error) {
        to.error(error);
      }
    },
  });
  return new Response(stream, { headers: { "Content-Type": "application/x-ndjson" } });
}

const elsewhere = globalThis.fetch.bind(globalThis);
const first = elsewhere(new URL("../first.json", import.meta.url)).then((response) => response.json());
let warm = Promise.resolve(); // the workers, begun one after another with what is known already

/** The answer that was written with this page, for a page that nobody has touched; the workers begin
 *  with the same request, so that the next ones are quick. */
async function known(path, body, host) {
  const { text, textA, keys = [] } = JSON.parse(body), found = await first;
  if (text !== found.text || textA !== null || keys.length) return undefined;
  const answer = found.answers[path];
  if (answer && !started.has(path)) {
    started.add(path);
    warm = warm.then(() => host.ask(path, body)).then(() => delete document.body.dataset.loading);
  }
  return answer;
}
const started = new Set();
document.body.dataset.loading = "loading the planner …";

globalThis.fetch = async (address, how = {}) => {
  const { origin, pathname } = new URL(address, document.baseURI);
  const path = pathname.slice(beside.length);
  if (origin !== location.origin || !pathname.startsWith(beside) || !/^(page|find)\/\w+$/.test(path)) return elsewhere(address, how);
  if (path.startsWith("find/")) return streamed(path, how.body, how.signal);
  const host = SLOW.has(path) ? long : quick;
  const answer = await known(path, how.body, host);
  if (answer) return new Response(answer, { headers: json });
  const [status, text] = await host.ask(path, how.body, how.signal);
  delete document.body.dataset.loading;
  return new Response(text, { status, headers: json });
};
