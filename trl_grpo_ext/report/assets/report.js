// The report: the order of its sections, and what is in each.

const SECTIONS = [
  ["findings", "Findings"],
  ["reward", "Reward"],
  ["verdicts", "Verdicts"],
  ["groups", "Groups"],
  ["length", "Length"],
  ["policy", "Policy"],
  ["terms", "Terms"],
  ["prompts", "Prompts"],
  ["completions", "Completions"],
  ["settings", "Settings"],
];

const OF_TRAINING = ["findings", "groups", "policy"]; // they say nothing of an evaluation
const OF_ONE_RUN = ["terms", "prompts", "completions"]; // a page of two runs leaves them to the page of each

function buildReport(data) {
  const page = document.getElementById("page");
  const { runs } = data;
  const panels = runs.map(panelsOf);
  shareRanges(runs, panels);
  const [run] = runs;
  const browser = runs.length === 1 ? completionBrowser(run) : null;
  const contents = {
    findings: () => sideBySide(runs, (run) => findingsOf(run, spanOf(runs))),
    reward: () => [overlay(runs), charts("reward")],
    verdicts: () => charts("verdicts"),
    groups: () => charts("groups"),
    length: () => charts("length"),
    policy: () => [charts("policy"), sideBySide(runs, (run) => notes(policyNotes(run)))],
    terms: () => [termsOf(run, browser), charts("terms")],
    prompts: () => promptsOf(run, browser),
    completions: () => browser.element,
    settings: () => settingsOf(data),
  };
  const charts = (section) =>
    chartGrid(
      runs,
      panels.map((own) => own.filter((panel) => panel.section === section)),
    );
  const hidden = [...(browser ? [] : OF_ONE_RUN), ...(runs.every((run) => run.evaluated) ? OF_TRAINING : [])];
  const sections = SECTIONS.filter(([id]) => !hidden.includes(id))
    .map(([id, title]) => [id, title, [contents[id]()].flat().filter(Boolean)])
    .filter(([, , inside]) => inside.length);
  page.append(
    header(data, sections),
    data.comparison ? el("div", { class: "answer" }, el("h1", { text: data.comparison })) : "",
    el("div", { class: "answers" }, sideBySide(runs, answerOf)),
    ...sections.map(([id, title, inside]) =>
      el(
        "section",
        { id, "aria-labelledby": `${id}-title` },
        el("h2", { id: `${id}-title`, text: title }),
        leadOf(id, runs),
        ...inside,
      ),
    ),
    el("footer", {
      class: "note",
      text: `trl-grpo-ext ${data.version}. Made ${data.made}. This file loads nothing and sends nothing.`,
    }),
  );
  drawCharts();
  browser?.show();
}

const LEADS = {
  reward:
    "Step N is after N updates: the first batch and an evaluation before training are at step 0. The console calls that batch step 1.",
  verdicts: "What each verifier said of the completions, and so what the numbers above are made of.",
  terms: "Over the whole run. A shadow is a term of weight 0; it tells what training on the others has led to.",
};

function leadOf(id, runs) {
  if (id === "prompts") return el("p", { class: "note lead", text: promptsLead(runs[0]) });
  const marked =
    id === "findings" && runs.some((run) => run.findings.length)
      ? "Dotted lines in the charts are at the steps of findings."
      : null;
  const text = id === "reward" && runs.every((run) => run.main_mode === "eval") ? null : LEADS[id] || marked;
  return text ? el("p", { class: "note lead", text }) : null;
}

function promptsLead(run) {
  const trained = run.main_mode === "train";
  const part = trained ? "in training" : "in evaluations";
  const rest = trained && run.eval.steps.length ? " Evaluations are not counted." : "";
  return `How often each prompt was answered correctly ${part}, by the first term in force.${rest}`;
}

