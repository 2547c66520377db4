// core/data.js is written by the server (app/web/server.py) from constants of Python.
export const VEGA: string;
export const PALETTE: Record<string, any>;
export const TERMS: Record<string, { said: string; place: string; source: { label: string; link: string } }>;
export const PROVENANCE: Record<string, string>;
export const LABELS: Record<string, string>;
export const MARKS: Record<string, string>;
