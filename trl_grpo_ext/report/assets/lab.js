// The lab's page: the policy at an update, what the update was made of, and the figures over all of them. Beside the runs
// that were trained stands one of the page's own, with controls.

const lab = readData();
const ACTIONS = lab.runs[0].probabilities[0].map((_, index) => index + 1);
const LAST = lab.runs[0].probabilities.length - 1;
const COLORS = { grpo: "--term-1", reinforce_baseline: "--term-2", reinforce: "--term-3", own: "--term-4" };
const own = lab.rewards ? ownRun(lab, LAST, choose) : null;
const shownNow = { run: lab.runs[0], update: 0, timer: null };

const updates = (values) => values.map((_, index) => index);
const actionColor = (action) => `--action-${action}`;

// --- the page -------------------------------------------------------------------------------------------------------

function buildPage() {
  document.title = lab.title;
  document
    .getElementById("page")
    .append(
      el(
        "header",
        { class: "lab" },
        el("div", {}, el("h1", { text: lab.title }), el("p", { text: introduction() })),
        themeButton(),
      ),
      stepBar(),
      ...(own ? [own.controls] : []),
      el(
        "div",
        { class: "lab-grid" },
        policyPanel(),
        el("div", { class: "panel", id: "detail" }),
        ...runCharts().map(chartFigure),
      ),
      ...(lab.runs.length > 1 ? [comparison()] : []),
      explanation(),
    );
  drawCharts();
  document.getElementById("policy-over-updates").classList.add("wide");
  drawPolicy();
  drawn.forEach(follow);
  themeListeners.push(() => {
    drawPolicy();
    drawn.forEach(follow);
  });
  show(0);
}

function introduction() {
  const best = lab.rewards ? lab.rewards.indexOf(Math.max(...lab.rewards)) + 1 : null;
  const aim = best === null ? "" : ` Action ${best} earns most.`;
  return (
    `A policy that is a softmax of ten logits, trained by TRL as a language model that answers with one token.${aim} ` +
    "Logarithms are natural; entropy and KL are exact, from the logits."
  );
}

// --- steps ----------------------------------------------------------------------------------------------------------

function stepBar() {
  const runs = own ? [...lab.runs, own.run] : lab.runs;
  const choice =
    runs.length < 2
      ? null
      : el(
          "div",
          { class: "choice", role: "group", "aria-label": "Algorithm" },
          runs.map((run) =>
            el("button", {
              text: run.title,
              "data-run": run.name,
              "aria-pressed": String(run === shownNow.run),
              onclick: () => choose(run),
            }),
          ),
        );
  return el(
    "div",
    { class: "steps" },
    choice,
    el("button", { id: "play", text: "Play", onclick: playOrStop }),
    el("button", {
      text: "\u2212",
      "aria-label": "One update back",
      onclick: () => stepTo(shownNow.update - 1),
    }),
    el("button", {
      text: "+",
      "aria-label": "One update on",
      onclick: () => stepTo(shownNow.update + 1),
    }),
    el("input", {
      type: "range",
      id: "update",
      min: 0,
      max: LAST,
      step: 1,
      value: 0,
      "aria-label": "Update",
      oninput: (event) => stepTo(Number(event.target.value)),
    }),
    el("output", { id: "where", for: "update" }),
  );
}

function stepTo(update) {
  stop();
  show(Math.min(LAST, Math.max(0, update)));
}

function playOrStop() {
  if (shownNow.timer !== null) return stop();
  if (shownNow.update === LAST) show(0);
  document.getElementById("play").textContent = "Stop";
  shownNow.timer = setInterval(
    () => (shownNow.update < LAST ? show(shownNow.update + 1) : stop()),
    Math.max(30, 12000 / LAST),
  );
  return undefined;
}

function stop() {
  if (shownNow.timer !== null) clearInterval(shownNow.timer);
  shownNow.timer = null;
  document.getElementById("play").textContent = "Play";
}

function choose(run) {
  shownNow.run = run;
  for (const button of document.querySelectorAll("[data-run]")) {
    button.setAttribute("aria-pressed", String(button.dataset.run === run.name));
  }
  if (own) own.controls.hidden = run !== own.run;
  drawPolicy();
  for (const spec of runCharts()) {
    const chart = drawn.find((other) => other.spec.id === spec.id);
    chart.spec = spec;
    chart.canvas.setAttribute("aria-label", spoken(spec));
    chart.plot.destroy();
    chart.legend.replaceChildren(); // which names the run
    draw(chart);
    follow(chart);
  }
  show(shownNow.update);
}

/** Let a chart mark the update that is shown, over its areas too, and its legend say what was there. */
function follow(chart) {
  chart.spec.marks = [shownNow.update];
  chart.plot.hooks.draw = [(plot) => mark(plot, chart.spec)];
  chart.plot.hooks.setCursor = [(plot) => tellLegend(chart, plot.cursor.left < 0 ? shownNow.update : plot.cursor.idx)];
  tellLegend(chart, shownNow.update);
}

