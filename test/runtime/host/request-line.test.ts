import { describe, expect, it } from 'vitest';
import { RequestLine, textBytes } from '../../../src/runtime/host/request-line.ts';

describe('large requests to a shard', () => {
  it('Q1: beyond the bound large requests wait, and are sent as earlier ones are answered', async () => {
    const line = new RequestLine(10);
    const left: string[] = [];
    const enter = (name: string, bytes: number) => line.enter(name, bytes)?.then(() => left.push(name));
    expect(enter('a', 6)).toBeUndefined();
    expect(enter('b', 4)).toBeUndefined();
    const third = enter('c', 5);
    const fourth = enter('d', 1);
    expect(line.isEmpty).toBe(false);
    line.left(4);
    await Promise.resolve();
    // Requests are served in the order they came, so small requests cannot keep overtaking a large one.
    expect(left).toEqual([]);
    line.left(6);
    await Promise.all([third, fourth]);
    expect(left).toEqual(['c', 'd']);
    expect(line.isEmpty).toBe(true);
  });

  it('Q1: a request larger than the bound is sent alone', async () => {
    const line = new RequestLine(10);
    expect(line.enter('a', 50)).toBeUndefined();
    const next = line.enter('b', 1);
    expect(next).toBeDefined();
    line.left(50);
    await next;
  });

  it('Q2: a small request waits behind a large one of its session; small requests of other sessions pass', async () => {
    const line = new RequestLine(10);
    expect(line.enter('a', 10)).toBeUndefined();
    const large = line.enter('a', 5);
    const small = line.enter('a', 0);
    expect(line.enter('b', 0)).toBeUndefined();
    const order: string[] = [];
    const both = [large?.then(() => order.push('large')), small?.then(() => order.push('small'))];
    line.left(10);
    await Promise.all(both);
    expect(order).toEqual(['large', 'small']);
    expect(line.enter('a', 0)).toBeUndefined();
  });

  it('the texts of a request count wherever in it they are', () => {
    expect(textBytes({ session: 's', content: [{ type: 'text', text: '12345' }], n: 7, none: undefined })).toBe(10);
    expect(textBytes({ session: 's', json: new Uint8Array(7) })).toBe(8);
  });
});
