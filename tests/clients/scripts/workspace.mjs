// The tools of the programs in JavaScript, which work in the current folder.

import { execSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

// A library is where it was installed, not beside the programs.
export const library = createRequire(`${process.env.LIBRARY}/`);

const text = { type: "string" };

export const tools = {
  write_file: {
    description: "Write a text to a file.",
    parameters: { type: "object", properties: { path: text, content: text }, required: ["path", "content"] },
    run: ({ path, content }) => (writeFileSync(path, content), "written"),
  },
  run_command: {
    description: "Run a command in a shell.",
    parameters: { type: "object", properties: { command: text }, required: ["command"] },
    run: ({ command }) => execSync(command, { encoding: "utf8" }),
  },
  read_file: {
    description: "Read a file.",
    parameters: { type: "object", properties: { path: text }, required: ["path"] },
    run: ({ path }) => readFileSync(path, "utf8"),
  },
};
