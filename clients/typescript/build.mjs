// Makes dist/: the modules and their types, and the sample page's one script. The messages' code is made from the
// .proto files of the repository by protoc, which is here, in $PROTOC, or in Python's grpcio-tools.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const protos = join(here, "..", "..", "protos");
const bin = join(here, "node_modules", ".bin");
const run = (program, ...words) => execFileSync(program, words, { cwd: here, stdio: "inherit" });

function protoc(...words) {
  const ways = process.env.PROTOC
    ? [[process.env.PROTOC]]
    : [["protoc"], ["python3", "-m", "grpc_tools.protoc"]];
  for (const [program, ...first] of ways) {
    try {
      return execFileSync(program, [...first, ...words], { cwd: here, stdio: "pipe" });
    } catch (error) {
      if (error.code !== "ENOENT" && !String(error.stderr).includes("No module named")) throw error;
    }
  }
  throw new Error("no protoc: install protobuf-compiler, or pip install grpcio-tools, or name one in PROTOC");
}

for (const folder of ["src/gen", "dist"]) rmSync(join(here, folder), { recursive: true, force: true });
mkdirSync(join(here, "src/gen"), { recursive: true });
protoc(
  `--plugin=protoc-gen-es=${join(bin, "protoc-gen-es")}`,
  `-Ihubbub/protos=${protos}`,
  "--es_out=src/gen",
  "--es_opt=target=ts,import_extension=js",
  "hubbub/protos/v1/submission.proto",
  "hubbub/protos/v1/document.proto",
);
run(join(bin, "tsc"));
run(join(bin, "tsc"), "-p", "tsconfig.verify.json");
const bundled = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  outdir: "dist",
};
const pages = {
  "sample/sample": "sample/sample.ts",
  "bundle/browser": "src/browser.ts",
  "test/page": "test/page.ts",
  "test/foreign_page": "test/foreign_page.ts",
  "verify/index": "verify/index.ts",
};
await build({ ...bundled, entryPoints: pages });
const programs = {
  "test/vectors": "test/node.ts",
  "test/device": "test/device.ts",
  "test/verify": "test/verifier/verify.ts",
  "test/keeping": "test/verifier/keeping.ts",
};
const inNode = { ...bundled, platform: "node", minify: false };
await build({ ...inNode, entryPoints: programs });
// As its users run grpc-js: from its own modules, which no bundle of ES modules can load.
await build({ ...inNode, entryPoints: { "test/foreign": "test/foreign.ts" }, packages: "external" });
for (const file of ["index.html", "sample.css"])
  cpSync(join(here, "sample", file), join(here, "dist/sample", file));

// The verifier's page is one file: it works from a disk, and its policy allows its own script and style alone.
const [script] = (
  await build({ ...bundled, entryPoints: ["verify/page/page.ts"], format: "iife", write: false })
).outputFiles;
const digest = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const inside = {
  SCRIPT: script.text.trim().replaceAll("</script", "<\\/script"),
  STYLE: readFileSync(join(here, "verify/page/page.css"), "utf8").trim(),
};
const filled = { ...inside, SCRIPT_DIGEST: digest(inside.SCRIPT), STYLE_DIGEST: digest(inside.STYLE) };
const page = readFileSync(join(here, "verify/page/index.html"), "utf8");
const whole = page.replace(/\b(SCRIPT_DIGEST|STYLE_DIGEST|SCRIPT|STYLE)\b/g, (name) => filled[name]);
writeFileSync(join(here, "dist/verify/index.html"), whole);
