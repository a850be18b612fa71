// Goal: an object behind a bridge behaves and fails like a local object with promises, and exposes nothing else.
import { afterEach, describe, expect, test } from 'vitest';
import { ConfigError } from '../../src/base/errors.ts';
import { type Bridge, createBridgePorts, exposeObject, wrapObject } from '../../src/threads/comlink-bridge.ts';

class Service {
  #calls = 0;
  readonly secret: string = 'not a method';
  count(by: number): number {
    this.#calls += by;
    return this.#calls;
  }
  later(value: unknown): Promise<unknown> {
    return Promise.resolve(value);
  }
  fail(): never {
    throw new ConfigError('refused', { data: { key: 'x' }, cause: new RangeError('below') });
  }
  functions(): () => number {
    return () => 1;
  }
  never(): Promise<void> {
    return new Promise(() => undefined);
  }
}

const closers: (() => void)[] = [];
function bridge(object: object = new Service()): Bridge<Service> {
  const { exposed, wrapped } = createBridgePorts();
  const bridged = wrapObject<Service>(wrapped);
  closers.push(exposeObject(object, exposed), bridged.close);
  return bridged;
}
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

describe('a bridge', () => {
  test('calls methods with the object as this', async () => {
    const { remote } = bridge();
    expect(await remote.count(2)).toBe(2);
    expect(await remote.count(3)).toBe(5);
    expect(await remote.later({ a: 1 })).toEqual({ a: 1 });
  });

  test('B1: errors keep class, code, data and cause', async () => {
    const error = await bridge()
      .remote.fail()
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConfigError);
    expect(error).toMatchObject({ code: 'config', data: { key: 'x' } });
    expect((error as Error).cause).toBeInstanceOf(RangeError);
  });

  test('B1: arguments and results that cannot be cloned reject; the bridge still works', async () => {
    const { remote } = bridge();
    await expect(remote.functions()).rejects.toThrow();
    await expect(remote.later(() => 1)).rejects.toThrow();
    expect(await remote.count(1)).toBe(1);
  });

  test('B1: a port that closes on either side rejects open and later calls', async () => {
    const near = bridge();
    const open = near.remote.never().catch((error: unknown) => error);
    near.close();
    expect(await open).toMatchObject({ code: 'internal', retryable: true });
    await expect(near.remote.count(1)).rejects.toMatchObject({ code: 'internal' });

    const { exposed, wrapped } = createBridgePorts();
    const stop = exposeObject(new Service(), exposed);
    const { remote } = wrapObject<Service>(wrapped);
    await remote.count(1);
    const waiting = remote.never().catch((error: unknown) => error);
    stop();
    expect(await waiting).toMatchObject({ code: 'internal' });
  });

  test('B2: fields, the constructor and inherited members of Object cannot be reached', async () => {
    const remote = bridge().remote as unknown as Record<string, () => Promise<unknown>>;
    for (const name of ['secret', 'constructor', 'toString', '__proto__', 'hasOwnProperty', 'nothing']) {
      await expect(remote[name]?.()).rejects.toThrow('no method');
    }
  });

  test('a remote can be awaited and is not mistaken for a promise', async () => {
    const { remote } = bridge();
    expect(await (await Promise.resolve(remote)).count(1)).toBe(1);
  });

  test('plain objects can be exposed', async () => {
    expect(await bridge({ count: (by: number) => by * 10 }).remote.count(4)).toBe(40);
  });
});
