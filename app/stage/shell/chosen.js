// What was chosen in any story. A choice goes along from story to story, except for the choices that
// mean something only in their own story (`own` of the rail).

export class Chosen {
  /** @type {Map<string, string>} */
  values = new Map(); // 'name', or 'story name' of a story's own -> value, the newest last

  /** @param {Lens} story @param {string} name */
  key({ path, own }, name) {
    return own.includes(name) ? `${path} ${name}` : name;
  }
  /** @param {Lens} story @param {string} name */
  has(story, name) {
    return this.values.has(this.key(story, name));
  }
  /** @param {Lens} story @param {string} name @param {string} value */
  note(story, name, value) {
    const key = this.key(story, name);
    this.values.delete(key); // the newest comes last
    this.values.set(key, value);
  }
  // The reader has changed `name`, which turned the choices `before` into `link`. Its value counts,
  // also if it goes back to the default; so do choices made before that the change moved, and all
  // that it moved if it stands for several (a preset).
  /** @param {Lens} story @param {string} name @param {Texts} before @param {Texts} link */
  change(story, name, before, link) {
    const moved = Object.keys(link).filter(other => link[other] !== before[other]);
    for (const other of moved) if (!(name in link) || this.has(story, other)) this.note(story, other, link[other]);
    if (name in link) this.note(story, name, link[name]);
  }
  // A link from elsewhere: what differs from the defaults, and what was chosen before.
  /** @param {Lens} story @param {Texts} link */
  arrive(story, link) {
    for (const [name, value] of Object.entries(link))
      if (this.has(story, name) || story.begin[name] !== value) this.note(story, name, value);
  }
  // [name, value] of what goes along to a story, the newest last.
  /** @param {Lens} story @returns {[string, string][]} */
  along({ path }) {
    return [...this.values].flatMap(([key, value]) => {
      const name = key.replace(`${path} `, '');
      return name.includes(' ') ? [] : [[name, value]];
    });
  }
}
