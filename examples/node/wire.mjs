// The Dibs protocol, version 1: subjects, and reading messages the way every
// receiver must. docs/PROTOCOL.md has it in words, testdata/protocol as data.

export const VERSION = 1;
export const IDLE_GROUP = "idle";
const MAX_MESSAGE = 64 << 10; // bytes
const MAX_METADATA = 8 << 10; // bytes
const MAX_CHECKPOINT = 8 << 10;
const MAX_TOKEN = 128;
const MAX_TIMEOUT = 24 * 60 * 60 * 1000;
const MAX_AGE = Number.MAX_SAFE_INTEGER;
// What a beat may hold, so that the longest one is a message still.
const MAX_SEATS = 256;
const MAX_FLOWS = 32;
const MAX_PROTOCOLS = 16;
const MAX_WORD = 128;
const MAX_NAME = 253;
const MAX_URL = 512;
const MAX_STATE = 16;
const MAX_NOTE = 200; // bytes

/** Why something was refused. kind: too_large, malformed, version, invalid, token, subject. */
export class WireError extends Error {
  constructor(kind, detail, field = "") {
    super(`${kind}: ${field ? field + ": " : ""}${detail}`);
    this.kind = kind;
    this.field = field;
  }
}

// ---- subjects: made only here, so that a bad token is never another subject

const isToken = (s) => typeof s === "string" && s.length <= MAX_TOKEN && /^[A-Za-z0-9_-]+$/.test(s);

function subject(...tokens) {
  const bad = tokens.find((t) => !isToken(t));
  if (bad !== undefined) throw new WireError("token", JSON.stringify(bad).slice(0, 40));
  return "dibs.v1." + tokens.join(".");
}

function parse(first, count, subj) {
  const [dibs, v1, kind, ...rest] = subj.split(".");
  if (dibs !== "dibs" || v1 !== "v1" || kind !== first || rest.length !== count || !rest.every(isToken)) throw new WireError("subject", subj);
  return rest;
}

export const subjects = {
  claim_pool: (region, pool) => subject("claim", region, pool),
  claim_region: (region) => subject("claim", region),
  bot: (id, verb) => subject("bot", id, verb),
  bot_all: (id) => subject("bot", id) + ".*",
  beat_of: (region, id) => subject("beat", region, id),
  beat_all: () => "dibs.v1.beat.>",
  line: (region, klass, org, call) => subject("line", region, klass, org, call),
  line_all: () => "dibs.v1.line.>",
  event_of: (type) => subject("events", ...type.split(".")),
  events_all: () => "dibs.v1.events.>",
  desk: (question) => subject("desk", ...question.split(".")),
  roll: () => "dibs.v1.roll",
  parse_bot_verb: (subj) => parse("bot", 2, subj).slice(1),
  parse_line: (subj) => parse("line", 4, subj),
};

// ---- messages: a type is a function that returns the value as this version
// understands it, or throws

const wrong = (at, want) => {
  throw new WireError("malformed", `not ${want}`, at);
};
const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v);

const text = (v, at) => (typeof v === "string" ? v : wrong(at, "a text"));
const flag = (v, at) => (typeof v === "boolean" ? v : wrong(at, "true or false"));
const int = (v, at) => (Number.isInteger(v) ? v : wrong(at, "a whole number"));
const count = (v, at) => (Number.isInteger(v) && v >= 0 ? v : wrong(at, "a whole number from 0"));
const raw = (v) => v;
const list = (of) => (v, at) => (Array.isArray(v) ? v.map((e) => of(e, at)) : wrong(at, "a list"));
const map = (of) => (v, at) =>
  isObject(v) ? Object.fromEntries(Object.entries(v).map(([k, e]) => [k, of(e, at)])) : wrong(at, "an object");

const empty = (v) => v === "" || v === 0 || v === false || v == null || (typeof v === "object" && Object.values(v).every(empty));

// shape is an object with known fields. A "!" after a name: written even when
// empty. Unknown fields are dropped, null is the same as no field.
const shape = (fields) => (v, at) => {
  if (!isObject(v)) wrong(at, "an object");
  const out = {};
  for (const [key, type] of Object.entries(fields)) {
    const name = key.replace("!", "");
    const got = v[name] == null ? zero(type) : type(v[name], at ? `${at}.${name}` : name);
    if (key.endsWith("!") || !empty(got)) out[name] = got;
  }
  return out;
};
const zero = (type) => (type === text ? "" : type === flag ? false : type === int || type === count ? 0 : undefined);

const pod = shape({ name: text, namespace: text, node: text });
const breaker = shape({ "state!": text, "failures!": int, last_error: text, retry_ms: int });

