// The site without a server (app/export.py): it answers the app's questions from files, then starts
// the app. Each page has a file with its exported moments; the bundles are files too.

const home = new URL('.', import.meta.url),
  base = home.pathname.replace(/\/$/, '');
const COMMAND = 'python -m app';
const MORE = `This site has no server. On your machine, \u201c${COMMAND}\u201d runs every value.`;
const HERE = 'The tab \u201cRun it here\u201d runs this kernel on other inputs in your browser.';
const moreOf = entry => (entry.here ? `${MORE} ${HERE}` : MORE);
const ALL = `More pages and Search list what it has, and \u201c${COMMAND}\u201d on your machine runs every page.`;
const server = globalThis.fetch.bind(globalThis);

const unpacked = async answer => {
  if (!answer.ok) throw new Error(`This site has no file ${new URL(answer.url).pathname}. Load the page again.`);
  const bytes = await answer.arrayBuffer(),
    packed = new Uint8Array(bytes, 0, 2);
  if (packed[0] !== 0x1f || packed[1] !== 0x8b) return bytes; // the host has said how it is packed
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
};
const fileOf = name => server(new URL(name, home)).then(unpacked);
// A script of the site, by its name without .gz. The stage loads its charts by it.
globalThis.siteModule = async name =>
  import(URL.createObjectURL(new Blob([await fileOf(`${name}.gz`)], { type: 'text/javascript' })));
const json = (data, status = 200) =>
  new Response(JSON.stringify(data), { status, headers: { 'content-type': 'application/json' } });

const pages = {}; // path -> its exported moments
const momentsOf = path =>
  (pages[path] ??= fileOf(`asked/${path}.gz`).then(bytes => JSON.parse(new TextDecoder().decode(bytes))));

// A moment's value of a choice; a default is not in its link. Undefined for a choice that it does not have.
const valueOf = ({ link, choices }, name) => link[name] ?? choices.find(choice => choice.name === name)?.value;
// The choices that have another value there, and how many have this one.
const misses = (entry, wanted) =>
  Object.keys(wanted).filter(name => ![undefined, wanted[name]].includes(valueOf(entry, name)));
const fits = (entry, wanted) => Object.keys(wanted).filter(name => valueOf(entry, name) === wanted[name]).length;
// The moment with the fewest other values; of several the one with the most of these, then the first.
function nearest(entries, wanted) {
  const cost = entry => misses(entry, wanted).length - fits(entry, wanted) / 1000;
  return entries.reduce((best, entry, n) => (cost(entry) < cost(entries[best]) ? n : best), 0);
}

// Where a change leads from a moment: a number, or undefined.
function moved({ entries, moves }, from, name, value) {
  const known = moves[from]?.[name]?.[value];
  if (known !== undefined) return known;
  const wanted = { ...entries[from].link, [name]: value },
    same = entries.findIndex(entry => Object.keys(wanted).every(key => valueOf(entry, key) === wanted[key]));
  return same < 0 ? undefined : same;
}

// A moment's choices with the values that lead to another moment.
function offered(all, at) {
  const more = moreOf(all.entries[at]);
  return all.entries[at].choices.flatMap(choice => {
    const { name, value, group } = choice;
    if (name === 'preset' || group === 'run') return [];
    const values = [
      ...new Set([
        ...(choice.options ?? []).map(option => String(option.value)),
        ...Object.keys(all.moves[at]?.[name] ?? {}),
        ...all.entries.map(entry => valueOf(entry, name)).filter(one => one !== undefined),
      ]),
    ].filter(one => one === value || moved(all, at, name, one) !== undefined);
    const labels = new Map((choice.options ?? []).map(option => [String(option.value), option]));
    const options = values
      .sort((a, b) => (isNaN(+a) || isNaN(+b) ? 0 : +a - +b))
      .map(one => labels.get(one) ?? { value: one, label: one });
    const help = [choice.help, more].filter(Boolean).join('. ');
    if (values.length < 2) return [{ ...choice, help, disabled: more }];
    return [choice.kind === 'toggle' ? { ...choice, help } : { ...choice, kind: 'select', help, options }];
  });
}

async function ask(path, query) {
  const all = await momentsOf(path),
    { _set: name, _to: value, _part: part, ...rest } = Object.fromEntries(query);
  const wanted = Object.fromEntries(Object.entries(rest).filter(([key]) => !key.startsWith('_')));
  let at = nearest(all.entries, wanted);
  const near = all.entries[at],
    told = misses(near, wanted).map(
      key => `${key} = ${wanted[key]} is not on this site, which shows ${valueOf(near, key)}. ${moreOf(near)}`,
    );
  const refused = {};
  if (name) {
    const to = moved(all, at, name, value);
    if (to === undefined) refused[name] = `${value} is not on this site. ${moreOf(near)}`;
    else at = to;
  }
  const { bundle, parts, ...entry } = all.entries[at],
    answer = { ...entry, story: path, told: [...entry.told, ...told], refused, choices: offered(all, at) };
  if (!part) return { ...answer, bundle };
  if (parts[part]) return { ...answer, bundle: parts[part] };
  return { ...answer, title: 'This tab is not on this site.', error: MORE };
}

// Where a worker may run, the next visit needs no network.
let kept;
const keep = () => (kept ??= navigator.serviceWorker?.register(new URL('sw.js', home)).catch(() => {}));

// The app's own routes, answered here. Everything else goes to the network.
globalThis.fetch = async (what, options) => {
  const url = new URL(typeof what === 'string' || what instanceof URL ? what : what.url, location.href);
  if (url.origin !== home.origin || !url.pathname.startsWith(`${base}/wg/`)) return server(what, options);
  const [route, name = ''] = url.pathname.slice(base.length + 4).split('/');
  if (route === 'ask') return json(await ask(name, url.searchParams));
  if (route === 'bundle') {
    const bytes = await fileOf(`bundles/${name}.gz`);
    setTimeout(keep, 1000); // the first picture comes before what later visits need
    return new Response(bytes);
  }
  if (route === 'found') return server(new URL('found.json', home));
  if (route === 'near') {
    const said = `This site has no page named ${url.searchParams.get('name')}, which may need a server. ${ALL}`;
    return json({ said, near: [] });
  }
  return json({ error: MORE }, 404);
};

// A server of files leads /tiling to /tiling/; the app's addresses have no slash at the end.
const { pathname, search, hash } = location;
if (pathname !== `${base}/` && pathname.endsWith('/'))
  history.replaceState({}, '', pathname.slice(0, -1) + search + hash);
const [given, { default: start }] = await Promise.all([
  server(new URL('site.json', home)).then(answer => answer.json()),
  globalThis.siteModule('stage.js'),
]);
const parent = document.getElementById('site');
parent.querySelector('.wg').classList.add('site');
const show = () => start({ data: { base, ...given }, parentElement: parent });
show();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', show);