function header({ runs }, sections) {
  return el(
    "header",
    { class: "top" },
    el(
      "nav",
      { "aria-label": "Sections" },
      el("span", { class: "brand", text: runs.length > 1 ? "Two runs" : runs[0].name }),
      el("div", { class: "links" }, ...sections.map(([id, title]) => el("a", { href: `#${id}`, text: title }))),
      themeButton(),
    ),
    runs.length > 1
      ? el("div", { class: "sides names" }, ...runs.map((run) => el("span", { class: "runname", text: run.name })))
      : null,
  );
}

/** One column for one run, two for two. */
function sideBySide(runs, build) {
  const parts = runs.map(build);
  if (parts.every((part) => !part)) return null;
  return runs.length === 1
    ? parts[0]
    : el(
        "div",
        { class: "sides" },
        ...parts.map((part, place) =>
          el("div", {}, el("p", { class: "stacked", text: runs[place].name }), part || note("Not in this run.")),
        ),
      );
}

function notes(lines) {
  return lines.length ? note(lines.join(" ")) : null;
}

// --- the answer -----------------------------------------------------------------------------------------------------

function answerOf(run) {
  return el(
    "div",
    { class: "answer" },
    el("h1", {}, ...withCode(run.sentence || "This run could not be diagnosed.")),
    note(factsOf(run).join(" \u00b7 ")),
    keyFigures(run),
  );
}

function factsOf(run) {
  const { settings } = run;
  const steps = run[run.main_mode].steps;
  const going =
    run.main_mode === "train" && settings.max_steps > 0 && steps.length && steps.at(-1) + 1 < settings.max_steps;
  const facts = [
    run.main_mode === "train"
      ? `${plural((steps.at(-1) ?? -1) + 1, "step")}${going ? ` of ${count(settings.max_steps)}` : ""}`
      : run.evaluated
        ? ""
        : plural(steps.length, "evaluation"),
  ].filter(Boolean);
  facts.push(completionsSaid(run));
  for (const name of [settings.model, settings.dataset]) if (name) facts.push(name);
  if (settings.num_generations) facts.push(`groups of ${settings.num_generations}`);
  if (settings.loss_type) facts.push(`loss ${settings.loss_type}`);
  if (settings.beta !== undefined && settings.beta !== null) facts.push(`beta ${settings.beta}`);
  if (settings.learning_rate) facts.push(`learning rate ${settings.learning_rate}`);
  if (run.unreadable) facts.push(`${plural(run.unreadable, "batch", "batches")} could not be read`);
  if (run.unread)
    facts.push(
      `${plural(run.unread, "batch", "batches")}, spread over the run, left out for lack of time: trl-grpo-ext report reads all`,
    );
  return run.batches ? facts : [];
}

/** The scores that the answer names, and other figures of the same part of the run. */
function keyFigures(run) {
  const { tiles, notes: where } = run.key_figures;
  if (!tiles.length) return null;
  const change = (from, to) => (from && from !== to ? el("span", { class: "from", text: `${from} \u2192 ` }) : null);
  const tile = ([label, from, to]) => el("div", {}, el("dt", { text: label }), el("dd", {}, change(from, to), to));
  return el("div", { class: "figures" }, el("dl", {}, ...tiles.map(tile)), notes(where));
}

// --- findings -------------------------------------------------------------------------------------------------------

const SEVERITIES = { info: "info", warning: "warn", critical: "bad" };

function findingsOf(run, span) {
  const items = run.findings.map((found) => ({ found, row: findingRow(found) }));
  const lacking = run.not_checked.length
    ? folded(
        `${plural(run.not_checked.length, "check")} could not be made, or only in part`,
        el(
          "ul",
          { class: "plain" },
          ...run.not_checked.map(([code, needs]) =>
            el("li", { class: "note" }, el("span", { class: "mono", text: code }), ` needs ${needs}`),
          ),
        ),
      )
    : null;
  if (!items.length)
    return el("div", {}, note(run.batches ? "No finding was recorded." : "Nothing to check yet."), lacking);
  return el(
    "div",
    {},
    findingTimeline(span, items),
    el("ol", { class: "findings" }, ...items.map((item) => item.row)),
    lacking,
  );
}

