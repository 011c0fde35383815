// A run of the lab that the page makes itself: the policy of ten logits, updated by plain SGD on the loss of TRL's GRPO,
// as the Python lab does. Nothing here touches the page before `ownRun` is called.

const DEVIATION_EPSILON = 1e-4; // which TRL adds to a group's deviation
const CONTROLS = [
  { name: "learning_rate", label: "learning rate", min: -2, max: 0.5, step: 0.05, log: true },
  { name: "num_generations", label: "group size", min: 2, max: 64, step: 1 },
  { name: "beta", label: "beta (KL)", min: 0, max: 0.5, step: 0.01 },
  { name: "noise", label: "noise of the reward", min: 0, max: 1, step: 0.05 },
];

// --- the update -----------------------------------------------------------------------------------------------------

function logSoftmax(logits) {
  const most = Math.max(...logits);
  const total = most + Math.log(summed(logits.map((logit) => Math.exp(logit - most))));
  return logits.map((logit) => logit - total);
}

function summed(values) {
  return values.reduce((sum, value) => sum + value, 0);
}

/** Rewards less the mean of their group, over its deviation. */
function advantagesOf(rewards) {
  const mean = summed(rewards) / rewards.length;
  const deviation = Math.sqrt(summed(rewards.map((reward) => (reward - mean) ** 2)) / (rewards.length - 1));
  return rewards.map((reward) => (reward - mean) / (deviation + DEVIATION_EPSILON));
}

function isClippedRatio(ratio, advantage, epsilon) {
  return advantage > 0 ? ratio > 1 + epsilon : advantage < 0 && ratio < 1 - epsilon;
}

/**
 * The logits after an update on a batch of {actions, advantages, before}: places of actions, and the log probabilities
 * of all ten when they were sampled. `reference` are those that the KL term pulls to.
 */
function updatedLogits(logits, reference, { actions, advantages, before }, settings) {
  const { learning_rate, beta, epsilon } = settings;
  const now = logSoftmax(logits);
  const gradient = logits.map(() => 0);
  actions.forEach((action, place) => {
    const advantage = advantages[place];
    const ratio = Math.exp(now[action] - before[action]);
    const surrogate = isClippedRatio(ratio, advantage, epsilon) ? 0 : -advantage * ratio;
    const apart = now[action] - reference[action];
    const back = settings.use_bias_correction_kl ? ratio * apart : 1 - Math.exp(-apart);
    const slope = surrogate + beta * back;
    for (let other = 0; other < logits.length; other++) {
      gradient[other] += slope * (Number(other === action) - Math.exp(now[other]));
    }
  });
  return logits.map((logit, other) => logit - (learning_rate * gradient[other]) / actions.length);
}

// --- a run ----------------------------------------------------------------------------------------------------------