function show(update) {
  shownNow.update = update;
  const input = document.getElementById("update");
  input.value = update;
  document.getElementById("where").textContent = `${update} of ${LAST}`;
  input.setAttribute("aria-valuetext", `update ${update} of ${LAST}`);
  policyPlot.setData(policyData());
  document.getElementById("policy-title").textContent =
    update === LAST ? `The policy after ${plural(LAST, "update")}` : `The policy before update ${update + 1}`;
  tellPolicy();
  document.getElementById("detail").replaceChildren(...detail());
  for (const chart of drawn) {
    chart.spec.marks = [update];
    tellLegend(chart, update);
    chart.plot.redraw(false);
  }
}

// --- the policy at an update ----------------------------------------------------------------------------------------

let policyPlot = null;

function policyPanel() {
  const key = el(
    "ul",
    { class: "legend" },
    el("li", {}, swatch("--term-1"), "probability"),
    el("li", {}, swatch("--muted"), "probability at the start, the reference"),
    lab.rewards ? el("li", {}, swatch("--term-2"), "reward") : null,
  );
  return el(
    "figure",
    { class: "panel" },
    el("figcaption", {}, el("h3", { id: "policy-title" }), el("p", { class: "note", id: "policy-note" })),
    key,
    el("div", { class: "canvas", id: "policy", role: "img" }),
  );
}

function policyData() {
  const { probabilities } = shownNow.run;
  return [ACTIONS, probabilities[shownNow.update], probabilities[0], rewardsNow() || ACTIONS.map(() => null)];
}

function rewardsNow() {
  return shownNow.run.rewards || lab.rewards;
}

function tellPolicy() {
  const { run, update } = shownNow;
  const figures = [
    `max \u03c0 ${number(run.max_probability[update])}`,
    `entropy ${number(run.entropy[update])}`,
    `KL ${number(run.kl[update])}`,
  ];
  if (run.expected_reward) figures.push(`expected reward ${number(run.expected_reward[update])}`);
  document.getElementById("policy-note").textContent = figures.join(" \u00b7 ");
  document
    .getElementById("policy")
    .setAttribute(
      "aria-label",
      `Probabilities: ${run.probabilities[update]
        .map((value, index) => `action ${index + 1} ${percent(value)}`)
        .join(", ")}`,
    );
}

function drawPolicy() {
  const host = document.getElementById("policy");
  if (policyPlot) policyPlot.destroy();
  const rewards = rewardsNow() || [];
  const range = [Math.min(0, ...rewards), Math.max(1, ...rewards) * 1.06];
  const dots = (name) => ({
    stroke: color(name),
    width: 1,
    paths: () => null,
    points: { show: true, size: 7, width: 1.5, stroke: color(name), fill: color("--page") },
  });
  policyPlot = new uPlot(
    {
      width: Math.max(200, Math.floor(host.clientWidth)),
      height: 260,
      padding: [8, 10, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false, range: () => [0.4, ACTIONS.length + 0.6] }, y: { range: () => range } },
      axes: quietAxes(
        { splits: () => ACTIONS, values: (_, splits) => splits.map(String) },
        { space: 40, values: (_, splits) => splits.map((value) => String(Number(value.toFixed(2)))) },
      ),
      series: [
        {},
        {
          stroke: color("--term-1"),
          width: 0,
          fill: color("--term-1"),
          paths: uPlot.paths.bars({ size: [0.62, 60] }),
          points: { show: false },
        },
        dots("--muted"),
        dots("--term-2"),
      ],
    },
    policyData(),
    host,
  );
}

new ResizeObserver(() => {
  const host = document.getElementById("policy");
  if (policyPlot && host.clientWidth && Math.floor(host.clientWidth) !== policyPlot.width) {
    policyPlot.setSize({ width: Math.floor(host.clientWidth), height: policyPlot.height });
  }
}).observe(document.getElementById("page"));

// --- what an update was made of -------------------------------------------------------------------------------------

function detail() {
  const { run, update } = shownNow;
  if (update === LAST) {
    return [el("h3", { text: "Training is over" }), note("Go back to see what an update was made of.")];
  }
  const { samples, sampled } = run.updates[update];
  const groups = new Set(samples.map((sample) => sample[1])).size > 1;
  const names = ["action", groups ? "group" : null, "reward", "advantage", "ratio"].filter(Boolean);
  return [
    el("h3", { text: `What update ${update + 1} is made of` }),
    note(summary(samples, sampled, update)),
    el(
      "div",
      { class: "scroll" },
      table(
        "samples",
        names,
        samples.map((sample) => sampleRow(sample, groups)),
      ),
    ),
  ];
}

