// A worker of the simple protocol in Node (18 or newer, no packages); docs/guide/workers.md explains it.
//
//     node worker.mjs MANAGEMENT SOCKET
//
// MANAGEMENT is the server's management.sock, or HOST:PORT with the token in ANYSERVE_TOKEN. SOCKET is ours, below the
// server's --worker-socket-dir.

import fs from "node:fs";
import http from "node:http";
import net from "node:net";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { readRequest, writeResponse } from "./protobuf.mjs";

const [management, socket] = process.argv.slice(2);
const worker = path.parse(socket).name;
const floats = (name) => ({ name, datatype: "FP32", shape: [-1] });
const options = { max_ongoing_requests: 4, idempotent: true };
const models = [
  { model_name: "echo", options },
  { model_name: "add", options, signature: { inputs: [floats("a"), floats("b")], outputs: [floats("sum")] } },
];

// --- the model ---

class InputError extends Error {}

function infer({ model, inputs }) {
  if (model === "echo") return inputs;
  const [a, b] = ["a", "b"].map((name) => inputs.find((tensor) => tensor.name === name).data);
  if (a.length !== b.length) throw new InputError("a and b have different lengths");
  const sum = Buffer.alloc(a.length);
  for (let i = 0; i < a.length; i += 4) sum.writeFloatLE(Math.fround(a.readFloatLE(i) + b.readFloatLE(i)), i);
  return [{ name: "sum", datatype: "FP32", shape: [a.length / 4], data: sum }];
}

function reply(request) {
  const { model, id } = request; // the id: always
  try {
    return writeResponse({ model, id, outputs: infer(request) });
  } catch (e) { // an answer without outputs that says what went wrong
    const code = e instanceof InputError ? "INVALID_ARGUMENT" : "INTERNAL";
    return writeResponse({ model, id, parameters: { anyserve_error: code, anyserve_error_message: e.message } });
  }
}

// --- the protocol: a length (4 bytes, big-endian) and a message, both ways ---

const server = net.createServer((connection) => {
  let chunks = [], have = 0;
  connection.on("error", () => connection.destroy()); // the server may close it in the middle of a request
  connection.on("data", (chunk) => {
    chunks.push(chunk);
    have += chunk.length;
    if (have < 4) return;
    if (chunks[0].length < 4) chunks = [Buffer.concat(chunks)];
    const length = chunks[0].readUInt32BE(0);
    if (have < 4 + length) return;
    const answer = reply(readRequest(Buffer.concat(chunks).subarray(4)));
    const head = Buffer.alloc(4);
    head.writeUInt32BE(answer.length);
    connection.write(Buffer.concat([head, answer]));
    [chunks, have] = [[], 0]; // there is one request at a time
  });
});

// --- coming and going ---

function call(rpc, body) {
  const [host, port] = management.split(":");
  const where = management.startsWith("/") ? { socketPath: management } : { host, port };
  const headers = { Authorization: `Bearer ${process.env.ANYSERVE_TOKEN ?? ""}`, "Content-Type": "application/json" };
  return new Promise((resolve, reject) => {
    const request = http.request({ ...where, method: "POST", path: `/anyserve.WorkerManagement/${rpc}`, headers });
    request.on("error", reject);
    request.on("response", async (response) => {
      try {
        let text = "";
        for await (const chunk of response) text += chunk;
        const answer = JSON.parse(text);
        if (response.statusCode === 200) resolve(answer);
        else reject(new Error(`${rpc}: ${answer.error}`));
      } catch (e) {
        reject(e);
      }
    });
    request.end(JSON.stringify(body));
  });
}

async function register() {
  let beat = 0;
  for (const model of models) {
    const offer = { worker_id: worker, worker_address: `unix://${socket}`, ...model };
    beat = (await call("RegisterModel", offer)).heartbeatIntervalMs;
  }
  console.log("registered");
  return beat || 5000;
}

// Registers, says that we live, and registers again when the server does not know us (any more).
async function stay(signal) {
  let known = false, beat = 5000;
  while (!signal.aborted) {
    let pause = 1000; // the server is away, or says no
    try {
      if (!known) beat = await register();
      known = (await call("Heartbeat", { worker_id: worker })).healthy;
      pause = known ? beat : 100;
    } catch (e) {
      console.error(e.message);
    }
    await sleep(pause, null, { signal }).catch(() => {});
  }
}

const stopped = new AbortController();
process.on("SIGTERM", () => stopped.abort());
fs.rmSync(socket, { force: true }); // of a predecessor that was killed
server.listen(socket, async () => {
  await stay(stopped.signal);
  for (const { model_name } of models)
    await call("UnregisterModel", { worker_id: worker, model_name }).catch((e) => console.error(e.message));
  server.close(); // what is under way is finished; then the server closes its connections
});
