// Charts by uPlot: lines and stacked areas over steps, with one cursor for all and legends that say what is under it.
//
// A spec: {id, title, note, kind: "lines" | "stack", x: [...], format, range: [low, high] | undefined, marks: [...],
//          series: [{label, color: "--css-variable", values: [...], wide: bool, dash: bool, dots: bool,
//                    margins: how far the interval of each value reaches to either side, or undefined}],
//          unit: what x counts, "step" by default; once: whether all is of one moment;
//          gaps: whether a line breaks where it has no value}

const drawn = [];
const FEW_POINTS = 3;

/** A figure for a spec; `drawCharts` draws it once it is in the page. */
function chartFigure(spec) {
  const legend = el("ul", { class: "legend" });
  const lone = lonePlace(spec);
  const isLone = lone !== null;
  const canvas = isLone ? note(lone) : el("div", { class: "canvas", role: "img", "aria-label": spoken(spec) });
  const figure = el(
    "figure",
    { class: "panel", id: spec.id },
    el(
      "figcaption",
      {},
      spec.run ? el("p", { class: "stacked", text: spec.run }) : null,
      el("h3", { text: spec.title }),
      spec.note ? note(spec.note) : null,
    ),
    ...(spec.folded ? [folded(spec.folded, legend, canvas)] : [legend, canvas]),
  );
  if (isLone) tellLegend({ spec, legend }, null);
  else drawn.push({ spec, canvas, legend, plot: null });
  return figure;
}

/** What stands in place of lines with values at no place, or at one, whose legend says them; null for other lines. */
function lonePlace(spec) {
  if (spec.kind !== "lines") return null;
  const known = spec.x.filter((_, place) => spec.series.some((one) => isThere(one.values[place])));
  if (!known.length) return spec.empty || "Known at no step.";
  if (known.length !== 1) return null;
  return spec.once ? "" : `Known at ${spec.unit || "step"} ${known[0]} only.`;
}

function drawCharts() {
  for (const chart of drawn) if (!chart.plot) draw(chart);
  const watcher = new ResizeObserver((entries) => {
    for (const entry of entries) {
      const chart = drawn.find((other) => other.canvas === entry.target);
      const width = Math.floor(entry.contentRect.width);
      if (chart.plot && width > 0 && width !== chart.plot.width)
        chart.plot.setSize({ width, height: chart.plot.height });
    }
  });
  for (const chart of drawn) watcher.observe(chart.canvas);
  themeListeners.push(() =>
    drawn.forEach((chart) => {
      chart.plot.destroy();
      draw(chart);
    }),
  );
}

function draw(chart) {
  const { spec, canvas } = chart;
  const { data, series } = spec.kind === "stack" ? stacked(spec) : lines(spec);
  const tell = (place) => tellLegend(chart, place);
  chart.plot = new uPlot(
    {
      width: Math.max(200, Math.floor(canvas.clientWidth)),
      height: spec.height || 190,
      padding: [8, 10, 0, 0],
      legend: { show: false },
      scales: { x: { time: false, range: xRange(spec) }, y: { range: yRange(spec) } },
      axes: axes(spec),
      series: [{}, ...series],
      cursor: {
        y: false,
        points: { show: spec.kind !== "stack", size: 7, width: 2 },
        sync: { key: "steps", scales: ["x", null] },
        drag: { x: true, y: false, setScale: true },
      },
      hooks: {
        setCursor: [(plot) => tell(plot.cursor.left < 0 ? null : plot.cursor.idx)],
        drawClear: [(plot) => mark(plot, spec)],
        draw: [(plot) => drawIntervals(plot, spec)],
      },
    },
    data,
    canvas,
  );
  tell(null);
}

function lines(spec) {
  const few = spec.x.length < FEW_POINTS;
  return {
    data: [spec.x, ...spec.series.map((one) => one.values)],
    series: spec.series.map((one) => ({
      label: one.label,
      stroke: color(one.color),
      width: one.dots ? 1 : one.wide ? 2.25 : 1.5,
      dash: one.dash || one.dots ? [4, 3] : undefined,
      spanGaps: !spec.gaps,
      points: {
        show: few || one.dots || present(one.values).length < 12,
        size: one.dots ? 7 : 5,
        fill: color(one.color),
        filter: (plot, place, show) => (show || !spec.gaps ? null : alone(one.values)),
      },
    })),
  };
}

/** The places of values between two gaps, which no line shows. */
function alone(values) {
  return values.flatMap((value, place) =>
    isThere(value) && !isThere(values[place - 1]) && !isThere(values[place + 1]) ? [place] : [],
  );
}

/** Sums from the bottom; the largest is drawn first and those below it over it. */
function stacked(spec) {
  const sums = spec.x.map(() => 0);
  const known = spec.x.map((_, place) => spec.series.some((one) => one.values[place] !== null));
  const layers = spec.series.map((one) =>
    one.values.map((value, place) => {
      sums[place] += value || 0;
      return known[place] ? sums[place] : null;
    }),
  );
  const paths = spec.x.length < FEW_POINTS ? uPlot.paths.bars({ size: [0.5, 48] }) : undefined;
  const series = spec.series.map((one) => ({
    label: one.label,
    stroke: color("--surface"),
    width: 1,
    fill: color(one.color),
    spanGaps: true,
    points: { show: false },
    paths,
  }));
  return { data: [spec.x, ...layers.reverse()], series: series.reverse() };
}

