// talks/ours.js is written by the server from app/talks/*.json.
export const TALKS: { id: string; [name: string]: any }[];
