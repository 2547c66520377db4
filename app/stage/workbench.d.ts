// The modules of workbench/ in one file (app/web/joined.py).
export { default } from './workbench/main.js';
