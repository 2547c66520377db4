// The module of a kind of picture. A bundler finds all of them by this one import.
/** @param {string} kind */
export const viewOf = kind => import(`../views/${kind}.js`);
