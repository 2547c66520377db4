// Keeps the site's files, so that a visited site works without a network.
const [VERSION, FILES] = JSON.parse('$SITE');

self.addEventListener('install', event => {
  event.waitUntil(
    caches
      .open(VERSION)
      .then(cache => cache.addAll(FILES))
      .then(() => self.skipWaiting()),
  );
});
self.addEventListener('activate', event => {
  event.waitUntil(
    caches
      .keys()
      .then(names => Promise.all(names.filter(name => name !== VERSION).map(name => caches.delete(name))))
      .then(() => self.clients.claim()),
  );
});
// What is kept comes first. A page that was never opened is any page: its address tells the app what to show.
self.addEventListener('fetch', event => {
  const { request } = event;
  if (request.method !== 'GET' || new URL(request.url).origin !== location.origin) return;
  const answer = async () => {
    const cache = await caches.open(VERSION),
      kept = await cache.match(request, { ignoreSearch: request.mode === 'navigate' });
    if (kept) return kept;
    try {
      const got = await fetch(request);
      if (got.ok && got.type === 'basic') cache.put(request, got.clone());
      return got;
    } catch (error) {
      const shell = request.mode === 'navigate' && (await cache.match(new URL('./', self.registration.scope)));
      if (!shell) throw error;
      return shell;
    }
  };
  event.respondWith(answer());
});
