// The workbench's bundle (.ci/stage_bundle.py).
export { default } from './workbench/main.js';
