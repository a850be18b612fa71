// Goal: an error that crosses to another thread is the same error there. Method: every error class of this package
// through structured clone, then hostile and foreign errors.
import { describe, expect, test } from 'vitest';
import * as errors from '../../src/base/errors.ts';
import { ConfigError, InvalidArgumentError, MailboxFullError, ModelError, TroupeError } from '../../src/base/errors.ts';
import { decodeError, encodeError } from '../../src/threads/error-codec.ts';

const crossed = (thrown: unknown): Error => decodeError(structuredClone(encodeError(thrown)));

/** Classes that take their code first; separate tests cover them. */
const CODED: ReadonlySet<string> = new Set(['ModelError', 'InvalidArgumentError']);

describe('errors of this package', () => {
  const classes = Object.entries(errors).filter(
    ([name, value]) => typeof value === 'function' && value.prototype instanceof TroupeError && !CODED.has(name),
  );

  test('an unusable argument keeps its code', () => {
    const decoded = crossed(new InvalidArgumentError('message_not_found', 'why', { data: { id: 'm1' } }));
    expect(decoded).toBeInstanceOf(InvalidArgumentError);
    expect(decoded).toMatchObject({ code: 'message_not_found', message: 'why', data: { id: 'm1' } });
  });

  test('the list of classes is not empty', () => expect(classes.length).toBeGreaterThan(10));

  test.each(classes)('%s keeps class, name, code, message, data, retryable and stack', (name, Class) => {
    const make = Class as new (message: string, details: object) => TroupeError;
    const error = new make('why', { data: { limit: 'x', nested: [1] }, cause: new Error('below') });
    const decoded = crossed(error);
    expect(decoded).toBeInstanceOf(make);
    expect(decoded).toMatchObject({ name, code: error.code, message: 'why', data: error.data });
    expect((decoded as TroupeError).retryable).toBe(error.retryable);
    expect(decoded.stack).toBe(error.stack);
    expect(decoded.cause).toBeInstanceOf(Error);
  });

  test('fields beside data arrive with their class', () => {
    expect((crossed(new MailboxFullError('full', { retryAfterMs: 7 })) as MailboxFullError).retryAfterMs).toBe(7);
    const overloaded = crossed(new ModelError('model_overloaded', 'busy', { status: 529, retryable: true }));
    expect(overloaded).toBeInstanceOf(ModelError);
    expect(overloaded).toMatchObject({ status: 529, retryable: true, code: 'model_overloaded' });
    expect((crossed(new ConfigError('no agent', { code: 'unknown_agent' })) as TroupeError).code).toBe('unknown_agent');
  });

  test('data that is not plain is replaced, and the error still arrives', () => {
    const decoded = crossed(new ConfigError('bad', { data: { run: () => 1 } }));
    expect(decoded).toBeInstanceOf(ConfigError);
    expect(JSON.stringify((decoded as TroupeError).data)).toContain('$.run');
  });
});

describe('foreign errors', () => {
  test('built-in errors keep their class, others their name and code', () => {
    expect(crossed(new RangeError('far'))).toBeInstanceOf(RangeError);
    class HttpError extends Error {}
    expect(crossed(new HttpError('404'))).toMatchObject({ name: 'HttpError', message: '404' });
    const missing = crossed(Object.assign(new Error('no such file'), { code: 'ENOENT' }));
    expect(missing).toMatchObject({ code: 'ENOENT', message: 'no such file' });
    expect(missing).not.toBeInstanceOf(TroupeError);
  });

  test('causes are kept to a depth of five', () => {
    let error = new Error('depth 9');
    for (let depth = 8; depth >= 0; depth -= 1) error = new Error(`depth ${depth}`, { cause: error });
    let at: unknown = crossed(error);
    const messages: string[] = [];
    while (at instanceof Error) {
      messages.push(at.message);
      at = at.cause;
    }
    expect(messages).toEqual(['depth 0', 'depth 1', 'depth 2', 'depth 3', 'depth 4', 'depth 5']);
  });

  test('F54: any thrown value can be encoded', () => {
    const evil = new Error('x');
    Object.defineProperty(evil, 'message', {
      get: () => {
        throw new Error('gotcha');
      },
    });
    const self = new Error('self');
    self.cause = self;
    const trap = new Proxy(
      {},
      {
        getPrototypeOf: () => {
          throw new Error('trap');
        },
      },
    );
    for (const thrown of ['text', 42, null, undefined, {}, Symbol('s'), 10n, evil, self, trap, () => 1]) {
      expect(crossed(thrown)).toBeInstanceOf(Error);
    }
    expect(crossed('text').message).toBe('text');
  });

  test('A9: an error message of a megabyte is cut', () => {
    expect(crossed(new Error('x'.repeat(1_000_000))).message.length).toBeLessThan(20_000);
  });
});
