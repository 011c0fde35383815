// What the charts of a run are: specs for charts.js, made of its data. Nothing here touches the page.

const STATUSES = ["correct", "partial", "incorrect", "scored", "unparseable", "timeout", "error", "skipped"];
const MARKS = {
  correct: "\u2713",
  partial: "\u25d0",
  incorrect: "\u2717",
  scored: "\u25cf",
  unparseable: "?",
  timeout: "T",
  error: "!",
  skipped: "\u2013",
};
const GROUPS = [
  ["live", "live", "--live"],
  ["secondary_only", "live by other terms only", "--secondary"],
  ["all_right", "all right", "--correct"],
  ["tied", "tied", "--tied"],
  ["all_wrong", "all wrong", "--incorrect"],
  ["void", "void", "--skipped"],
];

function termColor(run, term) {
  return `--term-${(run.terms.indexOf(term) % 8) + 1}`;
}

/** A line a term, of those that a figure is known of. */
function termSeries(run, figure) {
  return run.terms
    .filter((term) => Object.hasOwn(figure, term))
    .map((term) => ({ label: term, color: termColor(run, term), values: figure[term] }));
}

// What makes the panels of each section, of a run and of its training, or else its evaluations.
const PANELS = {
  reward: [rewardPanels],
  verdicts: [verdictPanels, noisePanels],
  groups: [groupPanels, rowPanels],
  length: [lengthPanels],
  policy: [policyPanels],
  terms: [shadowPanels],
};

/** The panels of a run, each {section, ...spec}: lines over the steps of its main part, unless it says otherwise. */
function panelsOf(run) {
  const main = run[run.main_mode];
  const marks = [...new Set(run.findings.map((found) => found.step).filter((step) => step !== null))];
  return Object.entries(PANELS)
    .flatMap(([section, makers]) => makers.flatMap((make) => make(run, main)).map((panel) => ({ section, ...panel })))
    .map((panel) => ({ kind: "lines", x: main.steps, once: run.evaluated, ...panel, marks }))
    .filter((panel) => panel.series.length && panel.x.length);
}

function rewardPanels(run, main) {
  const figures = main.figures;
  if (!figures.reward) return [];
  const ofTerms = (figure) =>
    run.terms.map((term) => ({ label: term, color: termColor(run, term), values: column(main, figure, term) }));
  const tables = [
    { label: "total reward", color: "--ink", wide: true, x: main.steps, values: figures.reward, margins: main.margins },
    ...ofTerms("value").map((line) => ({ ...line, x: main.steps })),
  ];
  if (run.main_mode === "train" && run.eval.steps.length) {
    tables.push({
      label: "total reward, evaluation",
      color: "--ink",
      dots: true,
      x: run.eval.steps,
      values: run.eval.figures.reward,
      margins: run.eval.margins,
    });
  }
  const [x, columns] = joined(tables, "values");
  const margins = joined(tables, "margins")[1];
  const weights = ofTerms("weight");
  const moved = weights.some((one) => new Set(present(one.values)).size > 1);
  const weighed = moved ? "" : ` Weights, the same throughout: ${said(weights)}.`;
  const sure = run.eval.steps.length ? " Evaluations have their 95\u202f% intervals." : "";
  const without = ofTerms("value").filter((line) => !present(line.values).length);
  const isPart = without.length > 0 && without.length < run.terms.length;
  const unscored = isPart ? ` Without a value, see the verdicts: ${without.map((line) => line.label).join(", ")}.` : "";
  const panels = [
    {
      id: "total",
      title: "Reward, and the value of each term",
      note: `Values are before the weight.${weighed}${sure}${unscored}`,
      empty: "No completion could be judged, so none has a reward. The verdicts below say why.",
      x,
      series: tables.map((table, place) => ({ ...table, values: columns[place], margins: margins[place] })),
    },
  ];
  if (moved) {
    panels.push({
      id: "weights",
      title: "Weights in force",
      note: "What multiplies each term's value. 0 is a shadow: watched, not trained on.",
      series: weights,
    });
  }
  return panels;
}