/** Numbers in [0, 1) that are the same for the same seed (mulberry32). */
function randomNumbers(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

function drawnAction(probabilities, random) {
  let left = random();
  const found = probabilities.findIndex((probability) => {
    left -= probability;
    return left < 0;
  });
  return found < 0 ? probabilities.length - 1 : found;
}

/** Actions that the policy takes, and their rewards: with the chance `noise` a reward is that of any action. */
function sampledBatch(before, rewards, settings, random) {
  const probabilities = before.map(Math.exp);
  const actions = Array.from({ length: settings.num_generations }, () => drawnAction(probabilities, random));
  const earned = actions.map((action) => {
    const [isNoise, any] = [random() < settings.noise, Math.floor(random() * rewards.length)];
    return rewards[isNoise ? any : action];
  });
  return { before, actions, earned, advantages: advantagesOf(earned) };
}

/** What an update sees of a batch, as the pages of runs have it. */
function seenSamples({ before, actions, earned, advantages }, now, epsilon) {
  return actions.map((action, place) => {
    const ratio = Math.exp(now[action] - before[action]);
    const clipped = isClippedRatio(ratio, advantages[place], epsilon);
    return [action + 1, 0, earned[place], advantages[place], ratio, clipped];
  });
}

/** A run as the page shows it. It ends early where the logits are no longer finite: the last ones stay. */
function simulate(rewards, settings, steps) {
  const random = randomNumbers(settings.seed);
  const reference = logSoftmax(rewards.map(() => 0));
  const [rows, made] = [[reference], []];
  let [logits, batch] = [rewards.map(() => 0), null];
  for (let update = 0; update < steps; update++) {
    const now = rows[update];
    const isNew = update % settings.num_iterations === 0;
    if (isNew) batch = sampledBatch(now, rewards, settings, random);
    const sampled = update - (update % settings.num_iterations);
    made.push({ sampled, samples: seenSamples(batch, now, settings.epsilon) });
    const after = updatedLogits(logits, reference, batch, settings);
    if (after.every(Number.isFinite)) logits = after;
    rows.push(logSoftmax(logits));
  }
  const probabilities = rows.map((row) => row.map(Math.exp));
  const exact = (of) => rows.map((row, update) => summed(row.map((log, action) => of(log, action, update))));
  return {
    rewards,
    updates: made,
    probabilities,
    entropy: exact((log) => -Math.exp(log) * log),
    kl: exact((log, action) => Math.exp(log) * (log - reference[action])).map((value) => Math.max(0, value)),
    max_probability: probabilities.map((row) => Math.max(...row)),
    expected_reward: exact((log, action) => Math.exp(log) * rewards[action]),
  };
}

// --- its controls ---------------------------------------------------------------------------------------------------

/** A run with controls: {run, controls}. The run changes in place, and then `changed` is called. */
function ownRun(lab, steps, changed) {
  const settings = { ...lab.runs[0].settings, noise: 0, seed: 1 };
  const run = { name: "own", title: "Your own" };
  let rewards = lab.rewards;
  const make = () => Object.assign(run, simulate(rewards, settings, steps));
  const again = () => {
    make();
    changed(run);
  };
  make();
  const landscape = choiceOfLandscape(lab, (chosen) => {
    rewards = chosen;
    again();
  });
  const sliders = CONTROLS.map((control) => slider(control, settings, again));
  const newSeed = () => {
    settings.seed += 1;
    again();
  };
  const button = el("button", { text: "New samples", onclick: newSeed });
  const about =
    "The page computes this run, by the update that TRL makes. With the chance of the noise, a reward is that of any " +
    `action. As in the run of ${lab.runs[0].title}: epsilon ${settings.epsilon}, ` +
    `${plural(settings.num_iterations, "update")} a group.`;
  return {
    run,
    controls: el(
      "section",
      { class: "controls", id: "controls", hidden: "", "aria-label": "Settings of your own run" },
      el("div", {}, landscape, sliders, button),
      note(about),
    ),
  };
}

function choiceOfLandscape(lab, chosen) {
  const found = Object.entries(lab.landscapes).find(([, rewards]) => String(rewards) === String(lab.rewards));
  const all = found ? lab.landscapes : { "that of this page": lab.rewards, ...lab.landscapes };
  const select = el(
    "select",
    { id: "own-landscape", onchange: (event) => chosen(all[event.target.value]) },
    Object.keys(all).map((name) => el("option", { value: name, text: name })),
  );
  select.value = found ? found[0] : "that of this page";
  return el("label", {}, el("span", { text: "landscape" }), select);
}

function slider({ name, label, min, max, step, log }, settings, changed) {
  const said = el("output", { text: number(settings[name]) });
  const input = el("input", {
    type: "range",
    id: `own-${name}`,
    min,
    max,
    step,
    value: log ? Math.log10(settings[name]) : settings[name],
    oninput: (event) => {
      const value = Number(event.target.value);
      settings[name] = log ? Number((10 ** value).toPrecision(2)) : value;
      said.textContent = number(settings[name]);
      input.setAttribute("aria-valuetext", said.textContent);
      changed();
    },
  });
  return el("label", {}, el("span", {}, `${label} `, said), input);
}
