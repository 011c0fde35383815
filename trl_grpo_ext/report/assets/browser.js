// The browser of completions: a paged list with filters, and beside it the one that is chosen with its group.

const ROWS_A_PAGE = 50;
const FIRST_CHARACTERS = 6000;

const VIEWS = [
  ["all", "All", "Every completion that this page holds", () => true],
  ["advantage", "Highest advantage", "What training pushed towards, the most first", (one) => one.advantage > 0],
  ["disagrees", "Disagreements", "A shadow passes what training fails, or the other way round", (one) => one.disagrees],
  ["hack", "Hacks", "It failed, but a naive grader would have passed it", (one) => one.hack],
  ["void", "Void", "It could not be judged, by the grader's or the data's fault", (one) => one.void],
  ["cut", "Cut", "It ran into the length limit", (one) => one.cut],
  ["long", "Longest", "The most tokens first", () => true],
];

const ORDERS = [
  ["late", "latest first", (a, b) => b.group.place - a.group.place || a.place - b.place],
  ["step", "earliest first", (a, b) => a.place - b.place],
  ["up", "highest advantage", (a, b) => below(b.advantage, a.advantage) || a.place - b.place],
  ["down", "lowest advantage", (a, b) => below(a.advantage, b.advantage) || a.place - b.place],
  ["long", "longest", (a, b) => size(b) - size(a) || a.place - b.place],
  ["short", "shortest", (a, b) => size(a) - size(b) || a.place - b.place],
];
const ORDER_OF_VIEW = { advantage: "up", long: "long", disagrees: "up" };
const OF_ADVANTAGES = ["advantage", "up", "down"]; // views and orders; nothing is pushed where nothing is trained

const size = (one) => one.tokens ?? one.text.length;

function below(a, b) {
  if (a === b) return 0;
  if (a === null) return 1;
  return b === null ? -1 : a - b;
}

/** Every completion of the run, knowing its group, its run, and the first of its siblings that is the same. */
function completionsOf(run) {
  const found = [];
  for (const group of run.groups) {
    group.run = run;
    group.place = found.length;
    for (const member of group.members) {
      member.group = group;
      member.place = found.length;
      member.first = group.members.find((other) => other === member || same(other, member));
      found.push(member);
    }
    for (const member of group.members) member.copies = group.members.filter((other) => other.first === member).length;
  }
  return found;
}

const SAID = ["turns", "outcome", "total", "advantage", "cut", "void", "hack", "disagrees", "primary"];

/** Whether two of a group say the same, and the same is said of them: they have a row together. */
function same(one, other) {
  const statuses = ({ verdicts }) => Object.entries(verdicts).map(([term, verdict]) => [term, verdict.status]);
  const said = (one) => JSON.stringify([...SAID.map((key) => one[key]), statuses(one)]);
  return one.text === other.text && said(one) === said(other);
}