function said(weights) {
  return weights.map((one) => `${one.label} ${number(present(one.values).at(-1))}`).join(", ");
}

/** What is known of a term, or null at each step. */
function column(main, figure, term) {
  const found = main.figures[figure] || {};
  return Object.hasOwn(found, term) ? found[term] : main.steps.map(() => null);
}

function shares(main, figures, entries) {
  return entries
    .map(([key, label, tint]) => ({ label, color: tint, values: figures[key] || main.steps.map(() => null) }))
    .filter((one) => present(one.values).some((value) => value !== 0));
}

function verdictPanels(run, main) {
  const statuses = main.figures.status || {};
  return run.terms
    .filter((term) => Object.hasOwn(statuses, term))
    .map((term) => ({
      id: `verdicts-${run.terms.indexOf(term)}`,
      kind: "stack",
      title: term,
      format: percent,
      note: weightNote(main, term),
      series: shares(
        main,
        statuses[term],
        STATUSES.map((status) => [status, status, `--${status}`]),
      ),
    }));
}

/** What noise comes to, in a sentence, while it may be none; null where some is sure. */
function quietNoise(figures, rates) {
  const last = (name) => present(figures[`verified/noise/${name}`] || []).at(-1);
  if (rates.some(([rate]) => last(`${rate}_low`) > 0)) return null;
  const said = rates.filter(([rate]) => last(`${rate}_high`) !== undefined);
  return `None is sure: at most ${said.map(([rate, label]) => `${percent(last(`${rate}_high`))} of ${label}`).join(", ")}`;
}

function noisePanels(run) {
  const { steps, figures } = run.logs;
  const rates = [
    ["false_rejects", "right answers turned down", "--term-6"],
    ["false_accepts", "wrong answers accepted", "--term-5"],
  ];
  const bounds = [
    ["", ""],
    ["_low", ", at least"],
    ["_high", ", at most"],
  ];
  const series = rates.flatMap(([rate, label, tint]) =>
    bounds.map(([bound, more]) => ({
      label: label + more,
      color: tint,
      dash: bound !== "",
      values: figures[`verified/noise/${rate}${bound}`] || [],
    })),
  );
  return {
    id: "noise",
    title: "Noise of the verifier",
    note: "Of right answers in another form, and of answers to other prompts. Dashed: the 95\u00a0% interval.",
    folded: quietNoise(figures, rates),
    format: percent,
    x: steps,
    series: series.filter((one) => present(one.values).length),
  };
}

function weightNote(main, term) {
  const weights = present(column(main, "weight", term));
  return weights.every((weight) => weight === 0) ? "A shadow: watched, not trained on." : null;
}

function groupPanels(run, main) {
  const panels = [
    {
      id: "groups",
      kind: "stack",
      title: "What the groups have to teach",
      format: percent,
      note: "A group is live if a reward with weight differs between two of its members. The others move nothing.",
      series: shares(main, main.figures.group || {}, GROUPS),
    },
  ];
  const drivers = main.figures.driver || {};
  const series = termSeries(run, drivers).filter((one) => present(one.values).some((value) => Math.abs(value) > 1e-9));
  const below = series.some((one) => present(one.values).some((value) => value < -0.005));
  panels.push({
    id: "drivers",
    kind: below ? "lines" : "stack",
    title: "Who drives the advantages",
    format: percent,
    note: `The share of each term in what tells the members of a group apart.${below ? " Below 0, a term pulls against the total." : ""}`,
    series,
  });
  return panels;
}

