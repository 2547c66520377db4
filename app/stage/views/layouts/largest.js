// The layout with the largest text that a pane has room for: in a large window marks and digits grow.
const SCALES = [1.8, 1.6, 1.4, 1.2];

/**
 * @param {{width: number, height: number, em: number}} size
 * @param {(size: any) => any} layout returns its parts, and the height that it needs
 * @param {(laid: any) => boolean} roomy whether its parts have room for text of size em
 * @returns {any} the layout with em
 */
export function largest(size, layout, roomy) {
  const laid = scale => {
    const em = scale * size.em;
    return { ...layout({ ...size, em }), em };
  };
  const found = SCALES.map(laid).find(one => one.height <= size.height && roomy(one));
  return found ?? laid(1);
}
