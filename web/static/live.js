// live.js keeps a page up to date. The page is whole without it: everything
// here comes from fetching the page's own address again and taking the parts
// that are marked with data-live. Nothing is evaluated, nothing is inserted as
// markup, and whatever a reader has opened, ticked, typed or focused stays.
(() => {
  'use strict';

  const REFRESH = 2000;      // ms between two readings of the page
  const SLOWEST = 20000;     // ms between two readings of a page that takes long
  const SILENCE = 25000;     // ms without a word after which a stream counts as lost
  const HIDDEN = 15000;      // ms that a hidden page keeps its stream
  const LOOK = 15000;        // ms between readings when no stream gets through
  const MAX_ROWS = 1000;     // rows that a followed list keeps
  const MAX_TOKENS = 200000; // characters shown of an answer that is being written

  const status = document.getElementById('live');
  let skew = 0;              // the server's clock minus ours, in ms
  const now = () => Date.now() + skew;
  const pause = ms => new Promise(done => setTimeout(done, ms));

  // ---------- times ----------

  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || 'local time';
  const zoneName = zone.split('/').pop().replaceAll('_', ' ');
  const two = n => String(n).padStart(2, '0');
  const local = d => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  const utcWord = /,? UTC$/;

  // words says a length of time as the server does: "42 s", "5 h 28 min".
  const words = ms => {
    const s = Math.max(0, Math.floor(ms / 1000)), m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
    if (s < 60) return `${s}\u00a0s`;
    if (h < 1) return s % 60 && m < 10 ? `${m}\u00a0min ${s % 60}\u00a0s` : `${m}\u00a0min`;
    if (d < 1) return m % 60 ? `${h}\u00a0h ${m % 60}\u00a0min` : `${h}\u00a0h`;
    return h % 24 ? `${d}\u00a0d ${h % 24}\u00a0h` : `${d}\u00a0d`;
  };

  // tick shows how long ago or how far ahead a moment is, by the server's clock.
  const tick = root => {
    for (const el of root.querySelectorAll('[data-since],[data-until]')) {
      const since = el.dataset.since, at = Date.parse(since ?? el.dataset.until);
      if (Number.isNaN(at)) continue;
      say(el, words(since !== undefined ? now() - at : at - now()));
    }
  };
  const say = (el, text) => { if (el.textContent !== text) el.textContent = text; };

  // localize turns the UTC texts of a tree into local ones; the exact time stays
  // in the title. What a schedule says in UTC is marked with data-utc and stays.
  const localize = root => {
    if (zone === 'UTC') return;
    for (const el of root.querySelectorAll('time[datetime]:not([data-utc],[data-since],[data-until])')) {
      const at = new Date(el.getAttribute('datetime'));
      if (Number.isNaN(at.getTime())) continue;
      el.title = `${el.textContent} UTC`;
      el.textContent = local(at);
      const after = el.nextSibling;
      if (after?.nodeType === Node.TEXT_NODE && after.nodeValue.startsWith(' UTC')) after.nodeValue = after.nodeValue.slice(4);
    }
    for (const el of root.querySelectorAll('th,dt,caption')) {
      const last = el.lastChild;
      if (last?.nodeType === Node.TEXT_NODE && utcWord.test(last.nodeValue)) last.nodeValue = last.nodeValue.replace(utcWord, '');
    }
    for (const el of root.querySelectorAll('.zone')) say(el, zoneName);
  };

  // ---------- morphing ----------

  // clean takes out of a tree what a page of ours never has. The policy of the
  // page would stop it too.
  const clean = root => {
    for (const el of root.querySelectorAll('script,iframe,object,embed,base,meta,link,style')) el.remove();
    for (const el of root.querySelectorAll('*')) {
      for (const { name, value } of [...el.attributes]) {
        if (name.startsWith('on') || name === 'style' || /^(href|src|action|formaction)$/.test(name) && !/^(\/(?!\/)|#|\?|$)/.test(value)) el.removeAttribute(name);
      }
    }
  };

  const kept = new Set(['flash', 'gone', 'fresh']); // classes of ours
  const classes = el => [...el.classList].filter(c => !kept.has(c)).sort().join(' ');

  const attributes = (old, fresh) => {
    const busy = old === document.activeElement;
    for (const { name, value } of [...fresh.attributes]) {
      if (name === 'class') {
        if (classes(old) !== classes(fresh)) old.setAttribute('class', [...fresh.classList, ...[...old.classList].filter(c => kept.has(c))].join(' '));
      } else if (name === 'open' && old.localName === 'details' || busy && (name === 'value' || name === 'checked' || name === 'disabled')) {
        continue;
      } else if (old.getAttribute(name) !== value) {
        old.setAttribute(name, value);
      }
    }
    for (const { name } of [...old.attributes]) {
      if (fresh.hasAttribute(name) || name === 'open' && old.localName === 'details' || name === 'class' && kept.has(old.className)) continue;
      old.removeAttribute(name);
    }
  };

  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id ?? '') === (b.id ?? '') && a.type === b.type;

  // chosen reports whether a reader has chosen something else than what a choice began
  // with: other options in the places of these would be another choice. What is typed
  // into a text area or a line the browser keeps itself.
  const chosen = el => el.localName === 'select' && el.value !== (el.querySelector('option[selected]') ?? el.options[0])?.value;

  // morph makes old like fresh and leaves alone what is the same.
  const morph = (old, fresh) => {
    if (old.hasAttribute('data-tokens') || old.isEqualNode(fresh)) return;
    attributes(old, fresh);
    if (old.localName === 'textarea' || old.localName === 'select') {
      if (old === document.activeElement || chosen(old)) return;
    }
    if (old.hasAttribute('data-rows') && fresh.hasAttribute('data-rows')) rows(old, fresh);
    else children(old, fresh);
  };

  const children = (old, fresh) => {
    const byID = new Map([...old.children].filter(c => c.id).map(c => [c.id, c]));
    let at = old.firstChild;
    for (const next of [...fresh.childNodes]) {
      const known = next.id ? byID.get(next.id) : undefined;
      if (known) {
        if (known !== at) old.insertBefore(known, at); else at = at.nextSibling;
        morph(known, next);
        continue;
      }
      while (at?.id && next.id && !alike(at, next) && !fresh.querySelector(`:scope > #${CSS.escape(at.id)}`)) {
        const gone = at;
        at = at.nextSibling;
        gone.remove();
      }
      if (at && alike(at, next) && !(at.id && !next.id)) {
        if (at.nodeType === Node.ELEMENT_NODE) morph(at, next);
        else if (at.nodeValue !== next.nodeValue) at.nodeValue = next.nodeValue;
        at = at.nextSibling;
      } else {
        old.insertBefore(document.importNode(next, true), at);
      }
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  };

  const flash = el => {
    el.classList.remove('flash');
    void el.offsetWidth; // begins the animation anew
    el.classList.add('flash');
    setTimeout(() => el.classList.remove('flash'), 1300);
  };

  // ---------- lists ----------

  const waiting = new Map(); // id of a list -> its newest rows that are not shown
  const paused = new Set();  // ids of lists that stand still

  // rows changes the rows that are known in place. New ones wait under a button,
  // but for the parts of one run, which its reader follows.
  const rows = (old, fresh) => {
    if (paused.has(old.id)) return;
    const followed = (old.dataset.live ?? '').includes('run:') || old.dataset.rows === 'now';
    if (followed && old.querySelector(':scope > [id]') && ![...fresh.children].some(r => r.id && old.querySelector(`:scope > #${CSS.escape(r.id)}`))) {
      children(old, fresh); // more came than one reading shows
      if (fresh.children.length) show('', 'More came than fits here: the list has the newest.', 8000);
      return;
    }
    const known = new Map([...old.children].filter(r => r.id).map(r => [r.id, r]));
    const seen = new Set(), added = [];
    for (const next of fresh.children) {
      if (!next.id) continue;
      seen.add(next.id);
      const row = known.get(next.id);
      if (!row) {
        added.push(next);
        continue;
      }
      row.classList.remove('gone');
      if (row.isEqualNode(next)) continue;
      attributes(row, next);
      const cells = [...row.children], like = cells.length === next.children.length;
      if (!like) {
        children(row, next);
        continue;
      }
      cells.forEach((cell, i) => {
        const before = cell.textContent;
        morph(cell, next.children[i]);
        if (cell.textContent !== before) flash(cell);
      });
    }
    if (!followed) for (const [id, row] of known) if (!seen.has(id)) row.classList.add('gone');
    if (!added.length) waiting.delete(old.id);
    else if (!known.size || followed) insert(old, fresh, added);
    else waiting.set(old.id, { fresh, added });
    offer(old);
  };

  // insert puts rows where the server has them.
  const insert = (old, fresh, added) => {
    const ours = new Map([...old.children].filter(r => r.id).map(r => [r.id, r]));
    for (const next of [...added].reverse()) {
      let after = next.nextElementSibling;
      while (after && !ours.has(after.id)) after = after.nextElementSibling;
      const row = document.importNode(next, true);
      row.classList.add('new');
      let place = after ? ours.get(after.id) : null;
      if (!after && old.firstElementChild && !next.previousElementSibling) place = old.firstElementChild;
      old.insertBefore(row, place);
      ours.set(row.id, row);
    }
    for (let extra = old.children.length - MAX_ROWS; extra > 0; extra--) (old.querySelector(':scope > .gone') ?? old.lastElementChild).remove();
  };

  const offer = old => {
    const table = old.closest('table') ?? old, id = `${old.id}-new`;
    let button = document.getElementById(id);
    const n = waiting.get(old.id)?.added.length ?? 0;
    if (!n) {
      button?.remove();
      return;
    }
    if (!button) {
      button = document.createElement('button');
      button.type = 'button';
      button.id = id;
      button.className = 'newrows';
      button.addEventListener('click', () => {
        const w = waiting.get(old.id);
        waiting.delete(old.id);
        const first = w?.added[0]?.id;
        if (w) insert(old, w.fresh, w.added);
        button.remove();
        (first && document.getElementById(first)?.querySelector('a,input,button'))?.focus();
      });
      table.before(button);
    }
    say(button, `Show ${n} new`);
  };

  // ---------- reading the page again ----------

  const dirty = new Set();
  let last = 0, pace = REFRESH, timer = 0, reading = false, ended = false;

  const topics = () => {
    const all = new Set();
    for (const el of document.querySelectorAll('[data-live]')) for (const t of el.dataset.live.split(/\s+/)) if (t) all.add(t);
    return [...all].sort();
  };

  // soon reads the page again, at most every two seconds, less often from a slow
  // server, and only when somebody looks.
  const soon = (changed, extra = 0) => {
    const here = new Set(topics());
    for (const t of changed) if (here.has(t)) dirty.add(t);
    if (timer || reading || ended || !dirty.size || document.hidden) return;
    timer = setTimeout(() => { timer = 0; read(); }, Math.max(0, last + pace - Date.now()) + extra + Math.random() * 300);
  };

  const read = async () => {
    const wanted = new Set(dirty);
    dirty.clear();
    reading = true;
    const began = performance.now();
    try {
      const address = location.pathname + location.search;
      const answer = await fetch(address, { headers: { Accept: 'text/html' }, cache: 'no-store', credentials: 'same-origin', signal: AbortSignal.timeout(15000) });
      if (answer.status === 401 || answer.status === 403 || answer.redirected && new URL(answer.url).pathname !== location.pathname) return signedOut();
      if (answer.status >= 500 || answer.status === 429) throw new Error('away');
      if (!answer.ok || !(answer.headers.get('Content-Type') ?? '').startsWith('text/html')) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
      clean(fresh);
      apply(fresh, wanted);
    } catch {
      for (const t of wanted) dirty.add(t); // tried again, or with the reconnection
    } finally {
      reading = false;
      last = Date.now();
      pace = Math.min(SLOWEST, Math.max(REFRESH, 10 * (performance.now() - began))); // a slow server is asked less
      if (state === 'live') soon([]);
    }
  };

  const apply = (fresh, wanted) => {
    localize(fresh);
    tick(fresh);
    setTimeout(listen); // to what came with it
    for (const next of fresh.querySelectorAll('[data-live]')) {
      if (next.parentElement?.closest('[data-live]')) continue;
      const mine = next.id && document.getElementById(next.id);
      if (mine?.hasAttribute('data-empty') && mine.nodeName !== next.nodeName) {
        mine.replaceWith(document.importNode(next.closest('[data-fills]') ?? next, true)); // the first rows of a list
        continue;
      }
      if (!mine || mine.nodeName !== next.nodeName) {
        more();
        continue;
      }
      if (!next.dataset.live.split(/\s+/).some(t => wanted.has(t))) continue;
      const y = scrollY, focus = document.activeElement;
      morph(mine, next);
      if (focus !== document.activeElement && focus?.isConnected) focus.focus({ preventScroll: true });
      if (scrollY !== y && Math.abs(scrollY - y) < 2) scrollTo(scrollX, y);
    }
  };

  // more offers what the page cannot grow by itself: a part that it did not have.
  const more = () => {
    const body = document.querySelector('.body');
    if (!body || document.getElementById('live-more')) return;
    const button = document.createElement('button');
    button.type = 'button';
    button.id = 'live-more';
    button.className = 'newrows';
    button.textContent = 'There is something new. Show it';
    button.addEventListener('click', () => location.reload());
    body.prepend(button);
  };

  // ---------- the connection ----------

  let state = 'new', heard = 0, lostAt = 0, position = '', blind = true, connection = null, waitTimer = 0, restTimer = 0;

  const show = (kind, text, rest = 0) => {
    if (!status) return;
    clearTimeout(restTimer);
    status.className = `live conn ${kind}`;
    say(status, text);
    if (rest) restTimer = setTimeout(() => { if (state === 'live') show('quiet', 'Live'); }, rest);
  };

  const signedOut = () => {
    ended = true;
    connection?.abort();
    show('lost', 'You are signed out. ');
    if (!status) return;
    const link = document.createElement('a');
    link.href = '/ui/sign-in';
    link.textContent = 'Sign in';
    status.append(link);
  };

  const lost = () => {
    if (ended || state === 'lost') return;
    state = 'lost';
    lostAt = heard || Date.now();
    // What comes back within two seconds is not worth a word.
    waitTimer = setTimeout(() => { if (state === 'lost') show('lost', `Reconnecting. What you see is from ${local(new Date(lostAt)).slice(11)}.`); }, 2000);
  };

  const back = (missed, reason) => {
    const was = state, spoken = status?.classList.contains('lost');
    clearTimeout(waitTimer);
    state = 'live';
    if (reason) show('', `This page was read again: ${reason}.`, 8000);
    else if (was === 'lost' && spoken) show('', missed ? `Caught up. ${missed} ${missed === 1 ? 'event' : 'events'} while you were away; nothing is missing.` : 'Caught up. Nothing happened while you were away.', 8000);
    else if (was !== 'live') show('quiet', 'Live');
  };

  // count shows a number of the menu.
  const count = c => {
    const el = document.getElementById(`n-${c.here}`);
    if (!el) return;
    el.hidden = !c.shown;
    el.className = `count ${c.class ?? ''}`.trim();
    say(el.firstElementChild, c.n);
    say(el.lastElementChild, c.shown ? `, ${c.n} ${c.words}` : '');
  };

  const take = (id, kind, text) => {
    if (id) position = id;
    let m;
    try { m = JSON.parse(text); } catch { return true; }
    const at = Date.parse(m.now);
    if (!Number.isNaN(at)) skew = at - Date.now();
    for (const c of m.counts ?? []) count(c);
    switch (kind) {
      case 'hello': {
        const first = state === 'new';
        back(m.missed ?? 0, state === 'lost' && blind ? 'its place in the stream was not known' : '');
        soon(topics(), first ? 1500 : 0); // what happened between the page and the stream
        break;
      }
      case 'resync':
        back(0, m.reason || 'events are gone');
        soon(topics());
        break;
      case 'changed':
        back(0, '');
        soon(m.topics ?? []);
        break;
      case 'again':
        return false;
    }
    return true;
  };

  // events reads a stream of server-sent events until it ends.
  const events = async (path, headers, each, signal) => {
    const stop = new AbortController();
    signal.addEventListener('abort', () => stop.abort());
    let silence = setTimeout(() => stop.abort(), SILENCE);
    try {
      const answer = await fetch(path, { headers: { Accept: 'text/event-stream', ...headers }, cache: 'no-store', credentials: 'same-origin', signal: stop.signal });
      if (!answer.ok || !(answer.headers.get('Content-Type') ?? '').startsWith('text/event-stream')) {
        await answer.body?.cancel();
        return { status: answer.status };
      }
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '', id = '', kind = '', data = [];
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return { status: 200 };
        clearTimeout(silence);
        silence = setTimeout(() => stop.abort(), SILENCE);
        heard = Date.now();
        const lines = (rest + value).split('\n');
        rest = lines.pop();
        if (rest.length > 4 << 20) return { status: 200 }; // no event of ours
        for (const line of lines) {
          if (line === '') {
            if (data.length || kind) {
              if (each(id, kind, data.join('\n')) === false) return { status: 200, again: true };
            } else if (id) each(id, 'place', '{}');
            id = kind = '';
            data = [];
          } else if (line.startsWith('id: ')) id = line.slice(4);
          else if (line.startsWith('event: ')) kind = line.slice(7);
          else if (line.startsWith('data: ')) data.push(line.slice(6));
        }
      }
    } catch {
      return { status: 0, silent: stop.signal.aborted && !signal.aborted };
    } finally {
      clearTimeout(silence);
      stop.abort();
    }
  };

  const follow = async () => {
    let failures = 0, looked = Date.now();
    while (!ended) {
      while (document.hidden && !ended) await new Promise(done => document.addEventListener('visibilitychange', done, { once: true }));
      const wanted = topics();
      if (!wanted.length) wanted.push('runs'); // for the numbers of the menu
      connection = new AbortController();
      let spoke = false;
      blind = !position;
      const headers = position ? { 'Last-Event-ID': position } : {};
      const end = await events(`/ui/live?topics=${encodeURIComponent(wanted.join(','))}`, headers, (id, kind, text) => {
        spoke = true;
        failures = 0;
        return take(id, kind, text);
      }, connection.signal);
      if (ended) return;
      if (end.again) continue;
      if (end.status === 401 || end.status === 403) return signedOut();
      if (end.status === 400 && position) position = ''; // no place of this server
      if (!document.hidden || !connection.signal.aborted) lost();
      if (end.silent && !spoke && Date.now() - looked > LOOK) {
        looked = Date.now();
        soon(topics()); // something between holds the stream back; what can be fetched is fresh
      }
      failures++;
      await Promise.race([pause(Math.min(500 * 2 ** Math.min(failures, 5), 10000) * (0.5 + Math.random() / 2)), new Promise(done => addEventListener('online', done, { once: true }))]);
    }
  };

  let hiddenTimer = 0;
  document.addEventListener('visibilitychange', () => {
    clearTimeout(hiddenTimer);
    if (document.hidden) hiddenTimer = setTimeout(() => connection?.abort(), HIDDEN);
    else soon([]);
  });
  addEventListener('pagehide', () => connection?.abort());
  addEventListener('pageshow', e => { if (e.persisted) location.reload(); });

  // ---------- an answer while it is written ----------

  const shownText = s => s.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, c => c === '\n' || c === '\t' ? c : `[U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}]`);

  const speaking = new WeakSet();
  const listen = () => {
    for (const el of document.querySelectorAll('[data-tokens]')) {
      if (speaking.has(el)) continue;
      speaking.add(el);
      speak(el);
    }
  };

  // speak shows what the model of a run writes. It is kept nowhere: the recorded
  // answer replaces it, and so does another attempt.
  const speak = async el => {
    const run = el.dataset.tokens, text = document.createTextNode(''), words = document.createElement('p'), hint = document.createElement('p');
    words.className = 'say-t being-written';
    hint.className = 'hint';
    hint.textContent = 'Being written, not stored yet. If the worker ends now, the model is asked again.';
    words.append(text);
    const said = document.createElement('div'), who = document.createElement('div'), name = document.createElement('b');
    said.append(words, hint);
    who.className = 'who';
    name.textContent = 'Agent';
    who.append(name);
    let after = el.dataset.after || String(Math.max(0, ...[...document.querySelectorAll('tr[id^="f"]')].map(r => Number(r.id.slice(1)) || 0)));
    let buffer = '', turn = '', kind = '', painting = 0, over = false;
    const clear = () => {
      buffer = kind = '';
      text.data = '';
      el.replaceChildren();
    };
    const paint = () => {
      painting = 0;
      if (!buffer) return;
      if (!words.isConnected) el.replaceChildren(...(el.classList.contains('msg') ? [who, said] : [said]));
      const box = words.scrollHeight > words.clientHeight + 1 ? words : null;
      const atEnd = box ? box.scrollTop + box.clientHeight >= box.scrollHeight - 8 : scrollY > 0 && innerHeight + scrollY >= document.documentElement.scrollHeight - 8;
      text.appendData(shownText(buffer));
      buffer = '';
      if (text.length > MAX_TOKENS) text.deleteData(0, text.length - MAX_TOKENS);
      if (atEnd || !box && words.scrollHeight > words.clientHeight + 1) words.scrollTop = words.scrollHeight;
      if (atEnd && !box) scrollTo(scrollX, document.documentElement.scrollHeight);
    };
    const each = (id, type, data) => {
      if (!el.isConnected) {
        over = true;
        return false;
      }
      if (id) after = id;
      if (type === 'end') {
        over = true;
        clear();
        soon([`run:${run}`]);
        return false;
      }
      if (type === 'resync') after = '0';
      let d;
      try { d = JSON.parse(data); } catch { return true; }
      if (type === '') {
        if (d.kind === 'model_answered' || d.kind === 'model_failed') clear();
        return true;
      }
      if (type !== 'delta') return true;
      const attempt = `${d.epoch}.${d.turn}`;
      if (attempt !== turn || d.kind === 'reset') clear();
      turn = attempt;
      if (d.kind === 'reset') return true;
      if (d.kind !== kind) buffer += `${text.length || buffer ? '\n\n' : ''}${d.kind === 'thinking' ? 'Thinking: ' : d.kind === 'tool_call' ? `Calling ${d.tool || 'a tool'}: ` : ''}`;
      kind = d.kind;
      buffer += d.text ?? '';
      if (!painting) painting = setTimeout(paint, 100);
      return true;
    };
    for (let failures = 0; !over && !ended;) {
      while (document.hidden) await new Promise(done => document.addEventListener('visibilitychange', done, { once: true }));
      const stop = new AbortController(), hide = () => { if (document.hidden) stop.abort(); };
      document.addEventListener('visibilitychange', hide);
      const end = await events(`/v1/runs/${encodeURIComponent(run)}/events`, after === '0' ? {} : { 'Last-Event-ID': after }, (...e) => { failures = 0; return each(...e); }, stop.signal);
      document.removeEventListener('visibilitychange', hide);
      if (end.status === 401 || end.status === 403 || end.status === 404 || end.status === 410) return;
      await pause(Math.min(500 * 2 ** Math.min(++failures, 5), 10000));
    }
  };

  // ---------- lists that can stand still ----------

  for (const button of document.querySelectorAll('button[data-pause]')) {
    button.hidden = false;
    button.addEventListener('click', () => {
      const id = button.dataset.pause, stop = !paused.has(id);
      if (stop) paused.add(id); else paused.delete(id);
      button.setAttribute('aria-pressed', String(stop));
      say(button, stop ? 'Go on' : 'Pause');
      if (!stop) soon(topics());
    });
  }

  // ---------- begin ----------

  localize(document);
  tick(document);
  setInterval(() => { if (!document.hidden) tick(document); }, 1000);
  if (status) follow();
  listen();
})();
