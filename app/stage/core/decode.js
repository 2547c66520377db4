// The form is explainers/story/encoding.py's.
/** @param {ArrayBuffer} buffer @returns {any} */
export function decode(buffer) {
  const end = 8 + new DataView(buffer).getUint32(4, true),
    numbers = new Float32Array(buffer, end),
    content = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, end - 8)));
  /** @type {(value: any) => any} */
  const restore = value => {
    if (value === null || typeof value !== 'object') return value;
    if (value.$column) return numbers.subarray(value.$column[0], value.$column[0] + value.$column[1]);
    for (const [key, inner] of Object.entries(value)) value[key] = restore(inner);
    return value;
  };
  if (content.frames?.$rows !== undefined) {
    const { $rows, ...packed } = content.frames,
      fields = Object.entries(packed);
    content.frames = Array.from({ length: $rows }, (_, n) =>
      Object.fromEntries(fields.flatMap(([name, [values, at]]) => (at[n] < 0 ? [] : [[name, values[at[n]]]]))),
    );
  }
  restore(content);
  for (const { meta } of content.views ?? []) meta.frames ??= content.frames;
  return content;
}
