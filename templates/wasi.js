// [[ stamp ]]
//
// Runs a program of WebAssembly by Node.js, with files of this folder and of the program's:
//
//   node wasi.js PROGRAM ARGUMENT...
const { readFileSync } = require("fs");
const { dirname, resolve } = require("path");
const { WASI } = require("wasi");

const args = process.argv.slice(2);
const folder = dirname(resolve(args[0]));
const wasi = new WASI({ version: "preview1", args, preopens: { ".": ".", [folder]: folder }, returnOnExit: true });
const program = new WebAssembly.Module(readFileSync(args[0]));
process.exitCode = wasi.start(new WebAssembly.Instance(program, { wasi_snapshot_preview1: wasi.wasiImport }));