function summary(samples, sampled, update) {
  const rewards = present(samples.map((sample) => sample[2]));
  const mean = rewards.reduce((sum, value) => sum + value, 0) / rewards.length;
  const parts = [sampled === update ? "sampled now" : `sampled before update ${sampled + 1}, used again`];
  parts.push(rewards.length ? `mean reward ${number(mean)}` : "no reward");
  if (rewards.length < samples.length) parts.push(`${plural(samples.length - rewards.length, "sample")} void`);
  if (rewards.length && rewards.every((value) => value === rewards[0]))
    parts.push("all equal: nothing to learn but the KL term");
  parts.push(`${samples.filter((sample) => sample[5]).length} of ${samples.length} clipped`);
  return parts.join(" \u00b7 ");
}

function sampleRow([action, group, reward, advantage, ratio, clipped], groups) {
  const side = advantage > 0 ? "up" : advantage < 0 ? "down" : null;
  return el(
    "tr",
    {},
    el(
      "td",
      {},
      action === null ? "none" : el("span", { class: "action" }, swatch(actionColor(action)), String(action)),
    ),
    groups ? el("td", { text: group }) : null,
    el("td", { text: reward === null ? "void" : number(reward) }),
    el("td", { class: side, text: advantage === null ? "\u2013" : signed(advantage) }),
    el(
      "td",
      {},
      ratio === null ? "\u2013" : ratio.toFixed(3),
      clipped ? el("span", { class: "clipped", text: "clipped" }) : null,
    ),
  );
}

// --- over all updates -----------------------------------------------------------------------------------------------

const FIGURES = {
  reward: {
    title: "Expected reward",
    key: "expected_reward",
    note: "What the policy earns on average: exact, not the mean of samples.",
  },
  max: { title: "Largest probability", key: "max_probability", note: "Of the likeliest action.", range: [0, 1] },
  entropy: {
    title: "Entropy",
    key: "entropy",
    note: "In nats: ln 10 = 2.30 for the uniform policy, 0 for a single action.",
  },
  kl: {
    title: "KL divergence from the start",
    key: "kl",
    note: "In nats. TRL's penalty uses an estimate from the samples.",
  },
};

/** What all charts over the updates share. */
function overUpdates(run) {
  return { kind: "lines", unit: "update", x: updates(run.probabilities), span: [0, LAST], format: number };
}

/** The chart of a figure of some runs. */
function figureChart(id, { key, ...more }, runs) {
  const series = runs.map((run) => ({ label: run.title, color: COLORS[run.name], values: run[key] }));
  return { ...overUpdates(runs[0]), id, ...more, series };
}

function runCharts() {
  const { run } = shownNow;
  const figures = Object.entries(FIGURES).filter(([, { key }]) => run[key]);
  return [
    {
      ...overUpdates(run),
      id: "policy-over-updates",
      kind: "stack",
      title: "The policy over updates",
      format: percent,
      height: 240,
      note: "The probability of each action, from action 1 at the bottom to action 10 at the top.",
      series: ACTIONS.map((action) => ({
        label: String(action),
        color: actionColor(action),
        values: run.probabilities.map((row) => row[action - 1]),
      })),
    },
    ...figures.map(([id, figure]) => figureChart(id, figure, [run])),
  ];
}

function comparison() {
  const ids = ["max", "entropy", ...(lab.rewards ? ["reward"] : []), "kl"];
  const specs = ids.map((id) => figureChart(`compare-${id}`, { ...FIGURES[id], note: null }, lab.runs));
  return el(
    "section",
    { class: "lab", id: "comparison" },
    el("h2", { text: "GRPO against REINFORCE" }),
    note(
      "One seed, one learning rate for advantages of different sizes: an illustration, no ranking. " +
        "GRPO uses a group for several updates, so it has sampled fewer.",
    ),
    runTable(),
    el("div", { class: "lab-grid" }, specs.map(chartFigure)),
  );
}

function runTable() {
  const rows = lab.runs.map((run) =>
    el(
      "tr",
      {},
      [
        run.title,
        run.completions,
        number(run.max_probability[LAST]),
        number(run.entropy[LAST]),
        number(run.kl[LAST]),
        run.expected_reward ? number(run.expected_reward[LAST]) : "\u2013",
      ].map((text) => el("td", { text })),
    ),
  );
  const names = ["at the end", "samples", "largest probability", "entropy", "KL", "expected reward"];
  return el("div", { class: "scroll" }, table("runs", names, rows));
}

function explanation() {
  const pairs = lab.runs.flatMap((run) => [
    el("dt", { text: run.title }),
    el("dd", {
      text: `${run.note} (${Object.entries(run.settings)
        .map(([name, value]) => `${name} ${value}`)
        .join(", ")})`,
    }),
  ]);
  return el(
    "section",
    { class: "lab" },
    el("h2", { text: "How it is done" }),
    el(
      "dl",
      { class: "how" },
      pairs,
      el("dt", { text: "Not shown" }),
      el("dd", {
        text: "Length, format, language, truncation, and credit over tokens: an answer is one token, and the policy does not read its prompt.",
      }),
    ),
  );
}

buildPage();
