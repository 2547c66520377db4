import { chartCovers } from './chart_covers.js';
import { PALETTE, textSize, theme, type } from './paint.js';
import { walkPoints } from './points.js';

// A Vega-Lite chart as wide as its host (and as high, with text as large as a picture's, if
// `fill`). Its parameter `step`, if it has one, is the clock's step, from 1. press: what Enter does at a
// point (points.js).
/**
 * @param {HTMLElement} host
 * @param {any} given the chart
 * @param {Context} context
 * @param {{fill?: boolean, press?: ((x: number, datum: any) => void) | null}} [options]
 */
export async function chartView(host, given, { clock, charts }, { fill = false, press = null } = {}) {
  const embed = await charts(),
    paint = theme(host),
    em = fill ? textSize() : 13 * type.scale,
    spec = JSON.parse(JSON.stringify(given).replaceAll(PALETTE.axis, paint.text)),
    axis = {
      labelColor: paint.text,
      titleColor: paint.text,
      gridColor: paint.border,
      gridOpacity: 0.4,
      domainColor: paint.border,
      tickColor: paint.border,
      labelFontSize: em,
      titleFontSize: em,
      titleFontWeight: 600,
    };
  const config = {
    ...spec.config,
    background: 'transparent',
    font: paint.font,
    axis,
    view: { stroke: 'transparent' },
    title: { color: paint.text, fontSize: em + 1 },
    legend: {
      labelColor: paint.text,
      titleColor: paint.text,
      labelFontSize: em,
      titleFontSize: em,
      labelLimit: 400,
    },
    text: { color: paint.text, fontSize: em },
    style: { halo: { stroke: paint.background, strokeWidth: 5, strokeJoin: 'round' } },
    header: { labelColor: paint.text, titleColor: paint.text },
  };
  const sized =
    spec.concat || spec.hconcat || spec.vconcat || spec.facet
      ? spec
      : {
          ...spec,
          width: 'container',
          ...(fill ? { height: 'container' } : {}),
          autosize: { type: 'fit', contains: 'padding' },
        };
  const { view } = await embed(
    host,
    { ...sized, config },
    { actions: false, renderer: 'canvas', tooltip: { theme: 'custom' } },
  );
  const follows = (spec.params ?? []).some((/** @type {any} */ p) => p.name === 'step');
  const covers = chartCovers(host, view, clock);
  const tell = async (/** @type {number} */ step) => {
    await view.signal('step', step + 1).runAsync();
    covers.draw();
  };
  const unfollow = follows ? clock.follow(tell) : () => {};
  if (follows) tell(clock.step);
  const leave = walkPoints(host, view, press);
  return {
    view,
    unmount() {
      unfollow();
      leave();
      covers.unmount();
      view.finalize();
    },
  };
}
