// Types without a module. Those of the data that Python sends are in types.d.ts (app/web/declarations.py).

type Host = Required<import('./core/host.js').Host>;
type Clock = import('./core/clock.js').Clock;
type Thing = Record<string, any>; // of a picture, as its `locate` gives it
type Box = { x: number; y: number; w: number; h: number };
type Point = { x: number; y: number };
type Drawn = {
  title: string;
  host: HTMLElement;
  draw?: () => void;
  where?: (thing: Thing) => Point | null;
  vega?: any;
};
// A frame, as far as the base reads it.
type Frame = story.Frame & { sentences?: string[]; wrong?: boolean };
type Content = story.Stage & { pictures?: { id: string; title: string }[] };
type Context = Host & { clock: Clock; stage: Content };
type App = import('./shell/app.js').App;
type Course = import('./shell/course.js').Course;
type MenuEntry = import('./shell/menu.js').Entry;
type Room = ReturnType<typeof import('./shell/room.js').makeRoom>;
type Stage = import('./core/mount.js').Stage;
type Stop = import('./shell/course.js').Stop;
// A story of the rail (app/stories/__init__.py): begin: the defaults of its choices; own: those that stay in it.
type Lens = { path: string; title: string; begin: Texts; own: string[]; runs: boolean };
type Texts = Record<string, string>;
// The answer of the server to a question (app/web/server.py).
type Answer = Partial<web.Asking> & { title?: string; bundle?: string; waiting?: web.Waiting };
type Poll = any; // a question to the class (app/classroom/polls.py)

// The box of a panel of a scene, with what places and draws its things (views/scene.js).
type Paint = ReturnType<typeof import('./core/paint.js').theme>;
type PanelBox = Point & {
  id: string;
  step: number;
  em: number;
  small: number;
  width: number;
  height: number;
  narrow: boolean;
  paint: Paint;
  made: import('./core/kinds.js').Marks;
  wide: (text: string, bold?: boolean, px?: number) => number;
  fit: (texts: string[], room: number, bold?: boolean) => string;
  lines: (text: string, room: number, most: number) => string[];
  colour: (name: string) => string;
  rgb: (name: string) => number[];
  pale: (name: string, share: number) => string;
  ink: (name: string, share: number) => string;
  columns: Record<string, Float32Array>; // of the view
  // A matrix of a panel as an image, made once for each key; by powers of ten without colourOf.
  image: (
    panel: any,
    key: string | number,
    columns: number,
    rows: number,
    valueAt: (cell: number) => number | undefined,
    colourOf?: (value: number) => number[],
  ) => any;
  tint: (values: Float32Array) => (value: number) => number[]; // by sign and size
  exact: (value: number) => string;
  number: (value: number) => string;
  short: (value: number, digits?: number) => string;
};
type PanelKind = {
  heights: (panel: any, box: PanelBox) => number[];
  draw: (panel: any, box: PanelBox) => void;
};

// What a module of views/ exports: a picture with the meta and the frames of its story.
//   /** @type {Picture<models.MatricesMeta>} */
//   export default function (host, { meta, columns }, context) { ... }
type Picture<Meta, Own = story.Frame> = (
  host: HTMLElement,
  view: Omit<story.View, 'meta'> & {
    meta: Meta extends { frames: any } ? Meta : Meta & { frames: Own[] };
  },
  context: Context,
) => { draw?: (why?: string) => void; unmount: () => void };
