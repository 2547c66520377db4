// The modules of workbench/ in one file (app/web/modules.py).
export { default } from './workbench/main.js';
