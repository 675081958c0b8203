// Loads the code that comes with the import map, and speaks for it: JSON lines in, JSON lines out.
// The host believes nothing of what is written here. What is kept back from the code (the line's token, the names of
// Deno) keeps it honest by accident only; what it cannot reach at all is Deno's permissions and the host's limits.
const { stdin, stdout, inspect, exit } = Deno;
const { parse, stringify } = JSON;
const { apply, ownKeys } = Reflect;
const { create, defineProperty, getPrototypeOf, hasOwn, keys, setPrototypeOf } = Object;
const { isArray } = Array;
const { isFinite } = Number;
const [String_, Error_, Promise_] = [String, Error, Promise];
const objectPrototype = Object.prototype;
const { indexOf, substring } = String.prototype;
const encoder = new TextEncoder();
const decoder = new TextDecoder();
const encode = encoder.encode.bind(encoder);
const decode = decoder.decode.bind(decoder);
const write = stdout.writeSync.bind(stdout);
const read = stdin.read.bind(stdin);
const subarray = Uint8Array.prototype.subarray;
const noJson = [Map, Set, WeakMap, WeakSet, Promise, RegExp, ArrayBuffer, DataView, getPrototypeOf(Uint8Array)];
const MOST_LEVELS = 64;

const KEPT = `Object Function Array Number parseFloat parseInt Infinity NaN undefined Boolean String Symbol Date Promise
RegExp Error AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError globalThis JSON Math Intl
ArrayBuffer Atomics Uint8Array Int8Array Uint16Array Int16Array Uint32Array Int32Array BigUint64Array BigInt64Array
Uint8ClampedArray Float16Array Float32Array Float64Array DataView Map BigInt Set Iterator WeakMap WeakSet Proxy Reflect
FinalizationRegistry WeakRef decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape eval isFinite
isNaN Temporal SuppressedError DisposableStack AsyncDisposableStack SharedArrayBuffer WebAssembly queueMicrotask
AbortController AbortSignal Blob ByteLengthQueuingStrategy CompressionStream CountQueuingStrategy CryptoKey CustomEvent
DecompressionStream DOMException ErrorEvent Event EventTarget File FormData MessageChannel MessageEvent MessagePort
PromiseRejectionEvent ReadableStream ReadableStreamDefaultReader ReadableStreamBYOBReader TextDecoder TextEncoder
TextDecoderStream TextEncoderStream TransformStream URL URLPattern URLSearchParams WritableStream
WritableStreamDefaultWriter atob btoa clearInterval clearTimeout crypto Crypto SubtleCrypto performance reportError
setInterval setTimeout structuredClone self addEventListener removeEventListener`.split(/\s+/);

let token = "";
let finished = false;
let most = { result: 0, logs: 0, calls: 0 };
let calls = 0;
let sent = 0;
let answers = 0;
const waiting = create(null);
const unsent = create(null);

function send(head, tail) {
  let bytes = encode(`{"token":"${token}",${head}${tail}}\n`);
  while (bytes.length > 0) bytes = apply(subarray, bytes, [write(bytes)]);
}

function fault(why) {
  const error = new Error_(why);
  defineProperty(error, "carried", { value: true });
  return error;
}

/** A copy that is JSON and has nothing of the code's own; throws for what JSON cannot carry. */
function plain(value, path, above) {
  if (typeof value === "object" && value !== null && !isArray(value)) {
    const own = value.toJSON; // not what all objects have, which somebody has given to all objects
    if (typeof own === "function" && own !== objectPrototype.toJSON) value = apply(own, value, [""]);
  }
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      if (!isFinite(value)) throw fault(`${path} is ${value}, which JSON cannot represent.`);
      return value;
    case "undefined":
      return null;
    case "bigint":
    case "symbol":
    case "function":
      throw fault(`${path} is a ${typeof value}, which JSON cannot represent.`);
  }
  if (value === null) return null;
  if (above.length >= MOST_LEVELS) throw fault(`The value is nested deeper than ${MOST_LEVELS} levels.`);
  const within = [];
  for (let i = 0; i < above.length; i++) {
    if (above[i] === value) throw fault(`${path} contains itself, which JSON cannot represent.`);
    within[i] = above[i];
  }
  within[within.length] = value;
  if (isArray(value)) {
    const copy = setPrototypeOf([], null); // so that it has no toJSON of the code's either
    for (let i = 0; i < value.length; i++) copy[i] = plain(value[i], `${path}[${i}]`, within);
    return copy;
  }
  for (let i = 0; i < noJson.length; i++) {
    if (value instanceof noJson[i]) throw fault(`${path} is of the type ${noJson[i].name}, which JSON cannot represent.`);
  }
  const copy = create(null);
  const names = keys(value);
  for (let i = 0; i < names.length; i++) {
    if (value[names[i]] !== undefined) copy[names[i]] = plain(value[names[i]], `${path}.${names[i]}`, within);
  }
  return copy;
}

function carried(value, what) {
  const text = stringify(plain(value, what, []));
  const size = encode(text).length;
  if (size > most.result) throw fault(`${what} has ${size} bytes, and ${most.result} are allowed.`);
  return text;
}

