// graphile-worker under the same work. Settings: the best of those tried, as the table says.
// What the peers written in Python share is in common.py; this file does the same in its own language.
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import process from "node:process";
import { parseArgs } from "node:util";

// Read when the library is loaded: a line in the log for each job would be held against it.
process.env.NO_LOG_SUCCESS = "1";

// The library lies in the folder that this is run from, and not beside this file.
const require = createRequire(`${process.cwd()}/`);
const { Logger, makeWorkerUtils, run } = require("graphile-worker");
const { version } = require("graphile-worker/package.json");
const pg = require("pg");

const PAYLOAD = { to: "recipient", text: "t".repeat(120), number: 42, flags: [true, false] };
const LATE_RATE = 100;
const LATE_FROM_SECONDS = 4;
const DEFAULT_POLL_MS = 2000;
const LATE_POLL_MS = 100;
const TICKS_A_SECOND = 100;

const { values } = parseArgs({
  options: {
    jobs: { type: "string" },
    "warm-up": { type: "string" },
    "server-pid": { type: "string" },
    late: { type: "string" },
    concurrency: { type: "string", default: "24" },
    "local-queue": { type: "string", default: "500" },
    "complete-delay": { type: "string", default: "0" },
    chunk: { type: "string", default: "1000" },
  },
});
const [jobs, warmUp, serverPid, concurrency, localQueue, completeDelay, chunk] = [
  "jobs",
  "warm-up",
  "server-pid",
  "concurrency",
  "local-queue",
  "complete-delay",
  "chunk",
].map((name) => Number(values[name]));

const quiet = new Logger(() => () => {});
const pool = new pg.Pool({ connectionString: process.env.BENCH_URL, max: 12 });
pool.on("error", (error) => console.error(error.message));
pool.on("connect", (client) => client.on("error", () => {}));
const utils = await makeWorkerUtils({ pgPool: pool, logger: quiet });

function preset(pollInterval) {
  return {
    worker: {
      concurrentJobs: concurrency,
      localQueue: { size: localQueue },
      completeJobBatchDelay: completeDelay,
      pollInterval,
    },
  };
}

async function enqueue(count) {
  for (let begin = 0; begin < count; begin += chunk) {
    const specs = Array.from({ length: Math.min(chunk, count - begin) }, () => ({
      identifier: "nothing",
      payload: PAYLOAD,
    }));
    await utils.addJobs(specs);
  }
}

async function enqueueLater(delays) {
  const now = Date.now();
  await utils.addJobs(
    delays.map((delay) => ({
      identifier: "nothing",
      payload: PAYLOAD,
      runAt: new Date(now + delay * 1000),
    })),
  );
}

// The answer is the instant of the last handler: the end that is left to write is not held against a peer.
async function runUntil(wanted, late = null) {
  let count = 0;
  let reached;
  const all = new Promise((resolve) => (reached = resolve));
  const nothing = async (_, helpers) => {
    if (late !== null) late.push(Date.now() - helpers.job.run_at.getTime());
    count += 1;
    if (count === wanted) reached(performance.now());
  };
  const runner = await run({
    pgPool: pool,
    logger: quiet,
    noHandleSignals: true,
    taskList: { nothing },
    preset: preset(late === null ? DEFAULT_POLL_MS : LATE_POLL_MS),
  });
  const ended = await all;
  await runner.stop();
  return ended;
}

function times(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ").slice(11, 15).map(Number);
}

function serverSeconds() {
  try {
    let ticks = times(serverPid).reduce((a, b) => a + b);
    for (const thread of readdirSync(`/proc/${serverPid}/task`)) {
      const children = readFileSync(`/proc/${serverPid}/task/${thread}/children`, "utf8");
      for (const child of children.split(" ").filter(Boolean)) {
        try {
          const [user, system] = times(child);
          ticks += user + system;
        } catch {
          // It has ended since it was listed.
        }
      }
    }
    return ticks / TICKS_A_SECOND;
  } catch {
    return null;
  }
}

const round = (value, digits) => Number(value.toFixed(digits));

async function cost(work) {
  const [server, client, began] = [serverSeconds(), process.cpuUsage(), performance.now()];
  const ended = await work();
  const used = process.cpuUsage(client);
  const after = serverSeconds();
  return {
    per_s: Math.round((jobs / (ended - began)) * 1000),
    client_us: round((used.user + used.system) / jobs, 1),
    server_us: server === null || after === null ? null : round(((after - server) / jobs) * 1e6, 1),
  };
}

async function throughput() {
  const enqueued = await cost(async () => {
    await enqueue(jobs);
    return performance.now();
  });
  const drained = await cost(() => runUntil(jobs));
  const { rows } = await pool.query("SELECT count(*)::int AS n FROM graphile_worker.jobs");
  if (rows[0].n > 0) throw new Error(`${rows[0].n} of ${jobs} jobs are left unfinished`);
  return { jobs, enqueue: enqueued, drain: drained };
}

async function lateness(count) {
  const late = [];
  await enqueueLater(Array.from({ length: count }, (_, number) => LATE_FROM_SECONDS + number / LATE_RATE));
  await runUntil(count, late);
  late.sort((a, b) => a - b);
  return {
    n: late.length,
    p50_ms: late[Math.floor(late.length / 2)],
    p99_ms: late[Math.floor(late.length * 0.99)],
    max_ms: late[late.length - 1],
    early: late.filter((each) => each < 0).length,
  };
}

await utils.migrate();
await enqueue(warmUp);
await runUntil(warmUp);
const figures = await (values.late ? lateness(Number(values.late)) : throughput());
const settings =
  `${concurrency} jobs at once, local queue ${localQueue}, ` +
  `completion batched over ${completeDelay} ms, polling ${LATE_POLL_MS} ms for lateness, enqueue by ${chunk}`;
console.log(JSON.stringify({ peer: "graphile-worker", version, settings, ...figures }));
await utils.release();
await pool.end();
