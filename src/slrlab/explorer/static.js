// A static page of the explorer: choices, charts that follow them, numbers, code, downloads.
"use strict";
const page = JSON.parse(document.getElementById("page").textContent);
const rows = unpack(page.table);
const state = Object.fromEntries(page.choices.map((choice) => [choice.name, choice.value]));
const views = {};
// dark colours of lines are lightened on a dark page; saved pictures are on white
const lighter = JSON.parse(document.getElementById("dark").textContent);
const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
const readable = (text) => (isDark ? text.replace(/#[0-9a-f]{6}\b/gi, (shade) => lighter[shade] ?? shade) : text);
let variant = page.variants[0].name;

function unpack(table) {
  const names = Object.keys(table.columns);
  const columns = names.map((name) => {
    const column = table.columns[name];
    return Array.isArray(column) ? column : column.codes.map((code) => column.texts[code] ?? null);
  });
  return Array.from({ length: table.length }, (_, i) => {
    const row = {};
    names.forEach((name, j) => { if (columns[j][i] !== null) row[name] = columns[j][i]; });
    return row;
  });
}

const present = () => page.variants.find((one) => one.name === variant);
const fits = (row, column, choice) => row[column] === undefined || row[column] == state[choice];
const chosen = () => rows.filter((row) => present().match.every((name) => fits(row, name, name)));

const words = (name) => (name[1] === "_" ? name : name.replaceAll("_", " "));

function shown(value) {
  if (typeof value === "number") {  // rounding errors are listed as 0
    return String(Math.abs(value) < 1e-12 ? 0 : Number(value.toPrecision(5)));
  }
  if (typeof value === "boolean") return value ? "yes" : "no";
  return value === undefined ? "" : String(value);
}

// the values of a choice that the table has, given the others
function allowed(choice) {
  const most = Object.entries(choice.most).map(([name, by]) => by[state[name]] ?? Infinity);
  return choice.values.filter((value) => most.every((bound) => !(value > bound)));
}

// a choice that the others do not allow takes its largest value; return the names of such choices
function limit() {
  const beyond = page.choices.filter((one) => !allowed(one).includes(state[one.name]));
  for (const one of beyond) state[one.name] = allowed(one).at(-1);
  return beyond.map((one) => one.name);
}

// the address keeps the choices: #length=10&signal=4
function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const refused = [];
  for (const [name, text] of given) {
    if (name === "variant") {
      if (page.variants.some((one) => one.name === text)) variant = text; else refused.push(name);
      continue;
    }
    const choice = page.choices.find((one) => one.name === name);
    const value = choice && choice.values.find((one) => String(one) === text);
    if (value === undefined) refused.push(name); else state[name] = value;
  }
  refused.push(...limit());
  document.getElementById("message").textContent = refused.length
    ? `Not known in this address: ${refused.join(", ")}. The page shows other values there.` : "";
}

function clearMessage() {
  document.getElementById("message").textContent = "";
}

function writeAddress() {
  const given = new URLSearchParams(Object.entries(state).map(([k, v]) => [k, String(v)]));
  if (page.variants.length > 1) given.set("variant", variant);
  history.replaceState(null, "", `#${given}`);
}

function labelled(text, input) {
  const label = document.createElement("label");
  label.append(`${text} `, input);
  document.getElementById("choices").append(label);
}

function addMenu(id, text, values, present, change) {
  const menu = document.createElement("select");
  menu.id = id;
  values.forEach((value, i) => menu.add(new Option(String(value), String(i))));
  menu.selectedIndex = values.indexOf(present);
  menu.addEventListener("change", () => change(values[menu.selectedIndex]));
  labelled(text, menu);
}

function addSlider(choice, change) {
  const slider = document.createElement("input");
  const output = document.createElement("output");
  Object.assign(slider, { type: "range", min: 0, max: allowed(choice).length - 1, id: choice.name });
  slider.value = choice.values.indexOf(state[choice.name]);
  const write = () => { output.value = Number(choice.values[slider.value]).toLocaleString("en"); };
  write();
  slider.addEventListener("input", () => { write(); change(choice.values[slider.value]); });
  labelled(choice.label, slider);
  document.getElementById("choices").lastChild.append(output);
}

function addChoices() {
  document.getElementById("choices").replaceChildren();
  if (page.variants.length > 1) {
    const names = page.variants.map((one) => one.name);
    addMenu("variant", page.variant_label, names, variant, (name) => {
      variant = name;
      clearMessage();
      show();
    });
  }
  for (const choice of page.choices) {
    const change = (value) => {
      state[choice.name] = value;
      clearMessage();
      if (page.choices.some((one) => choice.name in one.most)) {
        limit();
        addChoices();
      }
      update();
    };
    const numbers = choice.values.length > 5 && choice.values.every((one) => !isNaN(one));
    if (numbers) addSlider(choice, change);
    else addMenu(choice.name, choice.label, choice.values, state[choice.name], change);
  }
}

// a click into a chart chooses the value whose place is nearest
function click(item) {
  const at = item && item.datum;
  for (const choice of page.choices) {
    const places = choice.places ?? [];
    if (!at || !places.length || !Object.keys(places[0]).every((key) => key in at)) continue;
    const far = places.map((place) =>
      Object.entries(place).reduce((sum, [key, value]) => sum + (at[key] - value) ** 2, 0));
    state[choice.name] = choice.values[far.indexOf(Math.min(...far))];
    addChoices();
    clearMessage();
    update();
  }
}

const settings = () => page.choices.map((one) => ({ name: `choice_${one.name}`, value: state[one.name] }));

async function draw() {
  const box = document.getElementById("charts");
  const place = document.createElement("div");
  place.className = "panels";
  // all places first: a chart takes the width that its place has when it is drawn
  const elements = present().panels.map(() => document.createElement("div"));
  place.style.setProperty("--least", elements.length === 3 ? "21rem" : "27rem");
  place.append(...elements);
  box.append(place);
  views[variant] = { place, charts: [] };
  for (const [i, panel] of present().panels.entries()) {
    const own = panel.parts.length ? rows.filter((row) => panel.parts.includes(row.part)) : rows;
    const spec = { ...JSON.parse(readable(JSON.stringify(panel.spec))), data: { values: own.map((row) => ({ ...row })) } };
    spec.params = [...(spec.params ?? []), ...settings()];
    const options = { actions: false, renderer: "svg", config: page.config };
    const { view } = await vegaEmbed(elements[i], spec, options);
    view.addEventListener("click", (_, item) => click(item));
    views[variant].charts.push(view);
  }
}

function listNumbers() {
  const here = Object.entries(present().here);
  const marked = chosen().filter((row) => (!page.part || row.part === page.part)
    && !row.mirror && here.every(([column, choice]) => fits(row, column, choice)));
  const names = page.columns;
  const cells = (tag, values) => values.map((value) => {
    const cell = document.createElement(tag);
    cell.textContent = value;
    return cell;
  });
  const line = (children) => {
    const row = document.createElement("tr");
    row.append(...children);
    return row;
  };
  const table = document.getElementById("numbers");
  const head = line(cells("th", names.map(words)));
  const order = (i) => {
    const sign = table.dataset.sorted === String(i) ? -1 : 1;
    table.dataset.sorted = sign > 0 ? String(i) : "";
    marked.sort((a, b) => sign * (a[names[i]] > b[names[i]] ? 1 : a[names[i]] < b[names[i]] ? -1 : 0));
    fill();
  };
  const fill = () => table.replaceChildren(head,
    ...marked.map((row) => line(cells("td", names.map((name) => shown(row[name]))))));
  [...head.children].forEach((cell, i) => cell.addEventListener("click", () => order(i)));
  fill();
  document.getElementById("none").hidden = marked.length > 0;
}

function writeWords() {
  const key = present().coded.map((name) => String(state[name])).join("|");
  document.getElementById("notes").textContent = (present().notes[key] ?? []).join(" ");
  document.getElementById("code").textContent = present().codes[key] ?? "";
}

async function update() {
  writeAddress();
  listNumbers();
  writeWords();
  for (const view of views[variant].charts) {
    for (const [name, value] of Object.entries(state)) view.signal(`choice_${name}`, value);
    await view.runAsync();
  }
  document.body.dataset.state = JSON.stringify({ variant, ...state });
}

async function show() {
  for (const one of Object.values(views)) one.place.hidden = true;
  if (views[variant]) {
    views[variant].place.hidden = false;
    dispatchEvent(new Event("resize"));  // the window may have another width by now
  } else await draw();
  await update();
}

function save(name, data, type) {
  const link = document.createElement("a");
  link.href = typeof data === "string" && data.startsWith("data:") ? data
    : URL.createObjectURL(new Blob([data], { type }));
  link.download = name;
  link.click();
}

async function download(kind) {
  if (kind === "csv") {
    const names = [...new Set(chosen().flatMap((row) => Object.keys(row)))];
    const quoted = (value) => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
    const lines = chosen().map((row) => names.map((name) => quoted(String(row[name] ?? ""))));
    save(`${page.name}.csv`, [names, ...lines].map((line) => line.join(",")).join("\n"), "text/csv");
    return;
  }
  const chosenHere = page.choices.map((one) => `${one.label} = ${state[one.name]}`);
  const title = { text: page.title, subtitle: [page.setting, ...chosenHere].join(", ") };
  const data = { values: chosen().map((row) => ({ ...row })) };
  const spec = { ...present().picture, title, data, params: settings() };
  const { view } = await vegaEmbed(document.createElement("div"), spec, { renderer: "svg" });
  const file = `${page.name}.${kind}`;
  if (kind === "svg") save(file, await view.toSVG(), "image/svg+xml");
  else save(file, await view.toImageURL("png", 2), "image/png");
  view.finalize();
}

for (const kind of ["png", "svg", "csv"]) {
  document.getElementById(kind).addEventListener("click", () => download(kind));
}
document.getElementById("copy").addEventListener("click", (event) => {
  // a way that also works in pages from disk
  getSelection().selectAllChildren(document.getElementById("code"));
  const copied = document.execCommand("copy");
  event.target.textContent = copied ? "Copied" : "Selected: copy it with the keyboard";
});
addEventListener("hashchange", () => { readAddress(); addChoices(); show(); });
for (const one of document.querySelectorAll(".legend")) one.innerHTML = readable(one.innerHTML);
readAddress();
addChoices();
show().then(() => { document.body.dataset.ready = "yes"; });
