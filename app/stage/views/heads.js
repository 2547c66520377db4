// A scene, and below it the size of a cache that the reader types.
import { element } from '../core/paint.js';
import calculator from './calculator.js';
import scene from './scene.js';

export default function (host, view, context) {
  const inner = element('div', { class: 'view' }),
    below = element('div', { class: 'sizing' });
  host.replaceChildren(inner, below);
  const parts = [scene(inner, view, context), calculator(below, view, context)];
  return {
    unmount() {
      parts.forEach(part => part.unmount());
    },
  };
}