function findingRow(found) {
  const facts = [
    found.step === null ? "" : `from step ${found.step}${found.holds ? " to the end" : ""}`,
    ...Object.entries(found.numbers).map(([name, value]) => `${words(name)} ${number(value)}`),
  ].filter(Boolean);
  return el(
    "li",
    { class: SEVERITIES[found.severity], tabindex: "-1" },
    el("p", { class: "said" }, ...withCode(found.sentence)),
    el("p", {}, ...withCode(found.action)),
    el("p", { class: "note" }, el("span", { class: "mono", text: found.code }), ` \u00b7 ${facts.join(" \u00b7 ")}`),
    found.about.length
      ? folded("What it looks at, and what helps", ...found.about.map((text) => el("p", {}, ...withCode(text))))
      : null,
  );
}

function findingTimeline([low, high], items) {
  const codes = [...new Set(items.map(({ found }) => found.code))];
  const dots = ({ found, row }) => {
    const dot = el("button", {
      class: `dot ${SEVERITIES[found.severity]}`,
      title: `step ${found.step}`,
      "aria-label": `${found.code}, step ${found.step}`,
      onclick: () => {
        row.scrollIntoView({ block: "center" });
        row.focus({ preventScroll: true });
      },
    });
    dot.style.left = `${high > low ? ((found.step - low) / (high - low)) * 100 : 50}%`;
    return dot;
  };
  return el(
    "div",
    { class: "timeline" },
    ...codes.map((code) =>
      el(
        "div",
        { class: "lane" },
        el("span", { class: "mono", text: code }),
        el(
          "div",
          { class: "track" },
          ...items.filter(({ found }) => found.code === code && found.step !== null).map(dots),
        ),
      ),
    ),
    el(
      "div",
      { class: "lane scale" },
      el("span"),
      el("div", { class: "track" }, el("span", { text: `step ${low}` }), el("span", { text: `${high}` })),
    ),
  );
}

// --- charts ---------------------------------------------------------------------------------------------------------

/** The first and last step that anything is known of. */
function spanOf(runs) {
  const steps = runs
    .flatMap((run) => [run.train.steps, run.eval.steps, run.logs.steps])
    .flatMap((own) => [own[0], own.at(-1)])
    .filter((step) => step !== undefined);
  const found = runs.flatMap((run) => run.findings.map((one) => one.step)).filter((step) => typeof step === "number");
  const all = [...steps, ...found];
  return all.length ? [Math.min(...all), Math.max(...all)] : [0, 1];
}

/** The same axes for the same chart of two runs. */
function shareRanges(runs, panels) {
  const span = spanOf(runs);
  const byId = new Map();
  for (const panel of panels.flat()) byId.set(panel.id, [...(byId.get(panel.id) || []), panel]);
  for (const alike of byId.values()) {
    const ranges = alike
      .filter((panel) => panel.kind !== "stack")
      .map(extent)
      .filter(([low]) => low !== null);
    const range = ranges.length
      ? [Math.min(...ranges.map(([low]) => low)), Math.max(...ranges.map(([, high]) => high))]
      : undefined;
    for (const panel of alike) Object.assign(panel, { span, range: panel.kind === "stack" ? undefined : range });
  }
}

/** The score of two runs in one chart. */
function overlay(runs) {
  if (runs.length === 1 || runs.every((run) => run.evaluated)) return null;
  const tables = runs.map((run, place) => ({
    label: run.name,
    color: `--term-${place + 1}`,
    wide: true,
    x: run[run.main_mode].steps,
    values: run[run.main_mode].figures.pass || run[run.main_mode].steps.map(() => null),
  }));
  const [x, columns] = joined(tables, "values");
  if (!x.length) return null;
  const series = tables.map((table, place) => ({ ...table, values: columns[place] }));
  const title = "Correct completions, both runs";
  return el(
    "div",
    { class: "grid one" },
    chartFigure({ id: "both", kind: "lines", title, format: percent, range: [0, 1], span: spanOf(runs), x, series }),
  );
}

