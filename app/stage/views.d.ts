// What a module of views/ exports: a picture with the meta and the frames of its story (types.d.ts).
//   /** @type {Picture<fusion.FusionMeta>} */
//   export default function (host, { meta, columns }, context) { ... }
type Context = Required<import('./core/host.js').Host> & {
  clock: import('./core/clock.js').Clock;
  stage: story.Stage;
};
type Picture<Meta, Frame = story.Frame> = (
  host: HTMLElement,
  view: {
    meta: Meta extends { frames: any } ? Meta : Meta & { frames: Frame[] };
    columns: Record<string, Float32Array>;
    side?: number;
  },
  context: Context,
) => { draw?: (why?: string) => void; unmount: () => void };