const messages = {
  ClaimRequest: shape({
    "v!": int, "claim_id!": text, "call_id!": text, "phase!": text, "attempt!": int,
    "accept_ms!": int, "ready_ms!": int, media_ms: int, max_call_ms: int, waited_ms: int,
    "region!": text, pool: text, org_id: text, campaign_id: text, class: text, direction: text,
    from: text, to: text, revision_min: text,
    flow: shape({ id: text, version: text, url: text, inline: raw }),
    greeting: shape({ text: text, locale: text, voice: text }),
    media: shape({ kind: text, encoding: text, sample_rate: int }),
    providers: map(text), metadata: raw, rescue: flag, elapsed_ms: int, checkpoint: raw,
  }),
  Reply: shape({
    "v!": int, "status!": text, "claim_id!": text, "bot_id!": text, instance: text, revision: text, pod,
    "seat!": int, seats: shape({ "total!": int, "in_use!": int }),
    media: shape({ url: text, params: map(text), expires_ms: int }),
    warmup: shape({ total_ms: int, steps: map(int), greeting_ready: flag }), providers: map(text),
    busy: shape({ "call_id!": text, "since_ms!": int }), breaker, code: text, detail: text, retry_after_ms: int,
  }),
  Beat: shape({
    "v!": int, "bot_id!": text, "instance!": text, "seq!": count, revision: text, "region!": text, "pool!": text, pod, media_url: text,
    "seats!": list(shape({ "state!": text, "for_ms!": int, call_id: text, stuck: flag })),
    cordoned: flag, draining: flag, goodbye: flag, not_ready: text, breaker, flows: list(text),
    rss_bytes: int, calls_total: int, uptime_ms: int, protocols: list(int),
    minute: shape({ ended: int, failed: int, errors: int, turns: int, first_audio_p95_ms: int }),
  }),
  Control: shape({ "v!": int, "claim_id!": text, "say!": text }),
  Command: shape({ "v!": int, call_id: text, claim_id: text, reason: text }),
  Answer: shape({
    "v!": int, "bot_id!": text, "ok!": flag, code: text, detail: text, state: text, why: text,
    media: shape({ url: text, params: map(text), expires_ms: int }),
  }),
};

// What a message needs besides the right types: [field, is it all right?].
const token = (m, name) => [name, isToken(m[name])];
const word = (name, v = "", most = MAX_WORD) => [name, v.length <= most && /^[!#-[\]-~]*$/.test(v)];
const note = (name, v = "") => [name, Buffer.byteLength(v) <= MAX_NOTE];
const timeout = (name, v = 0) => [name, v >= 0 && v <= MAX_TIMEOUT];
const age = (name, v = 0) => [name, v >= 0 && v <= MAX_AGE];
const breakerNeeds = (b) => [word("breaker.state", b?.state, MAX_STATE), note("breaker.last_error", b?.last_error), age("breaker.retry_ms", b?.retry_ms)];
const needs = {
  ClaimRequest: (m) => [
    token(m, "claim_id"), token(m, "call_id"), token(m, "region"), ["pool", !m.pool || isToken(m.pool)],
    ["accept_ms", m.accept_ms !== 0], ["ready_ms", m.ready_ms !== 0],
    ...["accept_ms", "ready_ms", "media_ms", "max_call_ms"].map((name) => timeout(name, m[name])), age("waited_ms", m.waited_ms), age("elapsed_ms", m.elapsed_ms),
    ["checkpoint", m.checkpoint == null || Buffer.byteLength(JSON.stringify(m.checkpoint)) <= MAX_CHECKPOINT],
    ["metadata", m.metadata == null || (isObject(m.metadata) && Buffer.byteLength(JSON.stringify(m.metadata)) <= MAX_METADATA)],
  ],
  Reply: (m) => [
    ["status", m.status !== ""], token(m, "claim_id"), token(m, "bot_id"),
    ["media.url", m.status !== "ready" || Boolean(m.media?.url)],
    ...Object.values(m.warmup?.steps ?? {}).map((ms) => age("warmup.steps", ms)),
    timeout("media.expires_ms", m.media?.expires_ms), age("warmup.total_ms", m.warmup?.total_ms),
    age("busy.since_ms", m.busy?.since_ms), ...breakerNeeds(m.breaker), age("retry_after_ms", m.retry_after_ms),
  ],
  Beat: (m) => [
    token(m, "bot_id"), token(m, "region"), token(m, "pool"),
    ["seats", (m.seats?.length > 0 || m.goodbye === true) && (m.seats?.length ?? 0) <= MAX_SEATS],
    ...(m.seats ?? []).flatMap((s) => [
      ["seats[].call_id", !s.call_id || isToken(s.call_id)], word("seats[].state", s.state, MAX_STATE), age("seats[].for_ms", s.for_ms),
    ]),
    ["flows", (m.flows?.length ?? 0) <= MAX_FLOWS], ...(m.flows ?? []).map((f) => word("flows", f)),
    ["protocols", (m.protocols?.length ?? 0) <= MAX_PROTOCOLS], word("instance", m.instance), word("revision", m.revision),
    word("pod.name", m.pod?.name, MAX_NAME), word("pod.namespace", m.pod?.namespace, MAX_NAME), word("pod.node", m.pod?.node, MAX_NAME),
    word("media_url", m.media_url, MAX_URL),
    note("not_ready", m.not_ready), ...breakerNeeds(m.breaker),
    age("minute.first_audio_p95_ms", m.minute?.first_audio_p95_ms), age("uptime_ms", m.uptime_ms),
  ],
  Control: (m) => [["say", m.say !== ""], token(m, "claim_id")],
  Command: () => [],
  Answer: (m) => [token(m, "bot_id"), timeout("media.expires_ms", m.media?.expires_ms)],
};

/** Reads a message of a kind from text or bytes; throws a WireError. */
export function decode(kind, data) {
  const bytes = Buffer.from(data);
  if (bytes.length > MAX_MESSAGE) throw new WireError("too_large", `${bytes.length} bytes`);
  let v;
  try {
    v = JSON.parse(bytes.toString("utf8"));
  } catch {
    throw new WireError("malformed", "not JSON");
  }
  if (!isObject(v)) throw new WireError("malformed", "not a JSON object");
  // Said even when a newer sender changed the type of a field.
  if (Number.isInteger(v.v) && v.v > VERSION) throw new WireError("version", `${v.v}, this side speaks ${VERSION}`);
  const m = messages[kind](v, "");
  // No version is version 1.
  const bad = [["v", m.v >= 0], ...needs[kind](m)].find(([, ok]) => !ok);
  if (bad) throw new WireError("invalid", "missing or out of range", bad[0]);
  return m;
}