function chartGrid(runs, panels) {
  const ids = [...new Set(panels.flat().map((panel) => panel.id))];
  if (!ids.length) return null;
  if (runs.length === 1)
    return el("div", { class: `grid${ids.length === 1 ? " one" : ""}` }, ...panels[0].map(chartFigure));
  const cell = (id, place) => {
    const panel = panels[place].find((own) => own.id === id);
    return panel
      ? chartFigure({ ...panel, id: `${id}-${place}`, run: runs[place].name })
      : el("div", { class: "panel" }, note("Not in this run."));
  };
  return el("div", { class: "grid" }, ...ids.flatMap((id) => runs.map((_, place) => cell(id, place))));
}

// --- terms against each other ---------------------------------------------------------------------------------------

function termsOf(run, browser) {
  if (run.terms.length < 2) return null;
  return el(
    "div",
    { class: "pairs" },
    ...run.shadows.slice(0, 12).map((pair) => shadowTable(run, pair, browser)),
    correlations(run),
  );
}

function shadowTable(run, { term, table: counts, kappa }, browser) {
  const [both, only, other, neither] = counts;
  const all = both + only + other + neither;
  const cell = (n, passed, shadowPassed) => {
    const button = el(
      "button",
      {
        class: passed === shadowPassed ? "agree" : "differ",
        title: "Read them",
        onclick: () => browser.showPair(passed, term, shadowPassed),
      },
      el("b", { text: percent(n / all) }),
      el("span", { text: count(n) }),
    );
    button.style.setProperty("--share", `${Math.round((n / all) * 100)}%`);
    return el("td", {}, button);
  };
  const rows = [
    tableRow("training passes", cell(both, true, true), cell(only, true, false)),
    tableRow("training fails", cell(other, false, true), cell(neither, false, false)),
  ];
  return table("two", ["", "shadow passes", "shadow fails"], rows, [
    el("h3", { text: `Training against the shadow ${term}` }),
    note(kappa === null ? "Kappa is not defined: each says one thing only." : `Cohen\u2019s kappa ${number(kappa)}`),
  ]);
}

function correlations(run) {
  const found = (a, b) =>
    run.correlations.find((pair) => (pair.first === a && pair.second === b) || (pair.first === b && pair.second === a));
  const terms = run.terms.slice(0, 12);
  const cell = (a, b) => {
    if (a === b) return el("td", { class: "same" });
    const value = found(a, b)?.correlation ?? null;
    const node = el("td", { text: value === null ? "\u2013" : number(value) });
    if (value !== null)
      node.style.background = `color-mix(in srgb, var(${value < 0 ? "--incorrect" : "--live"}) ${Math.round(Math.abs(value) * 55)}%, transparent)`;
    return node;
  };
  const rows = terms.map((a) => tableRow(a, ...terms.map((b) => cell(a, b))));
  const matrix = table("matrix", ["", ...terms], rows, [
    el("h3", { text: "How values go together within groups" }),
    note("Correlation, less each group\u2019s mean; a dash where one of them never differs."),
  ]);
  return el("div", { class: "scroll", tabindex: "0" }, matrix);
}

// --- prompts --------------------------------------------------------------------------------------------------------

const PROMPTS_A_PAGE = 12;

