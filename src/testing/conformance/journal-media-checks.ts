/**
 * Checks of media: long base64 texts that a journal may store apart from the entries that have them (J3 and J6 of
 * `journal.ts`).
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { MEDIA_CHARACTERS_MIN } from '../../base/bounds.ts';
import { StoreFullError } from '../../base/errors.ts';
import type { Journal } from '../../journal/journal.ts';
import { appendTransition, assertLog, type Written } from './journal-log-checks.ts';
import type { JournalCheck } from './journal-under-test.ts';

/** Base64 of `bytes` bytes that hardly compress. The same seed gives the same text. */
function base64(bytes: number, seed: string): string {
  return createHash('shake256', { outputLength: bytes }).update(seed).digest('base64');
}

/** The text of an entry with an image, as a session writes it. */
function image(data: string, turn = 0): string {
  return JSON.stringify({ turn, r: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data } }] });
}

const PHOTO = base64(60_000, 'photo');
const ICON = base64(MEDIA_CHARACTERS_MIN, 'icon');
/** Texts that look like media or like references to media. They must come back unchanged. */
const DECEPTIVE: readonly string[] = [
  ...[4, MEDIA_CHARACTERS_MIN - 4, MEDIA_CHARACTERS_MIN, MEDIA_CHARACTERS_MIN + 4].map((length) =>
    image(base64(length, 'length').slice(0, length)),
  ),
  // Not plain base64: the last character has bits that no byte uses, the alphabet is another, or there is a line break.
  image(`${base64(9_000, 'bits').slice(0, -4)}AAB=`),
  image(`${base64(9_000, 'url').slice(0, -4)}-_-_`),
  image(`${base64(9_000, 'line').slice(0, 8_000)}\n${base64(9_000, 'line').slice(8_000)}`),
  JSON.stringify({ text: `"data":"${ICON}"`, 'own"data': ICON, data: [ICON], nested: { data: ICON, more: ICON } }),
  JSON.stringify({ data: `\\u006dedia:1/${'0'.repeat(64)}`, text: `"data":"\\u006dedia:1/${'0'.repeat(64)}"` }),
  JSON.stringify({ data: `media:1/${'0'.repeat(64)}` }),
];

/** Checks of media. */
export const mediaChecks: readonly JournalCheck[] = [
  {
    title: 'J6: entries with media come back as they were appended, at once, when durable, and after a reopen',
    async run(store) {
      const { journal } = store;
      const written: Written[] = [];
      const keys = ['a', 'a:1', 'b'].map((name) => journal.intern(name));
      for (let turn = 0; turn < 12; turn += 1) {
        const entries = keys.map((key) => ({ key, data: image(turn % 3 === 0 ? ICON : PHOTO, turn) }));
        appendTransition(journal, entries, written);
        if (turn === 5) await journal.flushed();
      }
      for (const data of DECEPTIVE) appendTransition(journal, [{ key: keys[0] ?? 0, data }], written);
      assertLog(journal, written);
      for (const { key, position, data } of written) assert.equal(journal.entry(key, position)?.data, data);
      await journal.flushed();
      assertLog(journal, written);
      await journal.close();
      assertLog(await store.reopen(), written);
    },
  },
  {
    title: 'J6: a text that was written by hand and looks like a reference comes back as the same JSON value',
    async run(store) {
      const { journal } = store;
      const key = journal.intern('a');
      const data = `{"data":"\\u006dedia:${key}/${'0'.repeat(64)}"}`;
      journal.append([{ key, data }]);
      const address = journal.putBlob(data);
      const check = (from: Journal): void => {
        for (const read of [[...from.read(key, 0)][0]?.data, from.blob(address)])
          assert.deepEqual(JSON.parse(read ?? ''), { data: `media:${key}/${'0'.repeat(64)}` });
      };
      check(journal);
      await journal.close();
      check(await store.reopen());
    },
  },
  {
    title: 'J6: a removed session takes its own media along, not those of others, and can have them again',
    async run(store) {
      const { journal } = store;
      const [a, b, child] = [journal.intern('a'), journal.intern('b'), journal.intern('a:1')];
      for (const key of [a, b, child]) journal.append([{ key, data: image(PHOTO) }]);
      await journal.flushed();
      journal.append([{ key: a, data: image(ICON) }]);
      journal.remove([a]);
      const again = journal.intern('a');
      journal.append([{ key: again, data: image(PHOTO, 2) }]);
      const check = (from: Journal): void => {
        const found = [b, child, again].map((key) => [...from.read(key, 0)].map((entry) => entry.data));
        assert.deepEqual(found, [[image(PHOTO)], [image(PHOTO)], [image(PHOTO, 2)]]);
        assert.deepEqual([...from.read(a, 0)], []);
      };
      check(journal);
      await journal.close();
      const reopened = await store.reopen();
      check(reopened);
      reopened.remove([b]);
      await reopened.flushed();
      assert.deepEqual(
        [...reopened.tail(0)].map((entry) => entry.data),
        [image(PHOTO), image(PHOTO, 2)],
      );
    },
  },
  {
    title:
      'J6: a blob of a session has its media, also when the session had them before; one of no session has them too',
    async run(store) {
      const { journal } = store;
      const key = journal.intern('a');
      journal.append([{ key, data: image(PHOTO) }]);
      const texts = [image(PHOTO, 2), image(ICON, 3)];
      const owned = texts.map((text) => journal.putBlob(text, key));
      const whole = texts.map((text) => journal.putBlob(text));
      const check = (from: Journal, addresses: readonly string[]): void =>
        assert.deepEqual(
          addresses.map((address) => from.blob(address)),
          texts,
        );
      check(journal, owned);
      check(journal, whole);
      await journal.close();
      const again = await store.reopen();
      check(again, owned);
      again.remove([key]);
      await again.flushed();
      check(again, whole);
    },
  },
  {
    title: 'J3, J6: a medium that was refused with its entry is stored with the next entry that has it',
    needs: 'refuseWrites',
    async run(store) {
      const { journal } = store;
      const written: Written[] = [];
      const key = journal.intern('a');
      appendTransition(journal, [{ key, data: image(ICON) }], written);
      await journal.flushed();
      store.refuseWrites?.(new Error('no space left'));
      journal.append([{ key, data: image(PHOTO) }]);
      await assert.rejects(journal.flushed(), StoreFullError);
      journal.append([{ key, data: image(PHOTO) }]);
      store.refuseWrites?.(undefined);
      await journal.recover();
      assertLog(journal, written);
      appendTransition(journal, [{ key, data: image(PHOTO, 2) }], written);
      await journal.flushed();
      assertLog(journal, written);
      await journal.close();
      assertLog(await store.reopen(), written);
    },
  },
  {
    title: 'J2, J6: after a crash each entry that is there has its media',
    needs: 'crash',
    async run(store) {
      const { journal } = store;
      const written: Written[] = [];
      const key = journal.intern('a');
      appendTransition(journal, [{ key, data: image(ICON) }], written);
      await journal.flushed();
      for (let turn = 0; turn < 5; turn += 1)
        appendTransition(journal, [{ key, data: image(base64(40_000, `${turn % 3}`), turn) }], written);
      const again = await store.crash?.();
      assert.ok(again !== undefined);
      const found = [...again.tail(0)].length;
      assert.ok(found >= 1);
      assertLog(again, written.slice(0, found));
      const later: Written[] = written.slice(0, found);
      appendTransition(again, [{ key, data: image(base64(40_000, '1'), 9) }], later);
      await again.flushed();
      assertLog(again, later);
    },
  },
];
