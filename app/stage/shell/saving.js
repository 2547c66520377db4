// A moment to take along: as a link, as an iframe, as an image, on paper.
import { embedCode } from './embed.js';
import { drawMoment, makePrint, savePng } from './image.js';
import { element } from '../core/paint.js';

async function copy(/** @type {string} */ text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

export class Saving {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.paper = makePrint({
      above: () => this.above(),
      below: () => this.below(),
      main: app.stage.middle.node,
    });
  }

  async copiesLink() {
    this.app.address.write();
    return (await copy(location.href)) ? 'Link copied' : 'Copy it from the address bar';
  }
  async copyEmbedCode() {
    const { story, address } = this.app,
      copied = await copy(embedCode(story.title, address.whole()));
    return copied ? 'Embed code copied' : 'This browser lets nothing be copied here';
  }
  async savePicture() {
    const { root, stage, story } = this.app;
    if (!stage.content || root.matches('.asking, .stale')) return 'Wait until it is shown';
    const parts = [stage.bar.sentences, stage.middle.node],
      name = `warpglass-${story.path}-${stage.clock.step + 1}.png`;
    try {
      await savePng(await drawMoment(stage, parts, this.above(), this.below()), name);
      return 'Saved';
    } catch (error) {
      return error.message;
    }
  }

  // One file with this stage: app/web/one_file.py.
  savePage() {
    const { root, stage, story, base } = this.app;
    if (!stage.content || root.matches('.asking, .stale')) return 'Wait until it is shown';
    if (root.matches('.site')) return 'Run python -m app.one_page on your machine';
    const { bundle, step, picture } = stage.state,
      query = new URLSearchParams({ story: story.path, step: String(step ?? 0), picture: picture ?? '' });
    const link = element('a', { href: `${base}/wg/page/${bundle}?${query}`, download: '' });
    link.click();
    return 'Saved';
  }

  // What a question veils is left out.
  veiled(/** @type {string} */ part) {
    return (this.app.root.dataset.veils ?? '').includes(part);
  }
  // The texts over the picture: [{text, size, bold}].
  above() {
    const { story, stage, header } = this.app,
      { content } = stage,
      open = !this.veiled('headline');
    const picture = content?.pictures?.find((/** @type {{id: string}} */ { id }) => id === stage.picture)?.title ?? '';
    return [
      { text: `${story?.title ?? ''}: ${picture}`, size: 20, bold: true },
      { text: open ? header.idea.textContent : '', size: 13 },
      { text: open && content?.frames.length ? content.summary : '', size: 13 },
    ];
  }
  // The texts under it.
  below() {
    const { stage, address } = this.app,
      { step, count, titles } = stage.clock;
    const title = this.veiled('sentence') ? '' : `: ${titles[step]}`,
      at = count > 1 ? `Step ${step + 1} of ${count}${title}.` : '';
    return [
      { text: [at, stage.content?.provenance?.said].filter(Boolean).join(' '), size: 13 },
      { text: address.whole(), size: 13 },
    ];
  }
}