/** What `learnable_rows` has drawn, beside the floor, which all other charts of training are of. */
function rowPanels(run) {
  const { steps, figures } = run.logs;
  const drawn = "verified/rows/drawn_live";
  if (!figures[drawn]) return [];
  const line = ([key, label, tint, dash]) => ({ label, color: tint, dash, values: figures[key] || [] });
  const rate = "verified/rows/expected_rate";
  return [
    {
      id: "drawn",
      title: "Live groups of the drawn rows",
      format: percent,
      note: "Rows are drawn for what they may teach. The floor walks over all rows; the other charts and figures are of it.",
      x: steps,
      series: [
        [drawn, "drawn rows", "--live"],
        ["verified/groups/live", "floor", "--ink"],
      ].map(line),
    },
    {
      id: "expected",
      title: "Expected success rates of the drawn rows",
      format: percent,
      note: "Of the verdicts before. Dashed: the 10th and the 90th percentile.",
      x: steps,
      series: [
        [rate, "mean", "--ink"],
        [`${rate}_low`, "10th percentile", "--ink", true],
        [`${rate}_high`, "90th percentile", "--ink", true],
      ].map(line),
    },
  ];
}

function lengthPanels(run, main) {
  const lengths = main.figures.length || {};
  const series = [
    { label: "all", color: "--ink", wide: true, values: lengths.all },
    ...STATUSES.map((status) => ({ label: status, color: `--${status}`, values: lengths[status] })),
  ].filter((one) => one.values && present(one.values).length);
  const panels = [
    {
      id: "length",
      title: "Tokens, by verdict",
      note: "Mean length, by what the first term in force says of the completion.",
      gaps: true,
      series,
    },
  ];
  const left =
    "Share of the completions that could not be judged, by the grader's or the data's fault, and were left out of training.";
  for (const [id, title, note, tint] of [
    ["cut", "Cut at the length limit", "Share of the completions.", "--timeout"],
    ["void", "Void", left, "--error"],
  ]) {
    const values = main.figures[id] || [];
    const series = present(values).some((value) => value > 0) ? [{ label: id, color: tint, values }] : [];
    panels.push({ id, title, note, format: percent, series });
  }
  return panels;
}

function policyPanels(run) {
  const { steps, figures } = run.logs;
  const panel = (id, title, note, names, format) => ({
    id,
    title,
    note,
    format,
    x: steps,
    series: names
      .filter(([key]) => figures[key] && present(figures[key]).length)
      .map(([key, label, tint]) => ({ label, color: tint, values: figures[key] })),
  });
  const panels = [
    panel("entropy", "Entropy", "Nats a token.", [["entropy", "entropy", "--term-1"]]),
    panel("kl", "KL from the reference", "As TRL estimates it.", [["kl", "KL", "--term-3"]]),
    panel(
      "clip",
      "Clipped tokens",
      "Share of the tokens whose ratio left the trust region; 0 by construction with one update a batch.",
      [
        ["clip_ratio/region_mean", "both sides", "--term-2"],
        ["clip_ratio/low_mean", "low", "--term-5"],
        ["clip_ratio/high_mean", "high", "--term-6"],
      ],
      percent,
    ),
    panel("gradient", "Gradient norm", "Before clipping.", [["grad_norm", "norm", "--term-4"]]),
    panel("rate", "Learning rate", null, [["learning_rate", "rate", "--term-8"]]),
  ];
  const beta = run.settings.beta;
  if (beta === 0) panels[1] = { ...panels[1], series: [] }; // not measured, and nothing is drawn that is not
  const clip = panels[2];
  if (clip.series.every((one) => present(one.values).every((value) => value === 0))) clip.series = [];
  return panels;
}

/** What the policy section has to say in words, where a chart would show nothing. */
function policyNotes(run) {
  const notes = [];
  if (!run.logs.steps.length) return ["TRL has logged no training step."];
  if (run.settings.beta === 0) notes.push("KL is not measured: beta is 0.");
  const clip = run.logs.figures["clip_ratio/region_mean"];
  if (clip && present(clip).every((value) => value === 0))
    notes.push(
      "No token was clipped" +
        (run.settings.num_iterations === 1 ? ": with one update a batch the ratio is 1 by construction." : "."),
    );
  return notes;
}

function shadowPanels(run, main) {
  const fooled = main.figures.fooled || {};
  const series = termSeries(run, fooled).filter((one) => present(one.values).length);
  return {
    id: "fooled",
    title: "Passed in training, failed by the shadow",
    format: percent,
    note: "Of the completions that the first term in force passes, the share that each shadow fails. If it rises, read them.",
    gaps: true,
    series,
  };
}