function completionBrowser(run) {
  const all = completionsOf(run);
  if (!all.length)
    return { element: note("No completion has been recorded yet."), show() {}, showPair() {}, showPrompt() {} };
  const state = {
    view: "all",
    order: "late",
    term: "",
    status: "",
    mode: run.main_mode, // what is trained on; evaluations are a choice of the filter
    text: "",
    extra: null,
    from: 0,
    found: all,
    chosen: all[0],
  };
  const parts = browserParts(run, all, state, { refresh, turn });
  const { list, detail, pages } = parts;

  function refresh() {
    state.found = all
      .filter((one) => one.copies && fits(one, state))
      .sort(ORDERS.find(([key]) => key === state.order)[2]);
    state.from = 0;
    state.chosen = state.found[0] || null;
    parts.reflect();
    showList();
    showDetail();
  }

  function showList() {
    const { found, from } = state;
    list.replaceChildren(
      ...found.slice(from, from + ROWS_A_PAGE).map((one) => listRow(one, one === state.chosen.first, choose)),
    );
    list.setAttribute("aria-activedescendant", state.chosen ? rowId(state.chosen.first) : "");
    pages.tell(from, found.length, toldRows(found));
  }

  function showDetail() {
    detail.replaceChildren(
      state.chosen ? completionDetail(state.chosen, choose) : note("No completion fits these filters."),
    );
    detail.scrollTop = 0;
  }

  function choose(one) {
    const before = state.chosen;
    state.chosen = one;
    const place = state.found.indexOf(one.first);
    if (place >= 0 && (place < state.from || place >= state.from + ROWS_A_PAGE)) {
      state.from = Math.floor(place / ROWS_A_PAGE) * ROWS_A_PAGE;
      showList();
    } else {
      for (const other of [before, one]) {
        const row = other && document.getElementById(rowId(other.first));
        if (row) row.setAttribute("aria-selected", String(other === one));
      }
      list.setAttribute("aria-activedescendant", rowId(one.first));
    }
    const row = document.getElementById(rowId(one.first));
    if (row) row.scrollIntoView({ block: "nearest", behavior: "instant" });
    showDetail();
  }

  function step(by) {
    const place = state.found.indexOf(state.chosen.first) + by;
    if (place >= 0 && place < state.found.length) choose(state.found[place]);
  }

  function sibling(by) {
    const { members } = state.chosen.group;
    choose(members[(members.indexOf(state.chosen) + by + members.length) % members.length]);
  }

  const keys = {
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    j: () => step(1),
    k: () => step(-1),
    PageDown: () => turn(ROWS_A_PAGE),
    PageUp: () => turn(-ROWS_A_PAGE),
    ArrowRight: () => sibling(1),
    ArrowLeft: () => sibling(-1),
    Home: () => state.found.length && choose(state.found[0]),
    End: () => state.found.length && choose(state.found.at(-1)),
  };
  list.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey || !state.chosen) return;
    event.preventDefault();
    keys[event.key]();
  });

  function turn(by) {
    const from = state.from + by;
    if (from < 0 || from >= state.found.length) return;
    state.from = from;
    state.chosen = state.found[from];
    showList();
    list.scrollTop = 0;
    showDetail();
  }

  function only(extra) {
    Object.assign(state, {
      view: "all",
      order: extra.order || "late",
      term: "",
      status: "",
      mode: run.main_mode,
      text: "",
      extra,
    });
    refresh();
    document.getElementById("completions").scrollIntoView();
    list.focus({ preventScroll: true });
  }

  return {
    element: parts.element,
    show: refresh,
    showPrompt: (prompt) => only({ label: "one prompt", fits: (one) => one.group.prompt === prompt }),
    showPair: (passed, shadow, shadowPassed) =>
      only({
        label: `training ${passed ? "passes" : "fails"}, ${shadow} ${shadowPassed ? "passes" : "fails"}`,
        order: "up",
        fits: (one) => passes(one, one.primary) === passed && passes(one, shadow) === shadowPassed,
      }),
  };
}

/** What a term says of a completion; null where it does not apply. Terms may have any name. */
function verdictOf(one, term) {
  return term !== null && Object.hasOwn(one.verdicts, term) ? one.verdicts[term] : null;
}

/** Whether a term passes a completion; null where it could not say. */
function passes(one, term) {
  const verdict = verdictOf(one, term);
  return verdict && verdict.score !== null ? verdict.status === "correct" : null;
}

/** Whether a completion is of the part of the run that is chosen. */
function inPart({ group }, { mode }) {
  return !mode || group.mode === mode;
}

function fits(one, state) {
  if (state.extra && !state.extra.fits(one)) return false;
  if (!VIEWS.find(([key]) => key === state.view)[3](one)) return false;
  if (!inPart(one, state)) return false;
  const said = state.term ? [verdictOf(one, state.term)] : Object.values(one.verdicts);
  const isSo = (verdict) => verdict && (!state.status || verdict.status === state.status);
  if ((state.term || state.status) && !said.some(isSo)) return false;
  return !state.text || one.text.toLowerCase().includes(state.text);
}

// --- what it is made of ---------------------------------------------------------------------------------------------