function xRange(spec) {
  const [low, high] = spec.span;
  const room =
    spec.x.length < FEW_POINTS && spec.kind === "stack" ? Math.max(1, (high - low) * 0.15) : (high - low) * 0.01;
  const whole = high > low ? [low - room, high + room] : [low - 1, high + 1];
  return (plot, from, to) => {
    const xs = plot.data[0];
    return from === null || (from <= xs[0] && to >= xs[xs.length - 1]) ? whole : [from, to];
  };
}

function yRange(spec) {
  if (spec.kind === "stack" && !spec.range) return () => [0, 1];
  const [low, high] = spec.range || extent(spec);
  if (low === null) return () => [0, 1];
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  return () => [low === 0 ? 0 : low - room, high + room];
}

/** The lowest and highest value of a spec's lines, or ends of their intervals, 0 among them. */
function extent(spec) {
  const ends = (one) =>
    one.values.map((value, place) => [value, one.margins?.[place] || 0]).filter(([value]) => isThere(value));
  const values = spec.series.flatMap(ends).flatMap(([value, margin]) => [value - margin, value + margin]);
  if (!values.length) return [null, null];
  return values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [0, 0]);
}

/** How the axes of every chart look; `own` has the rest of each. */
function quietAxes(...own) {
  const quiet = { stroke: color("--muted"), font: "11px system-ui, sans-serif", ticks: { show: false }, gap: 6 };
  const looks = [
    { ...quiet, grid: { show: false }, size: 26 },
    { ...quiet, grid: { stroke: color("--rule"), width: 1 }, size: 46 },
  ];
  return looks.map((look, place) => ({ ...look, ...own[place] }));
}

function axes(spec) {
  return quietAxes(
    {
      space: 60,
      values: (_, splits) => ticks(spec, splits),
      incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6],
    },
    {
      space: 34,
      values: (_, splits) => splits.map((value) => (spec.format || number)(Math.abs(value) < 1e-12 ? 0 : value)),
    },
  );
}

/** What stands under the chart; the first says what it counts. */
function ticks(spec, splits) {
  if (spec.once) return splits.map(() => "");
  const inside = (step) => step >= spec.span[0] && step <= spec.span[1];
  const first = splits.find(inside);
  return splits.map((step) => (!inside(step) ? "" : step === first ? `${spec.unit || "step"} ${step}` : String(step)));
}

/** Thin lines at the steps of findings. */
function mark(plot, spec) {
  if (!spec.marks?.length) return;
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.setLineDash([2, 3]);
  ctx.strokeStyle = color("--muted");
  ctx.lineWidth = 1;
  for (const step of spec.marks.slice(0, 20)) {
    const x = Math.round(plot.valToPos(step, "x", true)) + 0.5;
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

/** A line through each point of a series with margins, from the low end of its interval to the high one. */
function drawIntervals(plot, spec) {
  const { ctx } = plot;
  ctx.save();
  for (const { values, margins, color: tint } of spec.series) {
    ctx.strokeStyle = color(tint);
    ctx.lineWidth = 1.5;
    values.forEach((value, place) => {
      if (!margins || !isThere(margins[place]) || !isThere(value)) return;
      const x = plot.valToPos(spec.x[place], "x", true);
      ctx.beginPath();
      ctx.moveTo(x, plot.valToPos(value - margins[place], "y", true));
      ctx.lineTo(x, plot.valToPos(value + margins[place], "y", true));
      ctx.stroke();
    });
  }
  ctx.restore();
}

/** What the legend says: the values under the cursor, or the last ones. */
function tellLegend({ spec, legend }, place) {
  const format = spec.format || number;
  if (!legend.childElementCount) {
    legend.append(el("li", { class: "where" }));
    for (const one of spec.series) {
      legend.append(
        el(
          "li",
          {},
          swatch(one.color, one.dots ? "round" : one.dash ? "dashed" : ""),
          el("span", { class: "name", text: one.label }),
          el("b", {}),
        ),
      );
    }
  }
  const last = spec.once || lonePlace(spec) !== null ? "" : "last values:";
  legend.firstChild.textContent = place === null ? last : `${spec.unit || "step"} ${spec.x[place]}:`;
  spec.series.forEach((one, index) => {
    const at = place ?? one.values.findLastIndex(isThere);
    const margin = one.margins?.[at];
    legend.children[index + 1].lastChild.textContent = isThere(one.values[at])
      ? `${format(one.values[at])}${isThere(margin) ? ` \u00b1 ${format(margin)}` : ""}`
      : "\u2013";
  });
}

/** The chart in a sentence, for those who do not see it. */
function spoken(spec) {
  const format = spec.format || number;
  const parts = spec.series.map((one) => {
    const values = present(one.values);
    return values.length
      ? `${one.label} from ${format(values[0])} to ${format(values.at(-1))}`
      : `${one.label} not known`;
  });
  return `${spec.title}, steps ${spec.x[0]} to ${spec.x.at(-1)}: ${parts.join("; ")}.`;
}

/** What several lines over steps of their own have under a name, as one table: [steps, columns]. */
function joined(tables, name) {
  const steps = [...new Set(tables.flatMap((table) => table.x))].sort((a, b) => a - b);
  const place = new Map(steps.map((step, index) => [step, index]));
  const columns = tables.map((table) => {
    const column = steps.map(() => null);
    table.x.forEach((step, index) => {
      column[place.get(step)] = table[name]?.[index] ?? null;
    });
    return column;
  });
  return [steps, columns];
}
