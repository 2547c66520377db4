import js from '@eslint/js';
import globals from 'globals';

const BROWSER = { ...globals.browser, vegaEmbed: 'readonly' };

export default [
  { ignores: ['**/node_modules/', 'vendor/'] },
  js.configs.recommended,
  { languageOptions: { globals: BROWSER } },
  { rules: { 'no-unused-vars': ['error', { ignoreRestSiblings: true }] } },
  { files: ['**/*.config.js', '**/*.test.js'], languageOptions: { globals: globals.node } },
];
