// The vectors that the Go side is held against, read by a second language.
// DIBS_VECTORS may name another folder.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { decode, subjects } from "./wire.mjs";

const dir = process.env.DIBS_VECTORS || fileURLToPath(new URL("../../testdata/protocol", import.meta.url));
const files = readdirSync(dir).filter((f) => f.endsWith(".json"));

test("there are vectors of every kind", () => {
  for (const kind of ["claim_request", "reply", "beat", "control", "command", "answer", "subjects"]) {
    assert.ok(files.includes(kind + ".json"), kind);
  }
});

for (const name of files) {
  const file = JSON.parse(readFileSync(join(dir, name)));
  describe(name, () => {
    test("schema", () => {
      assert.equal(file.schema, 1);
      assert.ok(file.vectors.length > 0);
    });
    for (const v of file.vectors) {
      test(v.name, () => (file.message ? message(file.message, v) : subject(v)));
    }
  });
}

const fill = (v, s) => s.replaceAll("<fill>", "x".repeat(v.fill ?? 0));

function message(kind, v) {
  const text = fill(v, typeof v.json === "string" ? v.json : JSON.stringify(v.json));
  if (!v.valid) {
    assert.throws(() => decode(kind, text), (e) => e.kind === v.error && e.field === (v.field ?? ""));
    return;
  }
  const got = decode(kind, text);
  if (v.normalized) assert.deepEqual(got, v.normalized);
}

function subject(v) {
  const run = () => subjects[v.fn](...v.args.map((a) => fill(v, a)));
  if (v.error) assert.throws(run, (e) => e.kind === v.error);
  else assert.deepEqual(run(), v.parts ?? fill(v, v.subject));
}
