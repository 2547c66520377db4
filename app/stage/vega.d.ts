// vega.js is written by the server (app/store/vega.py): Vega, Vega-Lite and vega-embed.
export {};
declare global {
  const vegaEmbed: (host: Element, spec: object, options: object) => Promise<{ view: any }>;
}
