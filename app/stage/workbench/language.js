// CUDA for the editor: C++'s grammar, the words of CUDA in their own colours, and completion.
import {
  completeFromList,
  cppLanguage,
  Decoration,
  HighlightStyle,
  LanguageSupport,
  MatchDecorator,
  syntaxHighlighting,
  tags,
  ViewPlugin,
} from '../vendor/codemirror.mjs';
import { KIND_OF } from './words.js';

const COMPLETED = { qualifier: 'keyword', probe: 'constant' }; // the editor's names for icons
const options = [...KIND_OF].map(([label, kind]) => ({ label, type: COMPLETED[kind] ?? kind }));
const marks = Object.fromEntries(
  [...new Set(KIND_OF.values())].map(kind => [kind, Decoration.mark({ class: `cuda-${kind}` })]),
);
const words = new MatchDecorator({
  regexp: /\b[A-Za-z_]\w+\b/g,
  decoration: ([word]) => marks[KIND_OF.get(word)] ?? null,
});
const coloured = ViewPlugin.define(
  view => ({
    decorations: words.createDeco(view),
    update(update) {
      this.decorations = words.updateDeco(update, this.decorations);
    },
  }),
  { decorations: plugin => plugin.decorations },
);
const style = HighlightStyle.define([
  { tag: tags.comment, class: 'code-comment' },
  { tag: [tags.string, tags.character], class: 'code-text' },
  { tag: [tags.number, tags.bool, tags.null], class: 'code-number' },
  { tag: [tags.keyword, tags.modifier, tags.controlKeyword], class: 'code-keyword' },
  { tag: [tags.typeName, tags.standard(tags.typeName)], class: 'code-type' },
  { tag: tags.processingInstruction, class: 'code-keyword' },
]);

export const cuda = [
  new LanguageSupport(cppLanguage, cppLanguage.data.of({ autocomplete: completeFromList(options) })),
  coloured,
  syntaxHighlighting(style),
];