function promptsOf(run, browser) {
  const { count: all, bins, rows } = run.prompts;
  if (!all) return null;
  const list = table("list", ["prompt", "correct", "over time", "judged"], []);
  let from = 0;
  let order = 1;
  const show = () => {
    const ordered = order > 0 ? rows : [...rows].reverse();
    const shown = ordered.slice(from, from + PROMPTS_A_PAGE);
    list.lastChild.replaceChildren(...shown.map((row) => promptRow(row, browser)));
    pages.tell(from, rows.length);
  };
  const pages = pager(PROMPTS_A_PAGE, (by) => {
    from = Math.max(0, from + by);
    show();
  });
  const turned = el("button", {
    text: "Easiest first",
    onclick: () => {
      order = -order;
      from = 0;
      turned.textContent = order > 0 ? "Easiest first" : "Hardest first";
      show();
    },
  });
  show();
  return el(
    "div",
    { class: "prompts" },
    passRates(rows.length, bins),
    el(
      "div",
      {},
      list,
      el(
        "div",
        { class: "pager" },
        ...pages.parts,
        turned,
        rows.length < all
          ? el("span", { class: "note", text: `A random sample of about ${count(all)} prompts.` })
          : null,
      ),
    ),
  );
}

function passRates(shown, bins) {
  const most = Math.max(...bins);
  const last = bins.length - 1;
  const names = bins.map((_, place) =>
    place === 0 ? "0\u202f%" : place === last ? "100\u202f%" : `${place * 10 - 10}\u2013${place * 10}\u202f%`,
  );
  return el(
    "figure",
    {
      class: "rates",
      role: "img",
      "aria-label": `Prompts by pass rate: ${names.map((name, place) => `${name}: ${bins[place]}`).join(", ")}`,
    },
    el("figcaption", {}, el("h3", { text: "Pass rates" }), note(plural(shown, "prompt"))),
    ...bins.map((n, place) => {
      const bar = el("span", { class: "bar" });
      bar.style.width = `${most ? (n / most) * 100 : 0}%`;
      return el(
        "div",
        { class: "rate" },
        el("span", { class: "note", text: names[place] }),
        el("span", { class: "lane" }, bar),
        el("b", { text: n ? count(n) : "" }),
      );
    }),
  );
}

function promptRow(row, browser) {
  const title = el("bdi", { text: start(row.title, 160) || "(empty)" });
  const open =
    row.prompt === null
      ? el("span", { title: "This page holds none of its completions" }, title)
      : el(
          "button",
          {
            class: "link",
            title: "Read its completions",
            onclick: () => browser.showPrompt(row.prompt),
          },
          title,
        );
  return el(
    "tr",
    {},
    el("td", {}, open),
    el("td", { class: "n", text: percent(row.rate) }),
    el("td", {}, strip(row.steps)),
    el("td", { class: "n", text: count(row.judged) }),
  );
}

/** A small bar for each time that the prompt was tried. */
function strip(steps) {
  return el(
    "span",
    {
      class: "strip",
      role: "img",
      "aria-label": steps.map(([step, passed, judged]) => `step ${step}: ${passed} of ${judged}`).join(", "),
    },
    ...steps.slice(-24).map(([step, passed, judged]) => {
      const bar = el("span", { title: `step ${step}: ${passed} of ${judged}` });
      bar.style.setProperty("--rate", `${(passed / judged) * 100}%`);
      return bar;
    }),
  );
}

// --- settings -------------------------------------------------------------------------------------------------------

function settingsOf({ runs }) {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.settings)))];
  if (!names.length) return null;
  const text = (value) =>
    value === undefined || value === null
      ? "\u2013"
      : typeof value === "object"
        ? JSON.stringify(value)
        : String(value);
  const rows = names.map((name) => {
    const values = runs.map((run) => text(run.settings[name]));
    return el(
      "tr",
      { class: new Set(values).size > 1 ? "differs" : null },
      el("th", { scope: "row", class: "mono", text: name }),
      ...values.map((value) => el("td", { class: "mono", text: value })),
    );
  });
  const head = runs.length > 1 ? ["", ...runs.map((run) => run.name)] : null;
  return el(
    "details",
    { open: runs.length > 1 },
    el("summary", { text: runs.length > 1 ? "Settings; those that differ are marked" : "Settings of the trainer" }),
    el("div", { class: "scroll" }, table("list settings", head, rows)),
  );
}

buildReport(readData());