function browserParts(run, all, state, { refresh, turn }) {
  const changed = (change) => {
    Object.assign(state, change);
    refresh();
  };
  const suits = ([key]) => !OF_ADVANTAGES.includes(key) || run.main_mode === "train";
  const views = VIEWS.filter(suits);
  const buttons = views.map(([key, label, title]) =>
    el(
      "button",
      {
        title,
        "data-view": key,
        onclick: () => changed({ view: key, order: ORDER_OF_VIEW[key] || "late", extra: null }),
      },
      label,
      key === "all" || key === "long" ? null : el("span", { class: "count" }),
    ),
  );
  const countViews = () =>
    views.forEach(([, , , is], place) => {
      const told = buttons[place].querySelector(".count");
      if (!told) return;
      const n = all.filter((one) => is(one) && inPart(one, state)).length;
      told.textContent = count(n);
      buttons[place].disabled = n === 0;
    });
  const statuses = STATUSES.filter((status) =>
    all.some((one) => Object.values(one.verdicts).some((verdict) => verdict.status === status)),
  );
  const modes = [...new Set(all.map((one) => one.group.mode))];
  const select = (label, name, options) =>
    el(
      "select",
      { "aria-label": label, "data-filter": name, onchange: (event) => changed({ [name]: event.target.value }) },
      ...options.map(([value, text]) => el("option", { value, text })),
    );
  const filters = [
    modes.length > 1
      ? select("Part of the run", "mode", [
          ["", "training and evaluation"],
          ["train", "training"],
          ["eval", "evaluation"],
        ])
      : null,
    select("Term", "term", [["", "any term"], ...run.terms.map((term) => [term, term])]),
    select("Verdict", "status", [["", "any verdict"], ...statuses.map((status) => [status, status])]),
    select(
      "Order",
      "order",
      ORDERS.filter(suits).map(([key, label]) => [key, label]),
    ),
  ].filter(Boolean);
  let waiting = 0;
  const search = el("input", {
    type: "search",
    placeholder: "Find in completions",
    "aria-label": "Find in completions",
    oninput: (event) => {
      clearTimeout(waiting);
      waiting = setTimeout(() => changed({ text: event.target.value.toLowerCase() }), 150);
    },
  });
  const extra = el("button", {
    class: "extra",
    "aria-pressed": "true",
    onclick: () => changed({ extra: null }),
  });
  const list = el("div", {
    class: "rows",
    role: "listbox",
    tabindex: "0",
    "aria-label": "Completions; arrow keys move, left and right go through the group",
  });
  const detail = el("article", { class: "detail", tabindex: "0", "aria-label": "The completion" });
  const pages = pager(ROWS_A_PAGE, turn);
  const element = el(
    "div",
    { class: "browser" },
    el("p", { class: "note lead", text: heldNote(run) }),
    el("div", { class: "views", role: "group", "aria-label": "Views" }, ...buttons, extra),
    el("div", { class: "filters" }, ...filters, search),
    el(
      "div",
      { class: "split" },
      el("div", { class: "left" }, list, el("div", { class: "pager" }, ...pages.parts)),
      detail,
    ),
  );
  const reflect = () => {
    countViews();
    for (const view of buttons)
      view.setAttribute("aria-pressed", String(view.dataset.view === state.view && !state.extra));
    for (const filter of filters) filter.value = state[filter.dataset.filter];
    if (!state.text) search.value = "";
    extra.hidden = !state.extra;
    extra.textContent = state.extra ? shown(`${state.extra.label} \u00d7`) : "";
  };
  return { element, list, detail, pages, reflect };
}

/** How many completions the run has recorded, and how many of them in evaluations beside training. */
function completionsSaid({ main_mode, completions }) {
  const { all, evaluated } = completions;
  if (main_mode === "eval" || !evaluated) return plural(all, "completion");
  return `${plural(all - evaluated, "completion")} + ${count(evaluated)} of evaluation`;
}

function heldNote(run) {
  const { kept, all } = run.completions;
  if (kept === all) return `All ${completionsSaid(run)}, with their groups.`;
  return `${count(kept)} of ${count(all)} completions, in whole groups: those of steps with findings, hacks, disagreements, void ones, the largest advantages, the longest, and a random sample. The others are in scorecards/.`;
}

const rowId = (one) => `completion-${one.place}`;

