// What every page shares. Text reaches the page by textContent alone: the policy of the page forbids markup from text.

function readData() {
  return JSON.parse(document.getElementById("data").textContent);
}

/** An element. `given` holds its class, text, attributes and listeners (`onclick`); a child may be null. */
function el(tag, given = {}, ...children) {
  const node = document.createElement(tag);
  if (tag === "button") node.type = "button"; // no form is sent
  for (const [key, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "text") node.textContent = shown(value);
    else if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : shown(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    node.append(typeof child === "object" ? child : document.createTextNode(shown(child)));
  }
  return node;
}

/** Text as it can be seen: control characters as their pictures, marks that turn the direction round by name. */
function shown(value) {
  return String(value)
    .replace(/\r\n/g, "\n")
    .replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufeff]/g, (c) => `\u27e6U+${hex(c)}\u27e7`)
    .replace(
      /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
      (c) => `\u27e6U+${hex(c)}\u27e7`,
    );
}

function hex(character) {
  return character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
}

/** At most `size` characters of a text, none of them half a surrogate pair. */
function start(text, size) {
  if (text.length <= size) return text;
  const cut = text.charCodeAt(size - 1) >= 0xd800 && text.charCodeAt(size - 1) <= 0xdbff ? size - 1 : size;
  return text.slice(0, cut);
}

/** Three significant digits, no trailing zeros. */
function number(value) {
  if (value === null || value === undefined) return "\u2013";
  const size = Math.abs(value);
  if (value !== 0 && (size >= 1e5 || size < 1e-3)) return powerOfTen(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return Number(value.toFixed(digits)).toLocaleString("en-US", { maximumFractionDigits: 3 }).replace("-", "\u2212");
}

function powerOfTen(value) {
  const [digits, power] = value.toExponential(1).split("e");
  return `${Number(digits)}e${Number(power)}`.replace(/-/g, "\u2212");
}

function signed(value) {
  return value > 0 ? `+${number(value)}` : number(value);
}

function percent(value) {
  if (value === null || value === undefined) return "\u2013";
  const share = value * 100;
  return `${Number(share.toFixed(Math.abs(share) >= 10 ? 0 : 1))}\u202f%`.replace("-", "\u2212");
}

function count(value) {
  return value.toLocaleString("en-US");
}

function plural(value, one, many) {
  return `${count(value)} ${value === 1 ? one : many || `${one}s`}`;
}

function words(name) {
  return name.replace(/_/g, " ");
}

const note = (text) => el("p", { class: "note", text });

/** The head of a table: a cell a name, and an empty one where there is none. */
function tableHead(names) {
  const cell = (name) => (name ? el("th", { scope: "col", text: name }) : el("td"));
  return el("thead", {}, el("tr", {}, names.map(cell)));
}

function tableRow(name, ...cells) {
  return el("tr", {}, el("th", { scope: "row", text: name }), cells);
}

function table(kind, names, rows, caption) {
  return el(
    "table",
    { class: kind },
    caption ? el("caption", {}, caption) : null,
    names ? tableHead(names) : null,
    el("tbody", {}, rows),
  );
}

/** What is shown only when it is asked for. */
function folded(summary, ...inside) {
  return el("details", {}, el("summary", { text: summary }), ...inside);
}

/** Buttons that turn a page, and beside them a note on which part of how many is shown: {parts, tell}. */
function pager(size, turn) {
  const back = el("button", { text: "Previous", onclick: () => turn(-size) });
  const on = el("button", { text: "Next", onclick: () => turn(size) });
  const told = el("span", { class: "note" });
  const tell = (from, all, said = count(all)) => {
    told.textContent = all ? `${count(from + 1)}\u2013${count(Math.min(all, from + size))} of ${said}` : "None fits.";
    back.disabled = from === 0;
    on.disabled = from + size >= all;
  };
  return { parts: [back, on, told], tell };
}

/** Text in which what stands between backticks is code. */
function withCode(text) {
  return String(text)
    .split(/`([^`]*)`/)
    .map((part, place) => (place % 2 ? el("code", { text: part }) : part));
}

const isThere = (value) => value !== null && value !== undefined;
const present = (values) => values.filter(isThere);

// --- light and dark -------------------------------------------------------------------------------------------------

const themeListeners = [];

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function themeButton() {
  const button = el("button", {
    class: "quiet",
    onclick: () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      told();
    },
  });
  const told = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Change to the ${isDark() ? "light" : "dark"} colours`);
    for (const listener of themeListeners) listener();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", told);
  told();
  return button;
}

/** What a colour of the theme is now, as a canvas takes it. */
function color(name) {
  const probe = el("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function swatch(name, shape = "") {
  const node = el("span", { class: `swatch ${shape}`.trim(), "aria-hidden": "true" });
  node.style.color = `var(${name})`;
  return node;
}
