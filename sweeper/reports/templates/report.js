// A report: columns as typed arrays, filters over the axes, charts by Plotly, a table. No network.
"use strict";

const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#000000"];
const MOST_BOXES = 60; // values of an axis that have a box each
const MOST_LINES = 2000; // rows of parallel coordinates
const MOST_CELLS = 400; // cells of a heat map that are written out
const MOST_BARS = 40; // bars of a breakdown
const MOST_ROOFS = 12; // systems below a roofline
const MOST_AXES = 9; // axes of parallel coordinates
const MOST_OTHERS = 3; // metrics of parallel coordinates besides the one that the rows are best by
const PAGE = 50; // rows of a page of the table
const ARRAYS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array };

function make(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

// FEWEST, which the page says: significant digits of a number, unless more tell it from its neighbours.
const MOST_DIGITS = 17; // those that tell any two numbers of double precision apart
const shown = (value, digits = FEWEST) => (typeof value !== "number" ? String(value) : Number.isFinite(value) ? String(+value.toPrecision(digits)) : "-");

/** As many significant digits, six or more, as tell some numbers apart. */
function telling(values) {
  const numbers = [...new Set(values.filter((value) => Number.isFinite(value)))];
  let digits = FEWEST;
  while (digits < MOST_DIGITS && new Set(numbers.map((value) => shown(value, digits))).size < numbers.length) digits++;
  return digits;
}

/** What a note says of some that are shown of more, empty if these are all. */
const some = (few, all, what) => (few < all ? `${few.toLocaleString("en")} of ${all.toLocaleString("en")} ${what}; ` : "");
const titled = (column) => (column.unit ? `${column.name} [${column.unit}]` : column.name);

/** Bytes of base64 text of a gzip file. */
async function unpacked(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

/** Columns of a run by name. An axis holds positions in its `levels`. */
class Frame {
  constructor(told, buffer) {
    this.rows = told.rows;
    this.columns = told.columns.map((column) => ({ ...column, data: new ARRAYS[column.type](buffer, column.at, told.rows), digits: telling(column.levels || []) }));
    this.axes = this.columns.filter((column) => column.levels);
    this.metrics = this.columns.filter((column) => column.metric);
  }
  column(name) {
    return this.columns.find((column) => column.name === name);
  }
  value(column, row) {
    return column.levels ? column.levels[column.data[row]] : column.data[row];
  }
  about(row) {
    const told = this.axes.map((axis) => `${axis.name} ${shown(this.value(axis, row), axis.digits)}`);
    return [`point ${this.column("point_id").data[row]}`, ...told].join("<br>");
  }
}

/** Which rows pass: boxes for the values of an axis, or its ends where there are many. */
class Filters {
  constructor(frame, changed) {
    this.frame = frame;
    // Metrics of different workloads or tasks compare with nothing, and the best of draws is luck: a page begins with the first.
    const first = (axis) => Uint8Array.from(axis.levels, (_, at) => (["workload", "task", "draw"].includes(axis.name) && at > 0 ? 0 : 1));
    this.passing = new Map(frame.axes.map((axis) => [axis, first(axis)]));
    this.node = make("div", { className: "filters" }, ...frame.axes.map((axis) => this.control(axis, changed)));
  }
  control(axis, changed) {
    const passing = this.passing.get(axis);
    const summary = make("summary");
    const retold = () => {
      summary.textContent = `${axis.name} (${passing.reduce((sum, one) => sum + one, 0)} of ${passing.length})`;
    };
    const set = (at, value) => {
      passing[at] = value;
    };
    const body = axis.levels.length > MOST_BOXES && axis.numeric ? this.ends(axis, set) : this.boxes(axis, set);
    body.addEventListener("change", () => {
      retold();
      changed();
    });
    retold();
    const node = make("details", { className: "filter" }, summary, body);
    node.dataset.axis = axis.name;
    return node;
  }
  boxes(axis, set) {
    const boxes = axis.levels.map((level, at) => {
      const box = make("input", { type: "checkbox", checked: this.passing.get(axis)[at] === 1 });
      box.addEventListener("change", () => set(at, box.checked ? 1 : 0));
      return [box, make("label", {}, box, ` ${shown(level, axis.digits)}`)];
    });
    const all = (checked) => {
      const button = make("button", { type: "button", textContent: checked ? "all" : "none" });
      button.addEventListener("click", () => {
        boxes.forEach(([box], at) => {
          box.checked = checked;
          set(at, checked ? 1 : 0);
        });
        button.dispatchEvent(new Event("change", { bubbles: true }));
      });
      return button;
    };
    return make("div", { className: "boxes" }, make("span", {}, all(true), " ", all(false)), ...boxes.map(([, label]) => label));
  }
  ends(axis, set) {
    const passing = this.passing.get(axis);
    const [low, high] = [passing.indexOf(1), passing.lastIndexOf(1)].map((at) => make("input", { type: "number", step: "any", value: axis.levels[at] }));
    const narrowed = () => axis.levels.forEach((level, at) => set(at, level >= +low.value && level <= +high.value ? 1 : 0));
    [low, high].forEach((input) => input.addEventListener("change", narrowed));
    return make("div", { className: "boxes" }, "from ", low, " to ", high);
  }
  told() {
    const narrowed = [...this.passing].filter(([, passing]) => passing.includes(0));
    return narrowed.map(([axis, passing]) => {
      const kept = axis.levels.filter((_, at) => passing[at]);
      return `${axis.name} ${kept.length <= 3 ? kept.map((level) => shown(level, axis.digits)).join(", ") || "none" : `${kept.length} of ${passing.length}`}`;
    });
  }
  rows() {
    const tests = [...this.passing].filter(([, passing]) => passing.includes(0));
    const kept = new Uint32Array(this.frame.rows);
    let count = 0;
    for (let row = 0; row < this.frame.rows; row++) {
      if (tests.every(([axis, passing]) => passing[axis.data[row]])) kept[count++] = row;
    }
    return kept.subarray(0, count);
  }
}

/** Rows with a finite number in each of some metrics: others can be neither the best nor drawn. */
const finite = (rows, ...metrics) => rows.filter((row) => metrics.every((metric) => Number.isFinite(metric.data[row])));

/** What a note says of rows that have no such number; empty if all have. */
function unknown(rows, ...metrics) {
  const count = rows.length - finite(rows, ...metrics).length;
  const names = [...new Set(metrics.map((metric) => metric.name))].join(" or ");
  return count ? `; ${count.toLocaleString("en")} ${count === 1 ? "row has" : "rows have"} no finite ${names}` : "";
}

/** The scale of an axis of numbers, and what a note says where it is not the one that is asked for. */
function scaled(column, values, scale) {
  const linear = scale === "log" && values.some((value) => value <= 0);
  return { type: linear ? "linear" : scale, note: linear ? `; ${column.name} is not above 0 everywhere, so its axis is linear` : "" };
}

/** The best row of each group by a metric, or its median one: [key, row] in the order of the keys. */
function bestOf(rows, key, metric, which) {
  const groups = new Map();
  for (const row of finite(rows, metric)) {
    const group = key(row);
    if (which === "median") {
      groups.has(group) ? groups.get(group).push(row) : groups.set(group, [row]);
    } else {
      const best = groups.get(group);
      const better = best === undefined || (which === "least" ? metric.data[row] < metric.data[best] : metric.data[row] > metric.data[best]);
      if (better) groups.set(group, row);
    }
  }
  const found = [...groups].sort(([a], [b]) => a - b);
  if (which !== "median") return found;
  return found.map(([group, all]) => [group, all.sort((a, b) => metric.data[a] - metric.data[b])[(all.length - 1) >> 1]]);
}

/** Rows that no other beats in one metric without losing in the other, equal ones all, in the order of the first; `sx`
 * and `sy` are -1 where more is better. */
function front(rows, x, y, sx, sy) {
  const known = Array.from(finite(rows, x, y));
  known.sort((a, b) => sx * (x.data[a] - x.data[b]) || sy * (y.data[a] - y.data[b]));
  let last = null;
  return known.filter((row) => {
    const better = last === null || sy * y.data[row] < sy * y.data[last];
    if (better) last = row;
    return better || (x.data[row] === x.data[last] && y.data[row] === y.data[last]);
  });
}

const usual = (metric) => ({ minimise: "least", maximise: "most" })[metric.sense] || "median";
const CHOICE = {
  axis: (frame, at) => ({ options: frame.axes, at }),
  numericAxis: (frame, at) => ({ options: frame.axes.filter((axis) => axis.numeric), at }),
  metric: (frame, at) => ({ options: frame.metrics, at }),
};

/** Charts: what each needs of a frame, its choices, and what Plotly draws. */
const CHARTS = {
  heat_map: {
    title: "Heat map: the best of the other axes in each cell",
    lacks: (frame) => (frame.axes.length < 2 ? "two axes that vary" : !frame.metrics.length ? "a metric" : ""),
    choices: (frame) => ({ x: CHOICE.axis(frame, 1), y: CHOICE.axis(frame, 0), value: CHOICE.metric(frame, 0), of: ["best", "least", "most", "median"], colours: ["log", "linear"] }),
    draw(frame, rows, { x, y, value, of, colours }) {
      const which = of === "best" ? usual(value) : of;
      const [across, down] = [x.levels.length, y.levels.length];
      const cells = new Map(bestOf(rows, (row) => y.data[row] * across + x.data[row], value, which));
      const filled = (give, empty) => y.levels.map((_, j) => x.levels.map((_, i) => (cells.has(j * across + i) ? give(cells.get(j * across + i)) : empty)));
      const named = (axis) => axis.levels.map((level) => shown(level, axis.digits));
      const values = [...cells.values()].map((row) => value.data[row]);
      const [low, high] = [Math.min(...values), Math.max(...values)];
      const logarithmic = colours === "log" && low > 0;
      const shade = (number) => (logarithmic ? Math.log10(number) : number);
      const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => shade(low) + part * (shade(high) - shade(low)));
      const trace = {
        type: "heatmap", x: named(x), y: named(y), z: filled((row) => shade(value.data[row]), null), text: filled((row) => shown(value.data[row], 3), ""),
        hovertext: filled((row) => `${frame.about(row)}<br>${value.name} ${shown(value.data[row])}`, ""), hoverinfo: "text",
        colorscale: "Viridis", reversescale: which === "least",
        colorbar: { title: { text: titled(value), side: "right" }, tickvals: ticks, ticktext: ticks.map((tick) => shown(logarithmic ? 10 ** tick : tick, 3)) },
        texttemplate: across * down <= MOST_CELLS ? "%{text}" : "",
      };
      const layout = { height: 220 + 26 * down, xaxis: { title: { text: x.name }, type: "category", automargin: true }, yaxis: { title: { text: y.name }, type: "category", automargin: true, autorange: "reversed" } };
      const fallen = colours === "log" && !logarithmic && cells.size ? `; ${value.name} is not above 0 everywhere, so its colours are linear` : "";
      return [[trace], layout, `${which} of the other axes${unknown(rows, value)}${fallen}`];
    },
  },
  pareto: {
    title: "Pareto front of two metrics",
    lacks: (frame) => (frame.metrics.length < 2 ? "two metrics" : ""),
    choices: (frame) => ({ x: CHOICE.metric(frame, 0), y: CHOICE.metric(frame, 1), colour: CHOICE.axis(frame, 0), scale: ["log", "linear"], "better x": ["usual", "least", "most"], "better y": ["usual", "least", "most"] }),
    draw(frame, rows, { x, y, colour, scale, ...better }) {
      const groups = new Map();
      const known = finite(rows, x, y);
      for (const row of known) {
        const level = colour ? colour.data[row] : 0;
        groups.has(level) ? groups.get(level).push(row) : groups.set(level, [row]);
      }
      const many = known.length > 20000;
      const traces = [...groups].sort(([a], [b]) => a - b).map(([level, own], at) => ({
        type: "scattergl", mode: "markers", name: colour ? shown(colour.levels[level], colour.digits) : "points",
        x: own.map((row) => x.data[row]), y: own.map((row) => y.data[row]), customdata: own,
        marker: { color: COLOURS[at % COLOURS.length], size: many ? 3 : 6, opacity: many ? 0.5 : 0.8 },
        hovertemplate: `${x.name} %{x:.6g}<br>${y.name} %{y:.6g}<extra>%{fullData.name}</extra>`,
      }));
      // Nobody knows which way most metrics are better: less is assumed, the note says so, and the reader may turn it.
      const which = (metric, said) => (said !== "usual" ? said : metric.sense === "maximise" ? "most" : "least");
      const [senseX, senseY] = [which(x, better["better x"]), which(y, better["better y"])];
      const best = front(rows, x, y, senseX === "most" ? -1 : 1, senseY === "most" ? -1 : 1);
      traces.push({
        type: "scatter", mode: "lines+markers", name: "front", x: best.map((row) => x.data[row]), y: best.map((row) => y.data[row]),
        line: { color: "#000000", width: 1, shape: "hv" }, marker: { symbol: "circle-open", size: 10, color: "#000000" },
        text: best.map((row) => frame.about(row)), hoverinfo: "text",
      });
      const [across, up] = [x, y].map((metric) => scaled(metric, Array.from(known, (row) => metric.data[row]), scale));
      const layout = { height: 520, xaxis: { title: { text: titled(x) }, type: across.type }, yaxis: { title: { text: titled(y) }, type: up.type } };
      return [traces, layout, `${best.length} on the front: ${senseX} ${x.name}, ${senseY} ${y.name}${unknown(rows, x, y)}${across.note}${x === y ? "" : up.note}`];
    },
  },
  curves: {
    title: "Scaling: a metric over an axis of numbers",
    lacks: (frame) => (!frame.axes.some((axis) => axis.numeric) ? "an axis of numbers that varies" : !frame.metrics.length ? "a metric" : ""),
    choices: (frame) => ({ x: CHOICE.numericAxis(frame, 0), y: CHOICE.metric(frame, 0), colour: CHOICE.axis(frame, 0), of: ["best", "least", "most", "median"], scale: ["log", "linear"] }),
    draw(frame, rows, { x, y, colour, of, scale }) {
      const which = of === "best" ? usual(y) : of;
      const apart = colour && colour !== x ? colour : null;
      const size = x.levels.length;
      const groups = new Map();
      for (const [key, row] of bestOf(rows, (row) => (apart ? apart.data[row] * size : 0) + x.data[row], y, which)) {
        const level = Math.floor(key / size);
        groups.has(level) ? groups.get(level).push(row) : groups.set(level, [row]);
      }
      const traces = [...groups].map(([level, own], at) => ({
        type: "scatter", mode: "lines+markers", name: apart ? shown(apart.levels[level], apart.digits) : y.name,
        x: own.map((row) => frame.value(x, row)), y: own.map((row) => y.data[row]),
        text: own.map((row) => frame.about(row)), hoverinfo: "text+y", line: { color: COLOURS[at % COLOURS.length] },
      }));
      const across = scaled(x, traces.flatMap((trace) => trace.x), scale);
      const up = scaled(y, traces.flatMap((trace) => trace.y), scale);
      return [traces, { height: 460, xaxis: { title: { text: titled(x) }, type: across.type }, yaxis: { title: { text: titled(y) }, type: up.type } }, `${which} of the other axes${unknown(rows, y)}${across.note}${up.note}`];
    },
  },
  parallel: {
    title: "Parallel coordinates of the best rows",
    lacks: (frame) => (frame.axes.length + frame.metrics.length < 2 || !frame.metrics.length ? "two columns that vary, one of them a metric" : ""),
    choices: (frame) => ({ best: CHOICE.metric(frame, 0) }),
    draw(frame, rows, { best }) {
      const sign = best.sense === "maximise" ? -1 : 1;
      const known = Array.from(finite(rows, best));
      const lines = known.sort((a, b) => sign * (best.data[a] - best.data[b])).slice(0, MOST_LINES);
      const [axes, others] = [frame.axes.slice(0, MOST_AXES), frame.metrics.filter((metric) => metric !== best).slice(0, MOST_OTHERS)];
      const told = [...axes, best, ...others];
      const dimensions = told.map((column) => {
        const dimension = { label: titled(column), values: lines.map((row) => column.data[row]) };
        if (column.levels && column.levels.length <= 40) {
          dimension.tickvals = column.levels.map((_, at) => at);
          dimension.ticktext = column.levels.map((level) => shown(level, column.digits));
        } else if (column.levels) dimension.values = lines.map((row) => (column.numeric ? column.levels[column.data[row]] : column.data[row]));
        return dimension;
      });
      const trace = { type: "parcoords", dimensions, line: { color: lines.map((row) => best.data[row]), colorscale: "Viridis", reversescale: sign > 0, showscale: true, colorbar: { title: { text: titled(best), side: "right" } } }, labelangle: -20, labelside: "bottom" };
      const cut = some(axes.length, frame.axes.length, "axes") + some(others.length + 1, frame.metrics.length, "metrics");
      const how = lines.length < known.length ? `the best ${some(lines.length, known.length, "rows")}` : `${lines.length.toLocaleString("en")} rows; `;
      return [[trace], { height: 520, margin: { l: 90, r: 60, t: 30, b: 110 } }, `${how}${cut}drag along an axis to choose${unknown(rows, best)}`];
    },
  },
  breakdown: {
    title: "Where the time goes: busy times of the best of each value",
    lacks: (frame) => (["compute_time_s", "memory_time_s", "network_time_s"].every((name) => frame.column(name)) ? (frame.axes.length ? "" : "an axis that varies") : "compute_time_s, memory_time_s and network_time_s; ask for them under output"),
    choices: (frame) => ({ axis: CHOICE.axis(frame, 0), best: CHOICE.metric(frame, 0) }),
    draw(frame, rows, { axis, best }) {
      const all = bestOf(rows, (row) => axis.data[row], best, usual(best));
      const found = all.slice(0, MOST_BARS);
      const names = found.map(([level]) => shown(axis.levels[level], axis.digits));
      const traces = ["compute_time_s", "memory_time_s", "network_time_s"].map((name, at) => ({
        type: "bar", orientation: "h", name: name.replace("_time_s", ""), y: names, x: found.map(([, row]) => frame.column(name).data[row]),
        marker: { color: COLOURS[at] }, text: found.map(([, row]) => frame.about(row)), textposition: "none", hovertemplate: "%{x:.6g} s<br>%{text}<extra>%{fullData.name}</extra>",
      }));
      return [traces, { height: 200 + 28 * found.length, barmode: "stack", xaxis: { title: { text: "busy time [s]; these may overlap" } }, yaxis: { type: "category", automargin: true, autorange: "reversed" } }, `${some(found.length, all.length, "values")}${usual(best)} ${best.name} of each ${axis.name}${unknown(rows, best)}`];
    },
  },
  roofline: {
    title: "Roofline of the best of each value",
    lacks: (frame) => {
      const missing = ["attained_flops", "memory_intensity_flop_per_B", "graph_time_s", "graph_compute_time_s", "graph_memory_time_s"].filter((name) => !frame.column(name));
      return missing.length ? `${missing.join(", ")}; studies of graphs of kernels have them` : frame.axes.length ? "" : "an axis that varies";
    },
    choices: (frame) => ({ axis: CHOICE.axis(frame, 0), best: CHOICE.metric(frame, 0) }),
    draw(frame, rows, { axis, best }) {
      const of = (name, row) => frame.column(name).data[row];
      const all = bestOf(rows, (row) => axis.data[row], best, usual(best));
      const found = all.filter(([, row]) => of("memory_intensity_flop_per_B", row) > 0 && of("attained_flops", row) > 0).slice(0, MOST_ROOFS);
      const ends = found.map(([, row]) => of("memory_intensity_flop_per_B", row));
      const [low, high] = [Math.min(...ends) / 8, Math.max(...ends) * 8];
      const traces = found.flatMap(([level, row], at) => {
        const flop = of("attained_flops", row) * of("graph_time_s", row);
        const peak = flop / of("graph_compute_time_s", row);
        const bandwidth = flop / of("graph_memory_time_s", row) / of("memory_intensity_flop_per_B", row);
        const [name, color] = [shown(axis.levels[level], axis.digits), COLOURS[at % COLOURS.length]];
        const xs = [low, peak / bandwidth, high].filter((value) => value >= low && value <= high);
        return [
          { type: "scatter", mode: "lines", x: xs, y: xs.map((value) => Math.min(peak, value * bandwidth)), line: { color, width: 1 }, name, legendgroup: name, showlegend: false, hoverinfo: "skip" },
          { type: "scatter", mode: "markers", x: [of("memory_intensity_flop_per_B", row)], y: [of("attained_flops", row)], marker: { color, size: 10 }, name, legendgroup: name, text: [frame.about(row)], hovertemplate: "%{y:.4s}flop/s at %{x:.4g} flop/B<br>%{text}<extra></extra>" },
        ];
      });
      return [traces, { height: 480, xaxis: { title: { text: "operations per byte of memory [flop/B]" }, type: "log" }, yaxis: { title: { text: "attained by one chip [flop/s]" }, type: "log" } }, `${some(found.length, all.length, "values")}${usual(best)} ${best.name} of each ${axis.name}${unknown(rows, best)}`];
    },
  },
  tornado: {
    title: "Tornado: each number of a best point less and more, alone",
    lacks: (frame, told) => (told.tornadoes.length ? "" : told.no_tornado),
    choices: (frame, told) => ({ point: told.tornadoes.map((each) => each.title) }),
    draw(frame, rows, { point }, told) {
      const each = told.tornadoes.find((other) => other.title === point);
      const names = each.bars.map((bar) => bar.name + bar.cannot); // A side that cannot run has no bar to say so.
      const traces = [["at_low", -1], ["at_high", 1]].map(([end, sign], at) => ({
        type: "bar", orientation: "h", name: `${sign > 0 ? "+" : "-"}${Math.round(100 * each.part)} %`, y: names, x: each.bars.map((bar) => bar[end]),
        marker: { color: COLOURS[at] }, text: each.bars.map((bar) => `${bar.low} to ${bar.high}`), textposition: "none", hovertemplate: "%{y} %{text}: %{x:.3f} %<extra>%{fullData.name}</extra>",
      }));
      return [traces, { height: 200 + 24 * names.length, barmode: "overlay", xaxis: { title: { text: `change of ${each.metric} in percent` }, zeroline: true, zerolinecolor: "#000000" }, yaxis: { automargin: true, autorange: "reversed" } }, `the point as it is, not found again; shares stop at what is possible; ${some(each.bars.length, each.bars.length + each.less, "numbers that move it")}${each.idle} further numbers do not move it (filters do not apply)`];
    },
  },
};

/** A chart with its choices, drawn when it is first seen and after each change while it is in sight. */
class Picture {
  constructor(name, report) {
    Object.assign(this, { name, report, chart: CHARTS[name], stale: true, seen: false, chosen: {} });
    this.note = make("p", { className: "note" });
    this.plot = make("div", { className: "plot" });
    const missing = this.chart.lacks(report.frame, report.told);
    this.node = make("section", { className: "chart" }, make("h3", { textContent: this.chart.title }));
    this.node.dataset.chart = name;
    if (missing) {
      this.node.append(make("p", { className: "note", textContent: `Not drawn: there is no ${missing}.` }));
      this.stale = false;
      return;
    }
    const controls = Object.entries(this.chart.choices(report.frame, report.told)).map(([key, choice]) => this.control(key, choice));
    this.node.append(make("p", { className: "choices" }, ...controls.flat()), this.plot, this.note);
  }
  control(key, choice) {
    const { options, at: first } = Array.isArray(choice) ? { options: choice, at: 0 } : choice;
    if (!options.length) {
      this.chosen[key] = null;
      return [];
    }
    const at = Math.min(first, options.length - 1);
    const select = make("select", {}, ...options.map((option, number) => make("option", { value: number, textContent: option.name || option, selected: number === at })));
    this.chosen[key] = options[at];
    select.dataset.choice = key;
    select.addEventListener("change", () => {
      this.chosen[key] = options[+select.value];
      this.changed();
    });
    return [make("label", {}, `${key} `, select), " "];
  }
  changed() {
    this.stale = this.plot.isConnected;
    if (this.seen) this.draw();
  }
  draw() {
    if (!this.stale) return;
    this.stale = false;
    const [traces, layout, note] = this.chart.draw(this.report.frame, this.report.passing, this.chosen, this.report.told);
    const usualLayout = { margin: { l: 70, r: 20, t: 20, b: 60 }, font: { family: "system-ui, sans-serif", size: 12 }, hovermode: "closest", uirevision: this.name };
    this.note.textContent = note;
    Plotly.react(this.plot, traces, { ...usualLayout, ...layout }, { responsive: true, displaylogo: false });
  }
}

/** Rows that pass, a page at a time, in the order of a column; all of them as CSV. */
class Table {
  constructor(report) {
    Object.assign(this, { report, page: 0, by: null, sign: 1, order: report.passing });
    this.head = make("tr");
    this.body = make("tbody");
    this.where = make("span");
    for (const column of report.frame.columns) {
      const cell = make("th", { textContent: titled(column), title: column.about, className: column.levels && !column.numeric ? "" : "number" });
      cell.addEventListener("click", () => this.sort(column, cell));
      this.head.append(cell);
    }
    const button = (text, does) => {
      const made = make("button", { type: "button", textContent: text });
      made.addEventListener("click", does);
      return made;
    };
    const turn = (pages) => () => this.show(this.page + pages);
    const bar = make("p", { className: "choices" }, button("previous", turn(-1)), " ", this.where, " ", button("next", turn(1)), " ", button("download these rows (CSV)", () => this.download()));
    this.node = make("div", {}, bar, make("div", { className: "wide" }, make("table", { className: "rows" }, make("thead", {}, this.head), this.body)));
  }
  sort(column, cell) {
    this.sign = this.by === column ? -this.sign : 1;
    this.by = column;
    for (const other of this.head.children) other.dataset.sorted = other === cell ? (this.sign > 0 ? "up" : "down") : "";
    this.changed();
  }
  changed() {
    const { by, sign } = this;
    this.order = by ? this.report.passing.slice().sort((a, b) => sign * (by.data[a] - by.data[b]) || a - b) : this.report.passing;
    this.show(0);
  }
  show(page) {
    const { frame } = this.report;
    const pages = Math.max(1, Math.ceil(this.order.length / PAGE));
    this.page = Math.min(Math.max(page, 0), pages - 1);
    const rows = Array.from(this.order.subarray(this.page * PAGE, (this.page + 1) * PAGE));
    const digits = new Map(frame.columns.map((column) => [column, column.levels ? column.digits : telling(rows.map((row) => column.data[row]))]));
    const cell = (column, row) => make("td", { textContent: shown(frame.value(column, row), digits.get(column)), className: column.levels && !column.numeric ? "" : "number" });
    this.body.replaceChildren(...rows.map((row) => make("tr", {}, ...frame.columns.map((column) => cell(column, row)))));
    this.where.textContent = `page ${this.page + 1} of ${pages.toLocaleString("en")}`;
  }
  csv() {
    const { frame } = this.report;
    // Single precision has seven digits; what is written of a number in double precision is that number.
    const text = (column, value) => (typeof value !== "number" ? value : column.type === "f4" && !Number.isInteger(value) ? String(+value.toPrecision(7)) : String(value));
    const quoted = (value) => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
    const lines = [frame.columns.map((column) => column.name).join(",")];
    for (const row of this.order) lines.push(frame.columns.map((column) => quoted(text(column, frame.value(column, row)))).join(","));
    return `${lines.join("\n")}\n`;
  }
  download() {
    const link = make("a", { href: URL.createObjectURL(new Blob([this.csv()], { type: "text/csv" })), download: `${this.report.told.run}.csv` });
    link.click();
    URL.revokeObjectURL(link.href);
  }
}

/** The charts, filters and table of one run. */
class Report {
  constructor(node, told, buffer) {
    this.told = told;
    this.frame = new Frame(told, buffer);
    this.filters = new Filters(this.frame, () => this.changed());
    this.passing = this.filters.rows();
    this.count = make("p", { className: "count" });
    this.pictures = Object.keys(CHARTS).map((name) => new Picture(name, this));
    this.table = new Table(this);
    node.querySelector(".charts").append(this.filters.node, this.count, ...this.pictures.map((picture) => picture.node));
    node.querySelector(".table").append(this.table.node);
    this.observer = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const picture = this.pictures.find((other) => other.node === entry.target);
        picture.seen = entry.isIntersecting;
        if (picture.seen) picture.draw();
      }
    }, { rootMargin: "200px" });
    this.pictures.forEach((picture) => this.observer.observe(picture.node));
    this.changed();
  }
  changed() {
    this.passing = this.filters.rows();
    const narrowed = this.filters.told();
    const counts = `${this.passing.length.toLocaleString("en")} of ${this.frame.rows.toLocaleString("en")} rows`;
    this.count.textContent = narrowed.length ? `${counts}: ${narrowed.join("; ")}` : `${counts}: no filter`;
    this.pictures.forEach((picture) => picture.changed());
    this.table.changed();
  }
}

/** Every run of the page, built when it is first shown. */
async function opened(node) {
  document.querySelectorAll("article").forEach((other) => (other.hidden = other !== node));
  if (!node.report) {
    const told = JSON.parse(node.querySelector(".told").textContent);
    node.report = told.rows ? new Report(node, told, await unpacked(node.querySelector(".packed").textContent)) : {};
  }
  requestAnimationFrame(() => requestAnimationFrame(() => (document.documentElement.dataset.ready = String(performance.now()))));
}

document.addEventListener("DOMContentLoaded", () => {
  const articles = [...document.querySelectorAll("article")];
  const choice = document.querySelector("#run");
  if (choice) choice.addEventListener("change", () => opened(articles[+choice.value]));
  opened(articles[0]);
});