function toldRows(found) {
  const completions = found.reduce((sum, one) => sum + one.copies, 0);
  return completions === found.length
    ? count(completions)
    : `${count(found.length)} rows, for ${plural(completions, "completion")}`;
}

function listRow(one, chosen, choose) {
  const { group } = one;
  return el(
    "div",
    { class: "row", role: "option", id: rowId(one), "aria-selected": String(chosen), onclick: () => choose(one) },
    el(
      "div",
      { class: "line" },
      el("span", { class: "chips" }, ...group.run.terms.map((term) => chip(term, verdictOf(one, term)))),
      el("span", {
        class: "where",
        text: `${group.mode === "eval" ? "eval " : ""}step ${group.step}`,
      }),
      one.cut ? el("span", { class: "tag", text: "cut" }) : null,
      one.hack ? el("span", { class: "tag", text: "hack" }) : null,
      one.copies > 1
        ? el("span", { class: "tag", title: "Siblings that are the same", text: `\u00d7 ${one.copies}` })
        : null,
      el("span", {
        class: "n",
        title: "advantage",
        text: one.void ? "void" : one.advantage === null ? "" : signed(one.advantage),
      }),
    ),
    el("bdi", { class: "snippet", text: start(one.text.slice(0, 400).replace(/\s+/g, " ").trim(), 180) || "(empty)" }),
  );
}

function chip(term, verdict) {
  if (!verdict) return el("span", { class: "chip none", title: `${term}: does not apply`, text: "\u00b7" });
  return el("span", {
    class: `chip ${verdict.status}`,
    title: `${term}: ${verdict.status}${verdict.reason ? `, ${verdict.reason}` : ""}`,
    "aria-label": `${term} ${verdict.status}`,
    text: MARKS[verdict.status] || "?",
  });
}

function completionDetail(one, choose) {
  const { group } = one;
  const messages = group.run.prompt_texts[group.prompt] || [];
  const facts = [
    ["Total", one.void ? "void" : number(one.total)],
    ["Advantage", one.advantage === null ? "\u2013" : signed(one.advantage)],
    ["Tokens", one.tokens === null ? "\u2013" : `${count(one.tokens)}${one.cut ? ", cut" : ""}`],
    ["Step", `${group.step}${group.mode === "eval" ? ", evaluation" : ""}`],
    ["Group", `${group.group === null ? "\u2013" : group.group}${group.kind ? `, ${words(group.kind)}` : ""}`],
  ];
  return el(
    "div",
    {},
    el(
      "dl",
      { class: "facts" },
      ...facts.map(([name, value]) => el("div", {}, el("dt", { text: name }), el("dd", { text: value }))),
    ),
    siblings(one, choose),
    verdictTable(one),
    el("h3", { text: "Prompt" }),
    ...messages.map(([role, text]) => block(text, role)),
    el("h3", { text: "Completion" }),
    group.prefill ? block(group.prefill, "part of the prompt") : null,
    ...(one.turns || []).map((turn) => ("call" in turn ? callOf(turn) : block(turn.text, turn.role))),
    block(one.text, "", true),
    ...(one.outcome ? [el("h3", { text: "Environment" }), block(one.outcome, "")] : []),
    ...goldOf(group),
    ...Object.entries(one.verdicts)
      .filter(([, verdict]) => verdict.details)
      .map(([term, verdict]) => more(`How ${term} came about`, Object.entries(verdict.details))),
    group.row.length ? more("Dataset row", group.row) : null,
  );
}

/** A call of a tool, folded: its name, how it went, and within it the arguments and the result. */
function callOf({ call, arguments: given, result, failed, seconds }) {
  const how = [result === null ? "no result" : failed ? "failed" : "", seconds === null ? "" : `${number(seconds)} s`];
  const said = how.filter(Boolean).join(", ");
  const summary = `${call}(${start(given.replace(/\s+/g, " "), 80)})${said ? ` \u00b7 ${said}` : ""}`;
  const found = folded(shown(summary), block(given, "arguments"), result === null ? null : block(result, "result"));
  found.className = failed || result === null ? "call failed" : "call";
  return found;
}

