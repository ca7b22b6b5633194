/** What `npm pack` makes, as a program of somebody else's sees it. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const CLIENT = fileURLToPath(new URL("../../", import.meta.url));
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
// npm may need a newer Node than the client does.
const skip = major < 20 ? "npm is not for this Node" : false;
const canRequire = major > 22 || (major === 22 && minor >= 12) || (major === 20 && minor >= 19);

const CONSUMER = `
import { credentials, IdempotencyClient, Key, WorkResult, type RunResult } from "@idempotencyd/client";
import { FakeRunner } from "@idempotencyd/client/testing";

const runner = new FakeRunner();
const result: RunResult = await runner.runOnce(
  Key.business("acme", "pay", "order-7"),
  { operation: "POST /payments", payload: { data: "{}" } },
  "TAKE_OVER",
  () => WorkResult.completed({ statusCode: 201 }),
);
const client = new IdempotencyClient({ target: "127.0.0.1:1", credentials: credentials.createInsecure() });
await client.close();
console.log(result.kind);
`;

describe("the packed package", { skip }, () => {
  let project = "";
  before(async () => {
    project = await mkdtemp(join(tmpdir(), "idempotencyd-client-"));
    const pack = ["pack", "--silent", "--ignore-scripts", "--pack-destination", project];
    const { stdout } = await run("npm", pack, { cwd: CLIENT });
    const installed = join(project, "node_modules", "@idempotencyd", "client");
    await mkdir(installed, { recursive: true });
    const archive = join(project, stdout.trim());
    await run("tar", ["-xzf", archive, "-C", installed, "--strip-components=1"]);
    // Its dependencies, as an installation would bring them.
    for (const name of ["@grpc", "@bufbuild", "@types"]) {
      await symlink(join(CLIENT, "node_modules", name), join(project, "node_modules", name));
    }
    await writeFile(join(project, "package.json"), '{"type": "module"}');
    await writeFile(join(project, "consumer.ts"), CONSUMER);
  });
  after(() => rm(project, { recursive: true }));

  test("has types for a strict program, and runs in it", async () => {
    const compiler = join(CLIENT, "node_modules", "typescript", "bin", "tsc");
    const options = ["--strict", "--module", "nodenext", "--target", "es2022", "--types", "node"];
    await run(process.execPath, [compiler, ...options, "consumer.ts"], { cwd: project });
    const { stdout } = await run(process.execPath, ["consumer.js"], { cwd: project });
    assert.equal(stdout, "Completed\n");
  });

  test(
    "can be required",
    { skip: !canRequire && "this Node cannot require a module" },
    async () => {
      const program = 'console.log(typeof require("@idempotencyd/client").IdempotencyClient)';
      const args = ["--no-warnings", "--input-type=commonjs", "-e", program];
      const { stdout } = await run(process.execPath, args, { cwd: project });
      assert.equal(stdout, "function\n");
    },
  );

  test("holds what is needed and nothing else", async () => {
    const list = ["pack", "--dry-run", "--json", "--ignore-scripts"];
    const { stdout } = await run("npm", list, { cwd: CLIENT });
    const [packed] = JSON.parse(stdout) as [{ files: { path: string }[] }];
    const paths = packed.files.map(({ path }) => path);
    const others = paths.filter((path) => !/^dist\/.*\.(js|d\.ts)(\.map)?$/.test(path));
    assert.deepEqual(others.sort(), ["README.md", "package.json"]);
  });
});
