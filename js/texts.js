// Prints the texts of src/ that users can meet as JSON, [file, line, kind, text] a row; scripts/messages.py reads them.
import { readdirSync, readFileSync } from "node:fs";
import { parse } from "@babel/parser";

const ATTRIBUTES = {
  title: "tooltip",
  "aria-label": "label",
  "aria-description": "label",
  "aria-roledescription": "label",
  "aria-valuetext": "label",
  placeholder: "label",
  alt: "label",
  label: "label",
};
const NO_TEXT_ATTRIBUTE =
  /^(class|style|d|id|key|role|type|name|viewBox|points|transform|data-.*)$/;
const TEXT_KEY =
  /^(text|title|label|word|words|name|hint|tooltip|action|detail|placeholder|ariaLabel)$/;
const NO_TEXT_CALL =
  /^(querySelector(All)?|closest|matches|matchMedia|setProperty|setAttribute|getContext|split|RegExp|debug)$/;
const KINDS = [
  [/(error|fail|problem|refus|reason|invalid|reject)/i, "error"],
  [/warn/i, "warning"],
  [/(status|phase|notice|progress|announce|report)/i, "status"],
];
const INSERTED = /\$\{.*?\}/g;
const WORD = /\p{L}{2}/u;
// GLSL, CSS, SVG and selectors.
const CODE =
  /[;{}]\s*$|\bnbg-|var\(--|^#(version|define)|\b[iu]?vec[234]\b|^[Mm][\d.-]+[ ,\d]|^<svg|^(translate|linear-gradient|rgb)\(|\[role=/;
// Where strings that nothing else marks as texts are the names of programs and jobs.
const NAMES_ONLY = /\/(webgl|plan\/edit_|views\/run_queries|plan\/derived_values)/;

/** The kind that a function, class or variable of this name gives to its texts, or undefined. */
const kindOf = (name) => KINDS.find(([pattern]) => pattern.test(name ?? ""))?.[1];
const nameOf = (node) => node?.name ?? node?.value ?? node?.property?.name ?? "";
const squeeze = (text) => text.replace(/\s+/g, " ").trim();

/** The texts of one file. */
function textsOf(file, source) {
  const rows = [];
  const shown = new Set(); // JSX that the text of an element around it contains
  const sourceOf = (node) => squeeze(source.slice(node.start, node.end));
  const emit = (node, kind, text) => rows.push([file, node.loc.start.line, kind, squeeze(text)]);

  /** A string, template or sum of them as one text, or undefined. */
  function textOf(node) {
    if (node.type === "StringLiteral") return node.value;
    if (node.type === "TemplateLiteral") {
      const inserted = (k) =>
        k < node.expressions.length ? `\${${sourceOf(node.expressions[k])}}` : "";
      return node.quasis.map((part, k) => part.value.cooked + inserted(k)).join("");
    }
    if (node.type !== "BinaryExpression" || node.operator !== "+") return undefined;
    const sides = [node.left, node.right].map(textOf);
    if (sides.every((side) => side === undefined)) return undefined;
    return sides
      .map((side, k) => side ?? `\${${sourceOf(k === 0 ? node.left : node.right)}}`)
      .join("");
  }

  /** An element's content as one text, and whether it has words of its own; adds the nodes in it to `contained`. */
  function contentOf(element, contained) {
    let hasWords = false;
    const parts = element.children.map((child) => {
      const inner = child.expression ?? child;
      const text = child.type === "JSXText" ? child.value : textOf(inner);
      hasWords ||= text !== undefined && WORD.test(text.replace(INSERTED, ""));
      if (text !== undefined) return /^\s*\n\s*$/.test(text) ? "" : text;
      if (inner.type === "JSXEmptyExpression") return "";
      const code = sourceOf(inner);
      if (inner.type !== "JSXElement" && /<[A-Za-z>]/.test(code)) return "{…}";
      contained.add(inner);
      if (inner.type !== "JSXElement") return `{${code}}`;
      const tag = sourceOf(inner.openingElement.name);
      const content = contentOf(inner, contained).text;
      return content === "" ? `<${tag}/>` : `<${tag}>${content}</${tag}>`;
    });
    return { text: squeeze(parts.join("")), hasWords };
  }

  /** Walks a node; `isText` says that every string below is a text, `kind` of which kind. */
  function walk(node, kind, isText) {
    if (Array.isArray(node)) for (const child of node) walk(child, kind, isText);
    if (typeof node?.type !== "string") return;
    const children = (names, ...context) => {
      for (const name of names ?? Object.keys(node)) walk(node[name], ...context);
    };
    const text = textOf(node);
    if (text !== undefined) {
      const words = text.replace(INSERTED, "0");
      const isProse =
        (/\s/.test(words.trim()) && /\p{L}{3}|\p{L}{2}\s\p{L}/u.test(words)) ||
        (file.endsWith("x") && /^\p{Lu}\p{Ll}{2,}$/u.test(words));
      const isWanted = isText
        ? WORD.test(words)
        : isProse && !(kind === "text" && NAMES_ONLY.test(file));
      if (isWanted && !CODE.test(words)) emit(node, kind, text);
      return;
    }
    switch (node.type) {
      case "ImportDeclaration":
      case "TSTypeAliasDeclaration":
      case "TSInterfaceDeclaration":
      case "TSTypeAnnotation":
      case "TSTypeParameterInstantiation":
      case "JSXText":
        return;
      case "TSAsExpression":
      case "TSSatisfiesExpression":
        return walk(node.expression, kind, isText);
      case "JSXElement":
      case "JSXFragment": {
        const contained = new Set();
        const content = contentOf(node, contained);
        if (content.hasWords && !shown.has(node)) emit(node, "text", content.text);
        if (content.hasWords) for (const inner of contained) shown.add(inner);
        walk(node.openingElement?.attributes, kind, false);
        // What the content shows whole is not repeated; elements within expressions and attributes are.
        for (const child of node.children) {
          const inner = child.expression ?? child;
          const isElement = inner.type === "JSXElement";
          if (textOf(inner) === undefined && (isElement || !shown.has(inner)))
            walk(inner, "text", !isElement);
        }
        return;
      }
      case "JSXAttribute": {
        const name = nameOf(node.name);
        if (name in ATTRIBUTES) walk(node.value, ATTRIBUTES[name], true);
        else if (!NO_TEXT_ATTRIBUTE.test(name)) walk(node.value, kind, TEXT_KEY.test(name));
        return;
      }
      case "ThrowStatement":
        return children(undefined, "error", true);
      case "NewExpression":
      case "CallExpression": {
        const name = nameOf(node.callee);
        const own = kindOf(name);
        walk(node.callee, kind, isText);
        if (!NO_TEXT_CALL.test(name))
          walk(node.arguments, own ?? kind, own === "error" && /Error$/.test(name));
        return;
      }
      case "ConditionalExpression":
        return children(["consequent", "alternate"], kind, isText);
      case "BinaryExpression":
      case "SwitchCase":
        return children(["consequent"], kind, isText);
      case "MemberExpression":
        return walk(node.object, kind, isText);
      case "ObjectProperty": {
        const isNamed =
          TEXT_KEY.test(nameOf(node.key)) && /\s|^\p{Lu}/u.test(textOf(node.value) ?? "");
        return walk(node.value, kindOf(nameOf(node.key)) ?? kind, isText || isNamed);
      }
      case "VariableDeclarator":
      case "FunctionDeclaration":
      case "ClassMethod":
      case "ClassProperty":
      case "ObjectMethod": {
        const name = nameOf(node.id ?? node.key);
        const isTable = /^[A-Z_]*(TEXT|WORD|LABEL|TITLE|HINT|NAME)S?(_[A-Z]+)?$/.test(name);
        return children(["init", "value", "params", "body"], kindOf(name) ?? kind, isTable);
      }
      default:
        children(undefined, kind, isText);
    }
  }

  const options = {
    sourceType: "module",
    plugins: ["typescript", ...(file.endsWith("x") ? ["jsx"] : [])],
  };
  walk(parse(source, options).program.body, "text", false);
  return rows;
}

const folder = new URL("src/", import.meta.url);
const files = readdirSync(folder, { recursive: true }).filter((name) =>
  /(?<!\.d)\.tsx?$/.test(name),
);
const rows = files.sort().flatMap((name) => {
  const source = readFileSync(new URL(name, folder), "utf8");
  return source.startsWith("// GENERATED") ? [] : textsOf(`js/src/${name}`, source);
});
process.stdout.write(JSON.stringify(rows));
