// The smallest bot that keeps the protocol: one seat, no warm-up, so it answers
// "ready" at once instead of "accepted" first. The audio goes to a media server
// of your own, at DIBS_MEDIA_URL: whatever speaks the carrier's media stream.
//
//   NATS_URL=nats://127.0.0.1:4222 DIBS_REGION=eu-west DIBS_POOL=default \
//   DIBS_MEDIA_URL=wss://bot.example/media node bot.mjs
import { randomBytes } from "node:crypto";
import { connect, createInbox } from "@nats-io/transport-node";
import { decode, IDLE_GROUP, subjects, VERSION, WireError } from "./wire.mjs";

const { NATS_URL = "nats://127.0.0.1:4222", DIBS_REGION: region = "local", DIBS_POOL: pool = "default", DIBS_BOT = "node" } = process.env;
const mediaURL = process.env.DIBS_MEDIA_URL ?? "ws://127.0.0.1:7860/media";
const instance = String(Math.floor(Date.now() / 1000));
const bot_id = `${DIBS_BOT}_${instance}`; // contains its start: a name that comes back is another bot
const nc = await connect({ servers: NATS_URL, name: bot_id, maxReconnectAttempts: -1, pingInterval: 5000, maxPingOut: 2 });
const inbox = createInbox();

let seat = { state: "idle", since: Date.now() };
const ended = new Map(); // call_id → why its last call was over
let offers = []; // subscriptions that are out for the idle seat
let conversation = 0;
let seq = 0;
let [cordoned, draining] = [false, false];

// An offer is good for one request: the server itself takes it away as it
// delivers (max: 1), so a busy seat cannot be asked.
function offer() {
  withdraw();
  if (seat.state !== "idle" || cordoned || draining) return;
  const opts = { queue: IDLE_GROUP, max: 1, callback: guarded(answer) };
  offers = [subjects.claim_pool(region, pool), subjects.claim_region(region)].map((s) => nc.subscribe(s, opts));
}

// Drained, not dropped: a request that is on its way already is still answered.
// (drain complains of an offer that was used; that is what used means.)
function withdraw(sid) {
  for (const sub of offers) if (sub.getID() !== sid) sub.drain().catch(() => {});
  offers = [];
}

function answer(msg) {
  if (!msg.reply) return;
  const say = (status, more, back) => msg.respond(JSON.stringify({ v: VERSION, status, bot_id, instance, seat: 0, ...more }), back && { reply: back });
  let req;
  try {
    req = decode("ClaimRequest", msg.data);
  } catch (e) {
    const newer = e.kind === "version"; // another bot may speak it
    say(newer ? "failed" : "rejected", { claim_id: "unknown", code: newer ? "version" : "bad_request", detail: e.message });
    return offer();
  }
  const { claim_id, call_id } = req;
  if (seat.claim_id === claim_id) return say("ready", seat.ready, seat.back); // asked twice: the same answer
  if (draining || cordoned) return say(draining ? "draining" : "cordoned", { claim_id });
  if (seat.state !== "idle") return say("busy", { claim_id, busy: { call_id: seat.call_id, since_ms: Date.now() - seat.since }, retry_after_ms: 150 });
  withdraw(msg.sid);
  const expires_ms = req.media_ms || 75_000;
  const ready = { claim_id, media: { url: `${mediaURL}/${randomBytes(16).toString("hex")}`, params: { call_id }, expires_ms } };
  seat = { state: "assigned", since: Date.now(), claim_id, call_id, ready, back: `${inbox}.${++conversation}` };
  seat.timer = setTimeout(() => free(claim_id), expires_ms); // media never came
  say("ready", ready, seat.back);
  beat();
}

// The asker's word about a ready. Its ack needs nothing; when it is gone the
// server says so (503, no responders) and the seat is free again.
function control(msg) {
  const word = msg.headers?.code === 503 ? "withdraw" : decode("Control", msg.data).say;
  if (word === "withdraw" && msg.subject === seat.back) free(seat.claim_id);
}

/** Your media server says so when its socket opens … */
export function live(call_id) {
  if (seat.call_id !== call_id || seat.state !== "assigned") return;
  clearTimeout(seat.timer);
  Object.assign(seat, { state: "live", since: Date.now() });
  beat();
}

/** … and when the call is over. Only the claim that has the seat can free it. */
export function free(claim_id, why = "hung_up") {
  if (!claim_id || seat.claim_id !== claim_id) return false;
  clearTimeout(seat.timer);
  ended.set(seat.call_id, why);
  if (ended.size > 100) ended.delete(ended.keys().next().value);
  seat = { state: "idle", since: Date.now() };
  offer();
  beat();
  return true;
}

function command(msg) {
  const verb = msg.subject.split(".").at(-1);
  if (verb === "claim") return answer(msg);
  let [ok, code, more] = [true, "", {}];
  try {
    const cmd = decode("Command", msg.data.length ? msg.data : "{}");
    if (verb === "release") [ok, code] = cmd.call_id && seat.call_id === cmd.call_id && (!cmd.claim_id || seat.claim_id === cmd.claim_id) ? [free(seat.claim_id), ""] : [false, "unknown_call"];
    else if (verb === "call") [ok, code, more] = stands(cmd.call_id);
    else if (verb === "cordon" || verb === "uncordon") cordoned = verb === "cordon";
    else if (verb === "drain") draining = true;
    else if (verb !== "ping") [ok, code] = [false, "unknown_verb"];
  } catch (e) {
    [ok, code] = [false, "malformed"];
  }
  if (verb !== "ping" && verb !== "call") offer(); // before the answer: who has it may count on it
  msg.respond(JSON.stringify({ v: VERSION, bot_id, ok, ...(code && { code }), ...more }));
  if (verb !== "ping" && verb !== "call") beat();
}

// How a call stands here. One that is over is remembered as the bot's own end;
// say why it was when your media server knows better.
function stands(call_id) {
  if (call_id && seat.call_id === call_id) {
    return [true, "", seat.state === "live" ? { state: "live" } : { state: "assigned", media: seat.ready.media }];
  }
  return ended.has(call_id) ? [true, "", { state: "ended", why: ended.get(call_id) }] : [false, "unknown_call", {}];
}

function beat(goodbye = false) {
  const { state, since, call_id } = seat;
  const seats = [{ state, for_ms: Date.now() - since, ...(call_id && { call_id }) }];
  nc.publish(subjects.beat_of(region, bot_id), JSON.stringify({ v: VERSION, bot_id, instance, seq: ++seq, region, pool, media_url: mediaURL, seats, cordoned, draining, goodbye, protocols: [VERSION] }));
  if (draining && state === "idle") setImmediate(leave); // after what is being answered
}

async function leave() {
  if (nc.isDraining()) return;
  beat(true);
  await nc.drain();
  process.exit(0);
}

// A foreign message must not end the bot; anything else may.
const guarded = (f) => (err, msg) => {
  try {
    if (!err) f(msg);
  } catch (e) {
    if (!(e instanceof WireError)) throw e;
  }
};
nc.subscribe(subjects.bot_all(bot_id), { callback: guarded(command) });
nc.subscribe(inbox + ".*", { callback: guarded(control) });
offer();
beat();
setInterval(() => beat(), 5000);
for (const sig of ["SIGTERM", "SIGINT"]) {
  process.once(sig, () => {
    draining = true;
    offer();
    beat();
    setTimeout(leave, 600_000); // so long a call may end by itself
  });
}
console.log(`${bot_id} offers one seat in ${region}.${pool}`);

// After a reconnect the library subscribes again without max: make new offers.
for await (const s of nc.status()) if (s.type === "reconnect") offer(), beat();