function described(error) {
  try {
    if (error instanceof Error_) {
      const name = String_(error.name);
      const message = String_(error.message);
      return { message: name === "Error" ? message : `${name}: ${message}`, stack: String_(error.stack) };
    }
    return { message: typeof error === "string" ? error : inspect(error, { depth: 2 }), stack: "" };
  } catch {
    return { message: "The code raised a value that cannot be described.", stack: "" };
  }
}

function fail(error) {
  if (finished) return;
  finished = true;
  const { message, stack } = described(error);
  const code = hasOwn(Object(error), "carried") ? "result" : "error";
  const shown = code === "result" ? "" : stack;
  send(`"kind":"error","code":"${code}",`, `"message":${stringify(short(message))},"stack":${stringify(short(shown))}`);
}

function short(text) {
  return text.length > 20000 ? `${apply(substring, text, [0, 20000])} …` : text;
}

function succeed(value) {
  if (finished) return;
  const text = carried(value, "The result");
  finished = true;
  send(`"kind":"result",`, `"value":${text}`);
}

function logged(level, items) {
  if (most.logs < 0) return;
  let text = "";
  for (let i = 0; i < items.length; i++) {
    const shown = typeof items[i] === "string" ? items[i] : inspect(items[i], { depth: 6, iterableLimit: 100 });
    text += i === 0 ? shown : ` ${shown}`;
    if (text.length > most.logs + 100) break;
  }
  if (text.length > most.logs + 100) text = apply(substring, text, [0, most.logs + 100]);
  most.logs -= text.length + 16;
  send(`"kind":"log","level":"${level}",`, `"text":${stringify(text)}`);
}

function makeConsole() {
  const made = {};
  const levels = { log: "log", info: "info", debug: "debug", warn: "warn", error: "error", trace: "debug", dir: "log", table: "log" };
  for (const name in levels) made[name] = (...items) => logged(levels[name], items);
  made.assert = (ok, ...items) => ok || logged("error", ["Assertion failed:", ...items]);
  for (const name of ["clear", "count", "countReset", "group", "groupCollapsed", "groupEnd", "time", "timeEnd", "timeLog"]) {
    made[name] = () => undefined;
  }
  return made;
}

function call(name, args) {
  return new Promise_((resolve, reject) => {
    const text = carried(args, "The list of arguments");
    const id = ++calls;
    waiting[id] = { resolve, reject };
    unsent[id] = `"name":${stringify(String_(name))},"args":${text}`;
    sendCalls();
  });
}

/** Sends the next calls while fewer than allowed are unanswered: more would wait in the pipe, and the host with it. */
function sendCalls() {
  while (sent < calls && sent - answers < most.calls) {
    const id = ++sent;
    const text = unsent[id];
    delete unsent[id];
    send(`"kind":"call","id":${id},`, text);
  }
}

function answered(line) {
  const answer = parse(line);
  const { resolve, reject } = waiting[answer.id];
  delete waiting[answer.id];
  answers++;
  sendCalls();
  if (hasOwn(answer, "error")) reject(new Error_(answer.error));
  else resolve(answer.value);
}

async function* lines() {
  const chunk = new Uint8Array(65536);
  let text = "";
  for (;;) {
    const size = await read(chunk);
    if (size === null) exit(0); // the host is gone
    text += decode(apply(subarray, chunk, [0, size]), { stream: true });
    let end;
    while ((end = apply(indexOf, text, ["\n"])) >= 0) {
      yield apply(substring, text, [0, end]);
      text = apply(substring, text, [end + 1]);
    }
  }
}

async function listen(incoming) {
  for (;;) answered((await incoming.next()).value);
}

function strip() {
  const kept = new Set(KEPT);
  for (const name of ownKeys(globalThis)) {
    if (typeof name === "string" && !kept.has(name)) delete globalThis[name];
  }
  defineProperty(globalThis, "console", { value: makeConsole(), writable: true, configurable: true });
  defineProperty(globalThis, Symbol.for("toolwright.call"), { value: call });
}

async function outcome(space, execute) {
  const name = execute?.fn ?? "default";
  if (!hasOwn(space, name)) {
    if (execute === null) return null;
    const names = keys(space);
    const there = names.length === 0 ? "it exports nothing" : `it exports ${names.join(", ")}`;
    throw fault(`The code has no export ${stringify(name)}: ${there}.`);
  }
  const found = space[name];
  if (typeof found === "function") return await apply(found, undefined, execute?.args ?? []);
  if (execute === null) return await found;
  throw fault(`The export ${stringify(name)} is not a function.`);
}

addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  fail(event.reason);
});
addEventListener("error", (event) => {
  event.preventDefault();
  fail(event.error);
});
strip();
const incoming = lines();
const asked = parse((await incoming.next()).value);
({ token, most } = asked);
listen(incoming);
try {
  const given = keys(asked.globals);
  for (const name of given) {
    defineProperty(globalThis, name, { value: asked.globals[name], writable: true, enumerable: true, configurable: true });
  }
  succeed(await outcome(await import("code:main"), asked.execute));
} catch (error) {
  fail(error);
}