/** What the row says is right, beside the completion: gold of other rows, or in another form, is seen at once. */
function goldOf(group) {
  const found = group.row.find(([name]) => name === group.gold);
  return found ? [el("h3", { text: "Gold" }), block(found[1], found[0])] : [];
}

function siblings(one, choose) {
  const { members } = one.group;
  if (members.length < 2) return null;
  const most = Math.max(...members.map((member) => Math.abs(member.advantage || 0))) || 1;
  return el(
    "div",
    { class: "siblings", role: "group", "aria-label": "The group" },
    ...members.map((member, place) => {
      const bar = el("span", { class: `bar ${(member.advantage || 0) < 0 ? "down" : "up"}` });
      bar.style.height = `${(Math.abs(member.advantage || 0) / most) * 18}px`;
      const verdict = verdictOf(member, member.primary);
      const name = `${place + 1} of ${members.length}: ${verdict ? verdict.status : "no verdict"}, advantage ${member.advantage === null ? "not known" : signed(member.advantage)}`;
      return el(
        "button",
        {
          "aria-current": member === one ? "true" : null,
          title: name,
          "aria-label": name,
          onclick: () => choose(member),
        },
        el("span", { class: "bars" }, bar),
        el("span", {
          class: `chip ${verdict ? verdict.status : "none"}`,
          text: verdict ? MARKS[verdict.status] : "\u00b7",
        }),
      );
    }),
  );
}

function verdictTable(one) {
  const { run, weights } = one.group;
  const rows = run.terms.filter((term) => Object.hasOwn(weights, term)).map((term) => verdictRow(one, term));
  const head = ["term", "verdict", "extracted", "value", "weight", "counts"];
  return el("div", { class: "scroll" }, table("list verdicts", head, rows));
}

function verdictRow(one, term) {
  const verdict = verdictOf(one, term);
  const name = el("th", { scope: "row", text: term });
  if (!verdict)
    return el("tr", { class: "absent" }, name, el("td", { colspan: "5", class: "note", text: "does not apply" }));
  const { run, weights } = one.group;
  const { answer, blame, value } = verdict;
  const why = [
    verdict.reason,
    blame === "policy" ? "" : `the ${blame}'s fault`,
    verdict.gated ? "gated" : "",
    verdict.seconds >= 0.1 ? `${number(verdict.seconds)} s` : "",
  ].filter(Boolean);
  const isShadow = run.shadows.some((shadow) => shadow.term === term);
  const cell = (label, text) => el("td", { class: "n", "data-label": label, text });
  return el(
    "tr",
    {},
    name,
    el(
      "td",
      {},
      el("span", { class: "said" }, chip(term, verdict), ` ${verdict.status}`),
      why.length ? el("div", { class: "note mono", text: why.join(", ") }) : null,
    ),
    el(
      "td",
      { class: "extracted", "data-label": "extracted" },
      answer === null
        ? el("span", { class: "note", text: "\u2013" })
        : el("bdi", { class: "mono answer", text: start(answer, 400) + (answer.length > 400 ? "\u2026" : "") }),
    ),
    cell("value", number(value)),
    cell("weight", isShadow ? "shadow" : number(weights[term])),
    cell("counts", value === null || weights[term] === 0 ? "\u2013" : signed(value * weights[term])),
  );
}

/** Text in a box of its own; of a long one the start, the rest when asked for. */
function block(text, label, main) {
  const body = el("pre", { class: `text${main ? " main" : ""}`, dir: "auto" });
  const parts = [label ? el("div", { class: "role", text: label }) : null, body];
  if (!text.length) body.append(el("span", { class: "note", text: "(empty)" }));
  else body.textContent = shown(start(text, FIRST_CHARACTERS));
  if (text.length > FIRST_CHARACTERS) {
    parts.push(
      el("button", {
        class: "whole",
        text: `Show all ${count(text.length)} characters`,
        onclick: (event) => {
          body.textContent = shown(text);
          event.target.remove();
        },
      }),
    );
  }
  return el("div", { class: "block" }, ...parts);
}

function more(title, entries) {
  return folded(title, ...entries.map(([name, text]) => block(text, name)));
}
