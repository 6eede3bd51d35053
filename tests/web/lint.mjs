// Lints the page's JavaScript with the parser that node carries in itself, so that nothing has to be installed:
//   node --expose-internals tests/web/lint.mjs scheduler_plugin/web/static/*.js
// Names that nobody declares or nobody uses, variables that could be constants, loose comparisons.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename } from "node:path";

const require = createRequire(import.meta.url);
const { parse } = require("internal/deps/acorn/acorn/dist/acorn");
const walk = require("internal/deps/acorn/acorn-walk/dist/walk");

/** What a browser gives to every module that the page makes use of. */
const BROWSER = new Set(`AbortController Boolean CSS Date Error Intl JSON Map Math MutationObserver Number Object Promise
  ResizeObserver Set String URL URLSearchParams clearTimeout console decodeURIComponent document encodeURIComponent fetch
  getComputedStyle history localStorage location matchMedia PopStateEvent requestAnimationFrame sessionStorage setInterval
  setTimeout undefined window Array`.split(/\s+/));
const FUNCTIONS = /^(Arrow)?Function(Declaration|Expression)?/;
const SCOPES = /^(Program|BlockStatement|ForStatement|ForInStatement|ForOfStatement|CatchClause|ClassDeclaration)$|Function/;

function* names(pattern) {
  if (!pattern) return;
  if (pattern.type === "Identifier") yield pattern;
  for (const part of pattern.elements ?? pattern.properties ?? []) yield* names(part?.value ?? part);
  yield* names(pattern.left ?? pattern.argument);
}

function lint(file) {
  const found = [];
  const tree = parse(readFileSync(file, "utf8"), { ecmaVersion: "latest", sourceType: "module", locations: true });
  const say = (node, words) => found.push(`${basename(file)}:${node.loc.start.line}: ${words}`);
  const scopes = new Map();
  const uses = [];
  const declare = (scope, id, kind) => {
    if (!scopes.has(scope)) scopes.set(scope, new Map());
    scopes.get(scope).set(id.name, { id, kind, used: false, written: 0 });
  };
  const nearest = (ancestors, wanted) => ancestors.findLast((each) => wanted.test(each.type));

  walk.fullAncestor(tree, (node, _, ancestors, role) => {
    const around = ancestors.slice(0, -1);
    if (node.type === "VariableDeclaration") {
      if (node.kind === "var") say(node, "`var`: use const or let");
      for (const each of node.declarations) for (const id of names(each.id)) declare(nearest(around, SCOPES), id, node.kind);
    } else if (FUNCTIONS.test(node.type)) {
      if (node.type === "FunctionDeclaration") declare(nearest(around, SCOPES), node.id, "function");
      for (const each of node.params) for (const id of names(each)) declare(node, id, "parameter");
    } else if (node.type === "ClassDeclaration") declare(nearest(around, SCOPES), node.id, "class");
    else if (node.type === "CatchClause") for (const id of names(node.param)) declare(node, id, "parameter");
    else if (node.type === "ImportDeclaration") for (const each of node.specifiers) declare(tree, each.local, "import");
    else if (node.type === "BinaryExpression" && /^[!=]=$/.test(node.operator)) say(node, `\`${node.operator}\`: use \`${node.operator}=\``);
    else if (node.type === "DebuggerStatement") say(node, "`debugger`");
    else if (node.type === "Identifier" && role !== "VariablePattern") uses.push([node, around]);
    else if (node.type === "AssignmentExpression" || node.type === "UpdateExpression") {
      for (const id of names(node.left ?? node.argument)) uses.push([id, around, true]);
    } else if (/^For(Of|In)Statement$/.test(node.type) && node.left.type !== "VariableDeclaration") {
      for (const id of names(node.left)) uses.push([id, around, true]);
    } else if (node.type === "ExportNamedDeclaration") {
      for (const id of node.declaration.id ? [node.declaration.id] : node.declaration.declarations.flatMap((each) => [...names(each.id)])) uses.push([id, [tree]]);
    }
  });

  for (const [id, around, written] of uses) {
    const scope = around.findLast((each) => scopes.get(each)?.has(id.name));
    if (!scope) {
      if (!BROWSER.has(id.name)) say(id, `\`${id.name}\` is declared nowhere`);
      continue;
    }
    const declared = scopes.get(scope).get(id.name);
    if (written) declared.written += 1;
    else declared.used = true;
  }
  for (const kept of scopes.values()) {
    for (const [name, { id, kind, used, written }] of kept) {
      if (!used && kind !== "parameter") say(id, `\`${name}\` is never used`);
      if (kind === "let" && !written) say(id, `\`${name}\` never changes: use const`);
    }
  }
  return found;
}

const found = process.argv.slice(2).flatMap(lint);
for (const each of found) console.log(each);
process.exitCode = found.length ? 1 : 0;
